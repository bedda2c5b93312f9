//! Tests of a process that contends for many leases on a slow server.

use std::time::Duration;

use futures_util::future::join_all;
use pintle_leaderelect::{
    ElectionStatus, EndReason, LeaderCallbacks, LeaderElectionConfig, Leadership, Lease, LeaseGroup, LeaseGroupConfig,
    Term,
};
use pintle_meta::Reason;
use pintle_testing::{Client, Collection, Outcome, Verb};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};

struct Fleet {
    client: Client<Lease>,
    electors: LeaseGroup<Client<Lease>>,
    stop: CancellationToken,
    statuses: Vec<ElectionStatus>,
    runs: Vec<JoinHandle<Option<EndReason>>>,
}

impl Fleet {
    /// Starts a group of electors with the default limit of requests in flight.
    fn start(server: &Collection<Lease>, identity: &str, leases: std::ops::Range<usize>) -> Self {
        let election = LeaderElectionConfig {
            identity: identity.into(),
            clocks: TestClock::new(),
            seed: Some(7),
            ..LeaderElectionConfig::default()
        };
        let labels = [("app".to_owned(), "test".to_owned())].into();
        let config = LeaseGroupConfig { labels, election, ..LeaseGroupConfig::default() };
        let client = server.client(identity);
        let electors = LeaseGroup::start(client.clone(), "kube-system", config).unwrap();
        let mut fleet =
            Self { client, electors, stop: CancellationToken::new(), statuses: Vec::new(), runs: Vec::new() };
        fleet.contend(leases);
        fleet
    }

    fn contend(&mut self, leases: std::ops::Range<usize>) {
        for index in leases {
            let mut elector = self.electors.elector(&format!("shard-{index}"));
            self.statuses.push(elector.status());
            let stop = self.stop.clone();
            self.runs.push(tokio::spawn(async move {
                let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
                elector.run(&stop, work).await.map(|end| end.reason)
            }));
        }
    }

    fn terms(&self) -> Vec<Option<Term>> {
        self.statuses.iter().map(|status| status.leadership().map(|leadership| leadership.term().clone())).collect()
    }

    fn leaders(&self) -> usize {
        self.statuses.iter().filter(|status| status.is_leader()).count()
    }

    fn die(&self) {
        self.runs.iter().for_each(JoinHandle::abort);
    }
}

fn answer_after(client: &Client<Lease>, seconds: f64) {
    let latency = Duration::from_secs_f64(seconds);
    client.faults().when(move |request| (request.verb() != Verb::Watch).then_some(Outcome::AnswerSlow(latency)));
}

#[tokio::test(start_paused = true)]
async fn hundred_terms_survive_a_slow_server() {
    // A single elector tolerates response times of up to 3.3 s, a third of the renew deadline.
    for latency in [0.3, 0.5, 1.5, 3.0] {
        let server = Collection::default();
        let fleet = Fleet::start(&server, "a", 0..100);
        pass(30.0).await;
        let before = fleet.terms();
        assert!(before.iter().all(Option::is_some));
        answer_after(&fleet.client, latency);
        for second in 0..120 {
            pass(1.0).await;
            assert_eq!(fleet.leaders(), 100, "answers after {latency} s, in second {second}");
        }
        assert_eq!(fleet.terms(), before, "answers after {latency} s");
        fleet.die();
    }
}

#[tokio::test(start_paused = true)]
async fn lost_leases_are_retaken_from_a_slow_server() {
    for latency in [0.5, 1.5] {
        let server = Collection::default();
        let fleet = Fleet::start(&server, "a", 0..100);
        pass(30.0).await;
        fleet.client.faults().cut_off();
        pass(15.0).await;
        assert_eq!(fleet.leaders(), 0);
        fleet.client.faults().heal();
        answer_after(&fleet.client, latency);
        // A candidate pauses, reads the lock and then writes the lock. If another candidate's requests are ahead in
        // the queue, the candidate also waits for a read and a write of this other candidate.
        pass(4.4 + 3.4 + 4.0 * latency + 0.1).await;
        assert_eq!(fleet.leaders(), 100, "answers after {latency} s");
        let taken = fleet.terms();
        pass(60.0).await;
        assert_eq!(fleet.terms(), taken, "answers after {latency} s");
        fleet.die();
    }
}

#[tokio::test(start_paused = true)]
async fn candidates_are_not_starved_by_renewals() {
    for latency in [0.5, 1.5] {
        let server = Collection::default();
        let other = Fleet::start(&server, "other", 50..100);
        pass(1.0).await;
        let mut fleet = Fleet::start(&server, "a", 0..50);
        fleet.contend(50..100);
        pass(30.0).await;
        assert_eq!(fleet.leaders(), 50);
        let before = fleet.terms();
        answer_after(&fleet.client, latency);
        pass(10.0).await;
        other.die();
        pass(15.2 + 4.0 * latency + 0.1).await;
        assert_eq!(fleet.leaders(), 100, "answers after {latency} s");
        assert_eq!(fleet.terms()[..50], before[..50], "answers after {latency} s");
        fleet.die();
    }
}

/// The candidates for some of the leases wait for responses that never arrive. The electors for the remaining leases
/// must not lose their terms.
#[tokio::test(start_paused = true)]
async fn hanging_candidate_requests_cost_no_term() {
    let server = Collection::default();
    let other = Fleet::start(&server, "other", 10..110);
    pass(1.0).await;
    let mut fleet = Fleet::start(&server, "a", 0..10);
    pass(5.0).await;
    let before = fleet.terms();
    fleet.client.faults().when(|request| match request.verb() {
        Verb::Get => Some(Outcome::Lost),
        Verb::Watch => Some(Outcome::refused(403, Reason::Forbidden)),
        _ => None,
    });
    fleet.contend(10..110);
    pass(120.0).await;
    assert_eq!(fleet.terms()[..10], before[..]);
    other.die();
    fleet.die();
}

#[tokio::test(start_paused = true)]
async fn stop_releases_a_hundred_leases_on_slow_server() {
    for latency in [0.05, 0.6, 1.5] {
        let server = Collection::default();
        let fleet = Fleet::start(&server, "a", 0..100);
        pass(30.0).await;
        answer_after(&fleet.client, latency);
        pass(10.0).await;
        let begun = Instant::now();
        fleet.stop.cancel();
        let ended = join_all(fleet.runs).await;
        let took = begun.elapsed().as_secs_f64();
        assert!(ended.into_iter().all(|end| end.unwrap() == Some(EndReason::Cancelled)));
        let held = server.objects().iter().filter(|lease| !lease.spec.record().is_vacant()).count();
        assert_eq!(held, 0, "answers after {latency} s");
        // Each release waits for the renewal in flight, and then sends a read and a write. A queued release also waits
        // for a read and a write that are ahead in the queue.
        assert!(took <= 5.0 * latency + 0.1, "answers after {latency} s: {took} s");
    }
}

/// The deadline is measured from the time at which a queued renewal is sent. The record contains this time.
#[tokio::test(start_paused = true)]
async fn deadline_counts_from_sending_a_queued_renewal() {
    let server = Collection::default();
    let fleet = Fleet::start(&server, "a", 0..40);
    pass(30.0).await;
    answer_after(&fleet.client, 3.0);
    pass(60.0).await;
    for lease in server.objects() {
        let index: usize = lease.metadata.name.strip_prefix("shard-").unwrap().parse().unwrap();
        let leadership = fleet.statuses[index].leadership().unwrap();
        let renewed = lease.spec.renew_time.unwrap().0;
        // While the response to a stored renewal is in flight, the deadline is measured from the previous renewal.
        let counted = leadership.deadline().wall.duration_since(renewed).as_secs_f64();
        assert!((4.0..=10.001).contains(&counted), "{index}: the deadline is {counted} s after the renewal");
    }
    fleet.die();
}
