//! Tests of the object that a coordinated candidate publishes, and of its responses to pings.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pintle_leaderelect::{Candidate, LeaseCandidate, LeaseCandidateSpec, OLDEST_EMULATION_VERSION};
use pintle_meta::{ApiResource, MicroTime, ObjectKey, Reason, Scope};
use pintle_testing::{Break, Collection, CollectionConfig, Outcome, Verb};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};

struct Running {
    server: Collection<LeaseCandidate>,
    clock: std::sync::Arc<TestClock>,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

fn key() -> ObjectKey {
    ObjectKey::new("kube-system", "host_1")
}

fn start(server: Collection<LeaseCandidate>) -> Running {
    let clock = TestClock::new();
    let spec = LeaseCandidateSpec { emulation_version: "1.35.0".into(), ..LeaseCandidateSpec::new("lock", "1.36.0") };
    let api = server.client("host_1");
    let candidate = Candidate { clocks: clock.clone(), ..Candidate::new(api, "kube-system", "host_1", spec) };
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let run = tokio::spawn(async move { candidate.run(&stopped).await });
    Running { server, clock, stop, run }
}

impl Running {
    fn spec(&self) -> LeaseCandidateSpec {
        self.server.object(&key()).expect("no candidate").spec
    }

    fn ping(&self, ahead: SignedDuration) -> Timestamp {
        let now = Timestamp::from_microsecond(self.clock.0.wall().as_microsecond()).unwrap() + ahead;
        self.server.change(&key(), |candidate| candidate.spec.ping_time = Some(MicroTime(now)));
        now
    }

    fn renewed(&self) -> Timestamp {
        self.spec().renew_time.expect("never renewed").0
    }

    fn writes(&self) -> usize {
        let written = |verb| matches!(verb, Verb::Create | Verb::Update);
        self.server.take_requests().iter().filter(|request| written(request.verb())).count()
    }
}

#[tokio::test(start_paused = true)]
async fn candidate_publishes_and_renews_its_object() {
    let candidate = start(Collection::default());
    pass(0.1).await;
    let published = candidate.server.object(&key()).unwrap();
    assert_eq!(published.types.api_version, "coordination.k8s.io/v1beta1");
    let spec = &published.spec;
    let published_fields = [&spec.lease_name, &spec.binary_version, &spec.emulation_version, &spec.strategy];
    assert_eq!(published_fields, ["lock", "1.36.0", "1.35.0", OLDEST_EMULATION_VERSION]);
    let first = candidate.renewed();
    assert_eq!(candidate.writes(), 1);
    // Without pings, a candidate renews its object every five minutes.
    pass(1_490.0).await;
    assert_eq!(candidate.writes(), 4);
    assert!(candidate.renewed() > first);
    candidate.stop.cancel();
    candidate.run.await.unwrap();
    assert!(candidate.server.object(&key()).is_some(), "the object is not deleted, it expires");
}

#[tokio::test(start_paused = true)]
async fn ping_is_answered_by_watch_or_next_poll() {
    for (watched, within) in [(true, 0.01), (false, 2.1)] {
        let server = Collection::<LeaseCandidate>::default();
        server.faults().when(move |request| {
            (!watched && request.verb() == Verb::Watch).then(|| Outcome::refused(403, Reason::Forbidden))
        });
        let candidate = start(server);
        pass(30.0).await;
        let pinged = candidate.ping(SignedDuration::ZERO);
        assert!(candidate.renewed() < pinged);
        pass(within).await;
        assert!(candidate.renewed() > pinged, "watched: {watched}");
        candidate.writes();
        let pinged = candidate.ping(SignedDuration::from_secs(20));
        pass(within).await;
        assert!(candidate.renewed() > pinged);
        pass(60.0).await;
        assert_eq!(candidate.writes(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn silent_watch_of_a_candidate_is_reopened() {
    let candidate = start(Collection::default());
    pass(1.0).await;
    candidate.server.break_watches(Break::Silent);
    pass(95.0).await;
    let pinged = candidate.ping(SignedDuration::ZERO);
    pass(2.1).await;
    assert!(candidate.renewed() > pinged);
}

#[tokio::test(start_paused = true)]
async fn deleted_candidate_is_recreated() {
    let candidate = start(Collection::default());
    pass(1.0).await;
    assert!(candidate.server.remove(&key()));
    pass(0.1).await;
    assert_eq!(candidate.spec().lease_name, "lock");
}

#[tokio::test(start_paused = true)]
async fn candidate_without_renew_time_is_pinged_and_kept() {
    let server = Collection::<LeaseCandidate>::default();
    let candidate = start(server);
    pass(1.0).await;
    candidate.server.change(&key(), |candidate| {
        candidate.spec.renew_time = None;
        candidate.spec.other.insert("later".into(), true.into());
    });
    let pinged = candidate.ping(SignedDuration::ZERO);
    pass(0.1).await;
    assert!(candidate.renewed() > pinged);
    assert_eq!(candidate.spec().other["later"], true);
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_retried_with_backoff() {
    let server = Collection::<LeaseCandidate>::default();
    let client = server.clone();
    client.faults().when(|request| (request.verb() == Verb::Create).then(|| Outcome::refused(403, Reason::Forbidden)));
    let candidate = start(server);
    pass(120.0).await;
    let tries = candidate.writes();
    assert!((8..=20).contains(&tries), "{tries} tries");
    candidate.server.faults().heal();
    pass(40.0).await;
    assert_eq!(candidate.spec().lease_name, "lock");
    candidate.server.faults().next_of(Verb::Get, [Outcome::Lost]);
    let pinged = candidate.ping(SignedDuration::ZERO);
    pass(8.0).await;
    assert!(candidate.renewed() > pinged);
}

#[tokio::test(start_paused = true)]
async fn candidate_is_written_in_its_api_version() {
    let version = "coordination.k8s.io/v1alpha2";
    let resource = ApiResource::new(version, "LeaseCandidate", "leasecandidates", Scope::Namespaced);
    let server = Collection::<LeaseCandidate>::dynamic(resource, CollectionConfig::default());
    let candidate = start(server);
    pass(Duration::from_millis(100).as_secs_f64()).await;
    let sent = candidate.server.take_requests();
    let sent = sent.iter().find_map(|request| match &request.call {
        pintle_testing::Call::Create { object, .. } => Some(object["apiVersion"].clone()),
        _ => None,
    });
    assert_eq!(sent.unwrap(), version);
}
