//! client-go's test cases: the requests of an elector and their results.

use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::{LeaderElectionRecord, Lease};
use pintle_meta::{MicroTime, Reason};
use pintle_testing::{Collection, Outcome};

use crate::contender::{Contender, Setup, pass};
use crate::server::{holder, key, lease, put, record, take_log, take_verbs};

#[derive(Clone, Debug)]
enum Given {
    Nothing,
    Empty,
    Held { by: &'static str, seconds: i32 },
}

fn server(given: &Given) -> Collection<Lease> {
    let server = crate::server::server();
    let time = Some(MicroTime(Timestamp::from_second(1_000_000_000).unwrap()));
    match given {
        Given::Nothing => {}
        Given::Empty => put(&server, &LeaderElectionRecord::default()),
        Given::Held { by, seconds } => put(
            &server,
            &LeaderElectionRecord {
                holder_identity: (*by).into(),
                lease_duration_seconds: *seconds,
                acquire_time: time,
                renew_time: time,
                ..LeaderElectionRecord::default()
            },
        ),
    }
    server
}

fn baz() -> Setup {
    let seconds = Duration::from_secs;
    let mut setup = Setup::new("baz");
    (setup.config.lease_duration, setup.config.renew_deadline) = (seconds(10), seconds(8));
    setup.config.retry_period = seconds(2);
    setup
}

/// Starts an elector "baz" when the lock is in the state `given`. After `wait` seconds, checks the requests, the holder
/// and the transition count.
async fn check(given: Given, wait: f64, verbs: &[&str], holder: &str, transitions: i32) {
    let server = server(&given);
    let elector = baz().start(&server);
    pass(wait).await;
    assert_eq!(take_verbs(&server), verbs, "{given:?} after {wait} s");
    let found = record(&server);
    assert_eq!((&*found.holder_identity, found.leader_transitions), (holder, transitions), "{given:?}");
    assert_eq!(elector.status.is_leader(), holder == "baz", "{given:?}");
    assert_eq!(elector.status.leader().as_deref(), Some(holder), "{given:?}");
}

#[tokio::test(start_paused = true)]
async fn candidate_takes_a_free_lock() {
    check(Given::Nothing, 0.1, &["get", "create"], "baz", 0).await;
    check(Given::Empty, 0.1, &["get", "update"], "baz", 1).await;
    check(Given::Held { by: "", seconds: 10 }, 0.1, &["get", "update"], "baz", 1).await;
}

#[tokio::test(start_paused = true)]
async fn candidate_waits_for_the_stated_duration() {
    let polls = |count| [vec!["get"; count], vec!["update"]].concat();
    check(Given::Held { by: "bing", seconds: 10 }, 0.1, &["get"], "bing", 0).await;
    // The second poll happens after the lease duration (three seconds).
    check(Given::Held { by: "bing", seconds: 3 }, 3.5, &polls(2), "baz", 1).await;
    check(Given::Held { by: "bing", seconds: 3 }, 2.9, &["get"], "bing", 0).await;
}

#[tokio::test(start_paused = true)]
async fn record_without_duration_uses_own_duration() {
    for seconds in [0, -1] {
        let server = server(&Given::Held { by: "bing", seconds });
        let elector = baz().start(&server);
        pass(9.9).await;
        assert_eq!(holder(&server), "bing");
        pass(4.5).await;
        assert!(elector.status.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn any_record_change_restarts_the_wait() {
    let server = server(&Given::Held { by: "bing", seconds: 10 });
    let elector = baz().start(&server);
    for number in 1..=10 {
        pass(9.0).await;
        // Every second write writes the previous record again.
        let time = Timestamp::from_microsecond(1_000_000_000_000_000 + number % 2).unwrap();
        server.change(&key(), |lease| lease.spec.renew_time = Some(MicroTime(time)));
    }
    assert_eq!(holder(&server), "bing");
    pass(16.0).await;
    assert!(elector.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn own_identity_in_unwritten_record_is_foreign() {
    let given = Given::Held { by: "baz", seconds: 10 };
    let server = server(&given);
    let mut setup = baz();
    let waiting = baz().start(&server);
    pass(9.9).await;
    assert!(!waiting.status.is_leader());
    drop(waiting.run);

    setup.config.reuse_identity = true;
    let server = self::server(&given);
    let reusing = setup.start(&server);
    pass(0.1).await;
    assert_eq!(take_verbs(&server), ["get", "update"]);
    assert!(reusing.status.is_leader());
    assert_eq!(record(&server).leader_transitions, 0, "the holder did not change");
}

#[tokio::test(start_paused = true)]
async fn leader_renews_without_reading_first() {
    let server = server(&Given::Nothing);
    let elector = baz().start(&server);
    pass(7.0).await;
    assert_eq!(take_verbs(&server), ["get", "create", "update", "update", "update"]);
    assert_eq!((elector.count("slowpath_total"), elector.count("renewals_total")), (Some(0.0), Some(3.0)));
}

#[tokio::test(start_paused = true)]
async fn conflicting_renewal_reads_and_retries_at_once() {
    let server = server(&Given::Nothing);
    let elector = baz().start(&server);
    pass(1.0).await;
    server.change(&key(), |lease| drop(lease.metadata.labels.insert("foreign".into(), "label".into())));
    pass(1.5).await;
    assert_eq!(take_verbs(&server), ["get", "create", "update", "get", "update"]);
    assert!(elector.status.is_leader());
    assert_eq!(elector.count("slowpath_total"), Some(1.0));
    assert_eq!(lease(&server).unwrap().metadata.labels["foreign"], "label");
}

#[tokio::test(start_paused = true)]
async fn renewal_keeps_acquire_time_and_transitions() {
    let server = server(&Given::Held { by: "", seconds: 1 });
    let _baz = baz().start(&server);
    pass(0.1).await;
    let first = record(&server);
    pass(20.0).await;
    let later = record(&server);
    assert_eq!((later.acquire_time, later.leader_transitions), (first.acquire_time, 1));
    let gained = later.renew_time.unwrap().0.duration_since(first.renew_time.unwrap().0);
    assert_eq!(gained.as_secs(), 20);
}

async fn led(server: &Collection<Lease>) -> Contender {
    let elector = baz().start(server);
    pass(0.1).await;
    assert!(elector.status.is_leader());
    take_log(server);
    elector
}

#[tokio::test(start_paused = true)]
async fn release_reads_then_writes_an_empty_holder() {
    let server = server(&Given::Empty);
    let elector = led(&server).await;
    elector.stop.cancel();
    assert!(elector.run.await.unwrap().is_some());
    assert_eq!(take_verbs(&server), ["get", "update"]);
    let found = record(&server);
    assert_eq!((&*found.holder_identity, found.lease_duration_seconds, found.leader_transitions), ("", 1, 1));
    assert_eq!(found.acquire_time, found.renew_time);
    assert_eq!(elector.story.take_deeds().last().unwrap(), "baz sees \"\"");
    assert_eq!(elector.status.leader().as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn conflicting_release_is_retried() {
    let server = server(&Given::Nothing);
    let elector = led(&server).await;
    elector.client.faults().next([Outcome::Pass, Outcome::refused(409, Reason::Conflict)]);
    elector.stop().await;
    assert_eq!(take_verbs(&server), ["get", "update", "get", "update"]);
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_renewal_still_releases() {
    for fault in [Outcome::AnswerSlow(Duration::from_secs(1)), Outcome::AnswerLost, Outcome::Lost] {
        let server = server(&Given::Nothing);
        let elector = led(&server).await;
        elector.client.faults().next([fault.clone()]);
        pass(2.0).await;
        elector.stop().await;
        assert_eq!(holder(&server), "", "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn release_is_abandoned_after_the_renew_deadline() {
    let server = server(&Given::Nothing);
    let elector = led(&server).await;
    elector.client.faults().cut_off();
    let start = tokio::time::Instant::now();
    elector.stop().await;
    assert_eq!(start.elapsed().as_secs(), 8);
    assert_eq!(holder(&server), "baz");
}

#[tokio::test(start_paused = true)]
async fn without_release_on_cancel_the_record_stays() {
    let server = server(&Given::Nothing);
    let mut setup = baz();
    setup.config.release_on_cancel = false;
    let elector = setup.start(&server);
    pass(1.0).await;
    take_log(&server);
    elector.stop().await;
    assert_eq!(holder(&server), "baz");
    assert!(take_log(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn labels_are_set_and_others_kept() {
    use pintle_leaderelect::{LeaseLock, Lock};
    let server = server(&Given::Nothing);
    let labels = [("team".to_owned(), "us".to_owned())].into();
    let lock = LeaseLock { labels, ..LeaseLock::new(server.client("a"), "kube-system", "lock") };
    let record = LeaderElectionRecord { holder_identity: "a".into(), ..Default::default() };
    assert_eq!(
        (lock.key().as_str(), lock.resource().to_string().as_str()),
        ("kube-system/lock", "leases.coordination.k8s.io")
    );
    assert!(lock.get().await.unwrap().is_none());
    lock.create(&record).await.unwrap();
    assert!(lock.create(&record).await.unwrap_err().is_already_exists());
    server.change(&key(), |lease| {
        lease.metadata.labels = [("team", "them"), ("foreign", "x")].map(|(k, v)| (k.into(), v.into())).into()
    });
    let read = lock.get().await.unwrap().unwrap();
    lock.update(&read.object, &record).await.unwrap();
    let labels = lease(&server).unwrap().metadata.labels;
    assert_eq!((&*labels["team"], &*labels["foreign"]), ("us", "x"));
}

#[tokio::test]
async fn update_without_uid_or_version_is_never_sent() {
    use pintle_leaderelect::{LeaseLock, Lock};
    use pintle_meta::{ErrorKind, ObjectMeta};
    let server = server(&Given::Nothing);
    let lock = LeaseLock::new(server.client("a"), "kube-system", "lock");
    let record = LeaderElectionRecord::default();
    for (uid, version) in [("", "7"), ("uid-1", ""), ("", "")] {
        let mut base = Lease::new(ObjectMeta::new("kube-system", "lock"), &record);
        (base.metadata.uid, base.metadata.resource_version) = (uid.into(), version.into());
        let error = lock.update(&base, &record).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::InvalidRequest(_)), "{error}");
        assert!(error.to_string().contains("kube-system/lock"), "{error}");
    }
    assert!(take_log(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn failed_create_keeps_the_observed_state() {
    let server = server(&Given::Nothing);
    let client = server.client("baz");
    // Another contender creates the lock first, with fields that baz does not set.
    client.faults().next([Outcome::Pass, Outcome::refused(409, Reason::AlreadyExists)]);
    let elector = baz().start_with(client);
    pass(0.1).await;
    let theirs =
        LeaderElectionRecord { holder_identity: "bing".into(), lease_duration_seconds: 3, ..Default::default() };
    let mut other = Lease::new(pintle_meta::ObjectMeta::new("kube-system", "lock"), &theirs);
    other.metadata.labels.insert("foreign".into(), "label".into());
    server.put(other);
    pass(12.0).await;
    assert!(elector.status.is_leader());
    assert_eq!(lease(&server).unwrap().metadata.labels["foreign"], "label");
    let verbs = take_verbs(&server);
    assert_eq!(verbs[..2], ["get", "create"], "{verbs:?}");
}

/// client-go's test case verifies that `Check` does not race with a running elector.
#[test]
fn status_is_readable_from_any_thread() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (over, checks) = (AtomicBool::new(false), AtomicUsize::new(0));
    let elector = runtime.block_on(async {
        let elector = baz().start(&server(&Given::Nothing));
        pass(1.0).await;
        elector
    });
    let (status, guard) = (elector.status.clone(), elector.guard());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Use the runtime's clock, which may jump by ten seconds in a step.
                let _clock = runtime.enter();
                while !over.load(Ordering::Relaxed) {
                    let _ = (status.is_leader(), status.leader(), status.check(Duration::ZERO));
                    let permit = status.leadership().and_then(|leadership| leadership.permit().ok());
                    assert!(permit.is_none_or(|permit| permit.remaining() <= Duration::from_secs(8)));
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        runtime.block_on(async {
            while checks.load(Ordering::Relaxed) < 1_000 {
                pass(1.0).await;
            }
        });
        over.store(true, Ordering::Relaxed);
    });
    runtime.block_on(pass(20.0));
    assert!(status.is_leader() && !elector.run.is_finished());
    assert_eq!(guard.check().is_ok(), status.leadership().unwrap().term() == guard.term());
}
