//! Tests of many electors that share one task, one watch and one client.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use pintle_leaderelect::{
    ElectionStatus, EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease, LeaseGroup,
    LeaseGroupConfig, LeaseLock,
};
use pintle_meta::{ObjectKey, Reason};
use pintle_testing::{Break, Client, Collection, Outcome, RecordedRequest, Verb};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};

struct Fleet {
    client: Client<Lease>,
    electors: LeaseGroup<Client<Lease>>,
}

struct Contender {
    status: ElectionStatus,
    stop: CancellationToken,
    run: JoinHandle<Option<EndReason>>,
}

fn key(index: usize) -> ObjectKey {
    ObjectKey::new("kube-system", &format!("shard-{index}"))
}

fn fleet(server: &Collection<Lease>, identity: &str, in_flight: usize) -> Fleet {
    let client = server.client(identity);
    let election = LeaderElectionConfig {
        identity: identity.into(),
        clocks: TestClock::new(),
        seed: Some(7),
        ..LeaderElectionConfig::default()
    };
    let labels = [("app".to_owned(), "test".to_owned())].into();
    let config = LeaseGroupConfig { labels, in_flight, election };
    Fleet { electors: LeaseGroup::start(client.clone(), "kube-system", config).unwrap(), client }
}

impl Fleet {
    fn elector(&self, index: usize) -> LeaderElector<LeaseLock<Client<Lease>>> {
        self.electors.elector(key(index).name())
    }

    fn contend(&self, index: usize) -> Contender {
        let mut elector = self.elector(index);
        let (status, stop) = (elector.status(), CancellationToken::new());
        let stopped = stop.clone();
        let run = tokio::spawn(async move { elector.run(&stopped, work()).await.map(|end| end.reason) });
        Contender { status, stop, run }
    }

    fn contend_all(&self, count: usize) -> Vec<Contender> {
        (0..count).map(|index| self.contend(index)).collect()
    }
}

fn work() -> LeaderCallbacks<impl FnMut(Leadership) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>, ()> {
    LeaderCallbacks::new(|leadership: Leadership| async move { leadership.cancelled().await }.boxed())
}

fn leaders(contenders: &[Contender]) -> usize {
    contenders.iter().filter(|contender| contender.status.is_leader()).count()
}

fn renewals(requests: &[RecordedRequest]) -> BTreeMap<&ObjectKey, usize> {
    let mut renewals = BTreeMap::new();
    for request in requests {
        assert_eq!(request.verb(), Verb::Update, "{request}");
        *renewals.entry(request.key().unwrap()).or_default() += 1;
    }
    renewals
}

#[tokio::test(start_paused = true)]
async fn hundred_leases_share_one_task_without_a_watch() {
    let server = Collection::default();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let fleet = fleet(&server, "a", 8);
    let mut electors: Vec<_> = (0..100).map(|index| fleet.elector(index)).collect();
    let statuses: Vec<_> = electors.iter().map(LeaderElector::status).collect();
    let stop = CancellationToken::new();
    let runs = join_all(electors.iter_mut().map(|elector| elector.run(&stop, work())));
    let story = async {
        pass(5.0).await;
        assert!(statuses.iter().all(ElectionStatus::is_leader));
        assert_eq!(tasks() - before, 1);
        let watches = server.take_requests().iter().filter(|request| request.verb() == Verb::Watch).count();
        assert_eq!(watches, 0);
        pass(20.0).await;
        let requests = server.take_requests();
        let renewals = renewals(&requests);
        assert_eq!(renewals.len(), 100);
        assert!(renewals.values().all(|count| (9..=11).contains(count)), "{renewals:?}");
        // The group sends only renewals, in four batches per two seconds. Each batch is smaller than the limit of
        // requests in flight.
        pass(0.495).await;
        server.take_requests();
        for _ in 0..4 {
            pass(0.010).await;
            let group = server.take_requests().len();
            assert!((24..=26).contains(&group), "{group} requests at a time");
            pass(0.490).await;
            assert_eq!(server.take_requests(), []);
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(runs, story);
    assert!(ended.into_iter().all(|end| end.unwrap().reason == EndReason::Cancelled));
    assert!(server.objects().iter().all(|lease| lease.spec.record().is_vacant()));
    assert!(server.objects().iter().all(|lease| lease.metadata.labels["app"] == "test"));
    drop((electors, fleet));
    pass(0.1).await;
    assert_eq!(tasks(), before);
}

/// A stall of the server merges the batches, which must split again afterwards.
#[tokio::test(start_paused = true)]
async fn batches_split_again_after_a_stall() {
    let server = Collection::default();
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = is_slow.clone();
    let answer = Outcome::AnswerSlow(Duration::from_millis(2_500));
    server.faults().when(move |_| slow.load(Ordering::Relaxed).then(|| answer.clone()));
    let fleet = fleet(&server, "a", 8);
    let contenders = fleet.contend_all(100);
    pass(5.0).await;
    assert_eq!(leaders(&contenders), 100);
    let batches = async || {
        let mut batches = Vec::new();
        for _ in 0..4 {
            pass(0.5).await;
            batches.push(server.take_requests().len());
        }
        batches.sort_unstable();
        batches
    };
    server.take_requests();
    let is_even = |batches: &[usize]| batches.iter().all(|batch| (24..=26).contains(batch));
    let before = batches().await;
    assert!(is_even(&before), "{before:?}");
    is_slow.store(true, Ordering::Relaxed);
    pass(2.0).await;
    is_slow.store(false, Ordering::Relaxed);
    pass(3.0).await;
    server.take_requests();
    let merged = batches().await;
    assert!(!is_even(&merged), "{merged:?}");
    pass(10.0).await;
    server.take_requests();
    let after = batches().await;
    assert!(is_even(&after), "{after:?}");
    assert_eq!(leaders(&contenders), 100);
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_bounded() {
    for (in_flight, leases, bound) in [(4, 20, 10), (4, 7, 4), (12, 20, 12), (4, 9, 5), (0, 1, 1)] {
        let server = Collection::default();
        let slow = Outcome::AnswerSlow(Duration::from_secs(1));
        server.faults().when(move |request| (request.verb() != Verb::Watch).then_some(slow.clone()));
        let fleet = fleet(&server, "a", in_flight);
        let contenders = fleet.contend_all(leases);
        pass(0.5).await;
        let requests = || server.take_requests().iter().filter(|request| request.verb() != Verb::Watch).count();
        for round in 0..6 {
            let requests = requests();
            // After reading a lock, each candidate sends its create request without queueing again.
            assert!(
                requests <= bound && (round > 1 || requests == bound),
                "{requests} of {in_flight} {leases}, round {round}"
            );
            pass(1.0).await;
        }
        drop(contenders);
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_precede_candidate_requests() {
    let server = Collection::default();
    let other = fleet(&server, "other", 8);
    let _others: Vec<_> = (2..32).map(|index| other.contend(index)).collect();
    pass(1.0).await;
    let fleet = fleet(&server, "a", 1);
    // Candidates have to poll without a watch. The requests are so slow that every poll waits in the group's queue.
    fleet.client.faults().when(|request| match request.verb() {
        Verb::Watch => Some(Outcome::refused(403, Reason::Forbidden)),
        _ => Some(Outcome::AnswerSlow(Duration::from_millis(500))),
    });
    let contenders = fleet.contend_all(2);
    pass(5.0).await;
    let _more: Vec<_> = (2..32).map(|index| fleet.contend(index)).collect();
    for _ in 0..120 {
        pass(1.0).await;
        assert_eq!(leaders(&contenders), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn releases_precede_polls() {
    let server = Collection::default();
    let other = fleet(&server, "other", 8);
    let _others: Vec<_> = (1..41).map(|index| other.contend(index)).collect();
    pass(1.0).await;
    let fleet = fleet(&server, "a", 1);
    fleet.client.faults().when(|request| match request.verb() {
        Verb::Watch => Some(Outcome::refused(403, Reason::Forbidden)),
        _ => Some(Outcome::AnswerSlow(Duration::from_millis(500))),
    });
    let leader = fleet.contend(0);
    pass(2.0).await;
    let _polling: Vec<_> = (1..41).map(|index| fleet.contend(index)).collect();
    pass(15.0).await;
    assert!(leader.status.is_leader());
    leader.stop.cancel();
    // The release consists of two requests. Each of these requests waits for the end of an earlier request.
    pass(1.6).await;
    assert!(leader.run.is_finished());
    assert_eq!(leader.run.await.unwrap(), Some(EndReason::Cancelled));
    assert!(server.object(&key(0)).unwrap().spec.record().is_vacant());
}

#[tokio::test(start_paused = true)]
async fn hanging_requests_cost_no_term_of_a_group() {
    let server = Collection::default();
    let fleet = fleet(&server, "a", 4);
    let contenders = fleet.contend_all(40);
    pass(5.0).await;
    let terms = |contenders: &[Contender]| -> Vec<_> {
        contenders.iter().map(|contender| contender.status.leadership().unwrap().term().clone()).collect()
    };
    let before = terms(&contenders);
    for _ in 0..10 {
        fleet.client.faults().next_of(Verb::Update, [Outcome::Lost, Outcome::Lost, Outcome::AnswerLost, Outcome::Lost]);
        pass(7.0).await;
    }
    assert_eq!(terms(&contenders), before);
}

#[tokio::test(start_paused = true)]
async fn release_is_noticed_by_the_shared_watch() {
    let server = Collection::default();
    let (a, b) = (fleet(&server, "a", 8), fleet(&server, "b", 8));
    let mut of_a = a.contend_all(10);
    pass(2.0).await;
    let of_b = b.contend_all(10);
    pass(1.0).await;
    server.take_requests();
    pass(600.0).await;
    let requests = server.take_requests();
    let of_standby = requests.iter().filter(|request| request.client == "b").count();
    assert_eq!((leaders(&of_a), leaders(&of_b), of_standby), (10, 0, 0));

    let released = of_a.remove(3);
    released.stop.cancel();
    assert_eq!(released.run.await.unwrap(), Some(EndReason::Cancelled));
    pass(0.1).await;
    assert!(of_b[3].status.is_leader());
    assert_eq!((leaders(&of_a), leaders(&of_b)), (9, 1));
    drop(of_a.into_iter().map(|contender| contender.run.abort()).collect::<Vec<_>>());
    pass(15.5).await;
    assert_eq!(leaders(&of_b), 10);
}

#[tokio::test(start_paused = true)]
async fn group_polls_where_watches_are_forbidden() {
    let server = Collection::<Lease>::default();
    server.faults().when(|request| (request.verb() == Verb::Watch).then(|| Outcome::refused(403, Reason::Forbidden)));
    let a = fleet(&server, "a", 8);
    let of_a = a.contend_all(20);
    pass(5.0).await;
    let b = fleet(&server, "b", 8);
    let of_b = b.contend_all(20);
    pass(30.0).await;
    assert_eq!((leaders(&of_a), leaders(&of_b)), (20, 0));
    // A poll finds the released leases, and the first poll after their expiry finds the abandoned leases.
    of_a[..10].iter().for_each(|contender| contender.stop.cancel());
    pass(4.6).await;
    assert_eq!((leaders(&of_a), leaders(&of_b)), (10, 10));
    drop(a);
    of_a[10..].iter().for_each(|contender| contender.run.abort());
    pass(12.0).await;
    assert_eq!(leaders(&of_b), 10);
    pass(15.0 + 4.6 - 12.0).await;
    assert_eq!(leaders(&of_b), 20);
}

#[tokio::test(start_paused = true)]
async fn dropped_elector_does_not_affect_the_group() {
    let server = Collection::default();
    let fleet = fleet(&server, "a", 8);
    let mut contenders = fleet.contend_all(5);
    pass(5.0).await;
    let dropped = contenders.remove(2);
    let leadership = dropped.status.leadership().unwrap();
    dropped.run.abort();
    assert!(dropped.run.await.unwrap_err().is_cancelled());
    assert_eq!(leadership.check().unwrap_err().reason, EndReason::Dropped);
    server.take_requests();
    pass(20.0).await;
    let requests = server.take_requests();
    let renewals = renewals(&requests);
    assert_eq!((renewals.len(), renewals.contains_key(&key(2)), leaders(&contenders)), (4, false, 4));
    let next = fleet.contend(2);
    pass(16.0).await;
    assert!(next.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn late_elector_uses_the_open_watch() {
    let server = Collection::default();
    let (a, b) = (fleet(&server, "a", 8), fleet(&server, "b", 8));
    let of_a = a.contend_all(2);
    pass(30.0).await;
    let of_b = b.contend_all(2);
    pass(1.0).await;
    let watches = server.take_requests().iter().filter(|request| request.verb() == Verb::Watch).count();
    assert_eq!(watches, 1);
    of_a[0].stop.cancel();
    pass(0.1).await;
    assert_eq!((leaders(&of_a), leaders(&of_b)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn group_that_leads_all_leases_closes_its_watch() {
    let server = Collection::default();
    let slow = Outcome::AnswerSlow(Duration::from_millis(500));
    server.faults().when(move |request| (request.verb() == Verb::Create).then(|| slow.clone()));
    let a = fleet(&server, "a", 8);
    let mut of_a = a.contend_all(3);
    pass(0.4).await;
    assert_eq!((leaders(&of_a), server.open_watches()), (0, 1));
    pass(2.0).await;
    assert_eq!((leaders(&of_a), server.open_watches()), (3, 1));
    pass(0.2).await;
    assert_eq!((leaders(&of_a), server.open_watches()), (3, 0));

    // A group that is a candidate for one lease needs its watch.
    let b = fleet(&server, "b", 8);
    let mut of_b = vec![b.contend(0)];
    pass(10.0).await;
    assert_eq!(server.open_watches(), 1);
    of_a.remove(0).stop.cancel();
    pass(0.1).await;
    assert_eq!((leaders(&of_a), leaders(&of_b)), (2, 1));
    pass(2.5).await;
    assert_eq!(server.open_watches(), 0);

    // The next renewal finds that a lease has a new holder. The watch then reports when this holder releases the lease.
    let key = key(1);
    let taken = server.change(&key, |lease| lease.spec.holder_identity = Some("c".into()));
    assert_eq!(taken.spec.record().holder_identity, "c");
    pass(2.1).await;
    assert_eq!((leaders(&of_a), server.open_watches()), (1, 1));
    server.change(&key, |lease| lease.spec.holder_identity = None);
    pass(0.1).await;
    assert_eq!(leaders(&of_a), 2);
    of_b.push(b.contend(1));
    pass(2.5).await;
    assert_eq!(server.open_watches(), 1);
    of_b.iter().chain(&of_a).for_each(|contender| contender.stop.cancel());
    pass(2.5).await;
    assert_eq!(server.open_watches(), 0);
}

/// Without a watch, a program that writes the object faster than the group renews would cause a conflict at each
/// renewal.
#[tokio::test(start_paused = true)]
async fn conflict_opens_the_watch_until_the_term_ends() {
    let server = Collection::<Lease>::default();
    let a = fleet(&server, "a", 8);
    let of_a = a.contend_all(2);
    pass(5.0).await;
    assert_eq!(server.open_watches(), 0);
    let write = |count: usize| {
        server.change(&key(0), |lease| lease.metadata.labels.extend([("count".into(), count.to_string())]))
    };
    write(0);
    pass(2.1).await;
    assert_eq!(server.open_watches(), 1);
    server.take_requests();
    // Write between the renewals, which the group sends at multiples of 0.5 s.
    pass(0.05).await;
    for count in 1..100 {
        write(count);
        pass(0.3).await;
    }
    let requests = server.take_requests();
    assert!(requests.iter().all(|request| request.verb() == Verb::Update));
    assert_eq!((leaders(&of_a), server.open_watches()), (2, 1));
    of_a[0].stop.cancel();
    pass(2.5).await;
    assert_eq!((leaders(&of_a), server.open_watches()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn lease_without_its_label_keeps_its_term() {
    let server = Collection::<Lease>::default();
    let (a, b) = (fleet(&server, "a", 8), fleet(&server, "b", 8));
    let of_a = a.contend_all(2);
    pass(1.0).await;
    let of_b = b.contend_all(2);
    pass(10.0).await;
    let term = of_a[0].status.leadership().unwrap();
    server.change(&key(0), |lease| lease.metadata.labels.clear());
    pass(10.0).await;
    assert!(term.check().is_ok());
    assert_eq!(server.object(&key(0)).unwrap().metadata.labels["app"], "test");
    assert_eq!((leaders(&of_a), leaders(&of_b)), (2, 0));
    assert!(server.remove(&key(0)));
    pass(0.1).await;
    assert_eq!(term.check().unwrap_err().reason, EndReason::Deleted);
    let next = of_a[0].status.leadership().unwrap();
    assert_ne!(next.token().unwrap().uid, term.token().unwrap().uid);
}

#[tokio::test(start_paused = true)]
async fn panic_in_one_request_ends_one_election() {
    let server = Collection::default();
    server.faults().when(|request| {
        assert_ne!(request.key(), Some(&key(1)), "panicked");
        None
    });
    let fleet = fleet(&server, "a", 8);
    let contenders = [fleet.contend(0), fleet.contend(2)];
    let ended = AssertUnwindSafe(fleet.elector(1).run(&CancellationToken::new(), work())).catch_unwind().await;
    assert!(ended.unwrap_err().downcast_ref::<String>().unwrap().contains("panicked"));
    pass(30.0).await;
    assert_eq!(leaders(&contenders), 2);
}

#[tokio::test(start_paused = true)]
async fn elections_poll_after_the_shared_watch_panics() {
    for breaks_after in [0, 20] {
        let server = Collection::default();
        let watches = AtomicUsize::new(0);
        server.faults().when(move |request| {
            let nth = if request.verb() == Verb::Watch { watches.fetch_add(1, Ordering::Relaxed) } else { 2 };
            assert!(nth > 1 || (nth == 0 && breaks_after > 0), "panicked");
            (nth == 0).then_some(Outcome::Breaks { after: breaks_after, how: Break::End })
        });
        let fleet = fleet(&server, "a", 8);
        let contenders = fleet.contend_all(2);
        pass(60.0).await;
        assert_eq!(leaders(&contenders), 2);
        let other = self::fleet(&server, "b", 8);
        let waiting = other.contend_all(2);
        pass(5.0).await;
        contenders.iter().for_each(|contender| contender.stop.cancel());
        pass(5.0).await;
        assert_eq!((leaders(&contenders), leaders(&waiting)), (0, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_labels_are_rejected() {
    let labels = [("no label".to_owned(), String::new())].into();
    let config = LeaseGroupConfig { labels, ..LeaseGroupConfig::default() };
    let refused = LeaseGroup::start(Collection::default(), "kube-system", config).unwrap_err();
    assert!(refused.to_string().starts_with("labels: "), "{refused}");
}

/// A group's task runs on the runtime where the group was started.
#[test]
fn elector_fails_if_the_runtime_of_its_group_ended() {
    let [first, second] =
        [(), ()].map(|()| Builder::new_current_thread().enable_time().start_paused(true).build().unwrap());
    let group = first.block_on(async { fleet(&Collection::default(), "a", 8) });
    let mut elector = group.electors.elector("shard-0");
    drop(first);
    let run = second.block_on(async {
        let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        tokio::spawn(async move { elector.run(&CancellationToken::new(), work).await.map(drop) }).await
    });
    let panic = run.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "the runtime of the election's task has shut down");
}

/// A run that was polled outside a runtime must not prevent later runs.
#[test]
fn elector_leads_after_a_poll_outside_a_runtime() {
    let (client, config) = (Collection::default().client("a"), LeaseGroupConfig::default());
    let group = LeaseGroup::new(client, "kube-system", config, &BTreeMap::new(), |_| {}).unwrap();
    let mut elector = group.elector("shard-0");
    let stop = CancellationToken::new();
    let work = || LeaderCallbacks::new(async |_| ());
    let poll = AssertUnwindSafe(|| elector.run(&stop, work()).now_or_never().map(drop));
    let panic = catch_unwind(poll).unwrap_err();
    let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref().copied());
    assert!(message.is_some_and(|message| message.contains("Tokio")), "{message:?}");
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let ended = runtime.block_on(elector.run(&stop, work())).unwrap();
    assert_eq!(ended.reason, EndReason::Completed);
}
