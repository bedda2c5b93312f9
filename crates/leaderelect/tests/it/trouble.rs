//! Tests of an elector's log lines while it cannot use its lock.

use pintle_meta::Reason;
use pintle_testing::Outcome;

use crate::contender::{Setup, pass};
use crate::log::Log;
use crate::server::server;

fn forbidden() -> Outcome {
    Outcome::refused(403, Reason::Forbidden)
}

fn unavailable() -> Outcome {
    Outcome::refused(503, Reason::ServiceUnavailable)
}

#[tokio::test(start_paused = true)]
async fn log_names_only_other_leaders() {
    let (log, _here) = Log::here();
    let server = server();
    let a = Setup::new("a").start_with(server.client("a"));
    pass(5.0).await;
    let b = Setup::new("b").start_with(server.client("b"));
    pass(5.0).await;
    assert!(a.status.is_leader());
    assert_eq!((log.count("started leading"), log.count("new leader")), (1, 1));
    log.assert_tells(&["new leader", "leader=\"a\""]);
    a.stop.cancel();
    pass(20.0).await;
    assert!(b.status.is_leader());
    log.assert_tells(&["the lock is free"]);
    assert_eq!((log.count("started leading"), log.count("new leader")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn first_of_consecutive_failures_is_a_warning() {
    let (log, _here) = Log::here();
    let server = server();
    let client = server.client("a");
    client.faults().next([
        forbidden(),
        forbidden(),
        forbidden(),
        unavailable(),
        Outcome::Pass,
        forbidden(),
        Outcome::Pass,
        forbidden(),
        Outcome::Pass,
        Outcome::Pass,
    ]);
    let a = Setup::new("a").start_with(client);
    pass(40.0).await;
    assert!(a.status.is_leader());
    log.assert_tells(&["WARN", "cannot read the lock", "Forbidden", "kube-system/lock"]);
    log.assert_tells(&["WARN", "cannot read the lock", "ServiceUnavailable"]);
    log.assert_tells(&["WARN", "cannot write the lock", "Forbidden"]);
    assert_eq!((log.count("WARN"), log.count("still cannot")), (3, 3));

    a.client.faults().next([unavailable(), unavailable(), Outcome::Pass, unavailable()]);
    pass(40.0).await;
    assert!(a.status.is_leader());
    assert_eq!((log.count("WARN"), log.count("still cannot")), (5, 4));
}

#[tokio::test(start_paused = true)]
async fn alternating_failures_warn_once_each_until_success() {
    let (log, _here) = Log::here();
    let server = server();
    let client = server.client("a");
    // An elector sends a write after each successful read.
    client.faults().next([
        forbidden(),
        unavailable(),
        forbidden(),
        unavailable(),
        Outcome::Pass,
        forbidden(),
        // This failure follows a successful read.
        unavailable(),
        forbidden(),
        unavailable(),
        Outcome::Pass,
        // This failure comes before the first successful write.
        unavailable(),
        Outcome::Pass,
        forbidden(),
        Outcome::Pass,
        Outcome::Pass,
    ]);
    let a = Setup::new("a").start_with(client);
    pass(60.0).await;
    assert!(a.status.is_leader());
    let count = |line| log.count(line);
    assert_eq!((count("cannot read"), count("still cannot read")), (7, 3));
    assert_eq!((count("cannot write"), count("still cannot write")), (3, 1));
    assert_eq!(count("WARN"), 6);
}

#[tokio::test(start_paused = true)]
async fn lost_race_is_not_logged_as_a_warning() {
    let (log, _here) = Log::here();
    let server = server();
    let client = server.client("a");
    client.faults().next([Outcome::Pass, Outcome::refused(409, Reason::AlreadyExists)]);
    let a = Setup::new("a").start_with(client);
    pass(10.0).await;
    assert!(a.status.is_leader());
    log.assert_tells(&["DEBUG", "lost a race"]);
    assert_eq!(log.count("WARN"), 0);
}

#[tokio::test(start_paused = true)]
async fn unresponsive_server_is_logged_as_a_warning() {
    let (log, _here) = Log::here();
    let server = server();
    let client = server.client("a");
    client.faults().cut_off();
    let _a = Setup::new("a").start_with(client);
    pass(60.0).await;
    log.assert_tells(&["WARN", "cannot read the lock", "no response before the timeout"]);
    assert_eq!(log.count("WARN"), 1);
}
