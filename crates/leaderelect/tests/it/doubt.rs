//! Tests of the leader's identity after wrong, late or misleading responses.

use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::{
    EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Leadership, LeaseLock,
};
use pintle_meta::{ApiError, Reason, Status, StatusCause, StatusDetails};
use pintle_testing::{Break, Outcome, Verb};
use tokio_util::sync::CancellationToken;

use crate::contender::{Setup, Story, pass};
use crate::server::{NAME, NAMESPACE, delete, put, record, server, take_log, take_verbs};

/// Returns the result of a write that the client has sent twice. The server has stored the first attempt, and rejects
/// the second attempt for the given reason.
fn done_and_refused(code: u16, reason: Reason) -> Outcome {
    Outcome::AnswerFails(Status::failure(code, reason, "sent twice").into())
}

#[tokio::test(start_paused = true)]
async fn candidate_leads_when_retry_conflicts_with_its_own_record() {
    for (code, reason) in [(409, Reason::AlreadyExists), (403, Reason::Forbidden), (429, Reason::TooManyRequests)] {
        let server = server();
        let client = server.client("a");
        client.faults().next([Outcome::Pass, done_and_refused(code, reason)]);
        let a = Setup::new("a").start_with(client);
        pass(4.5).await;
        assert!(a.status.is_leader(), "{code}");
        assert_eq!(record(&server).leader_transitions, 0, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_conflicting_with_itself_counts_from_sending() {
    let server = server();
    let client = server.client("a");
    client.faults().next([Outcome::Pass, Outcome::Pass, done_and_refused(409, Reason::Conflict)]);
    let a = Setup::new("a").start_with(client);
    // The renewal at second 2.0 gets no response, but the next read shows that the server has stored this renewal.
    a.client.faults().next([Outcome::Pass, Outcome::Lost]);
    pass(3.0).await;
    a.client.faults().cut_off();
    pass(30.0).await;
    let story = a.story.take();
    assert!(story.contains(&"12.0 a stopped: Deadline".to_owned()), "{story:?}");
}

/// Returns a 404 response without a `Status`, such as the default page of a load balancer.
fn page_of_a_proxy() -> Outcome {
    let cause = StatusCause { reason: "UnexpectedServerResponse".into(), ..StatusCause::default() };
    let details = Some(StatusDetails { causes: vec![cause], ..StatusDetails::default() });
    let error = ApiError::from(Status { details, ..Status::failure(404, Reason::NotFound, "no backend") });
    assert!(error.is_unexpected_server_error());
    Outcome::Fails(error)
}

#[tokio::test(start_paused = true)]
async fn page_of_a_proxy_does_not_end_a_term() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    // The proxy's page is the response to a renewal, and also the response to the next read.
    a.client.faults().next([page_of_a_proxy(), page_of_a_proxy()]);
    pass(60.0).await;
    assert_eq!(a.story.take_deeds(), ["a sees \"a\"", "a works"]);
}

#[tokio::test(start_paused = true)]
async fn deleted_lock_counts_as_held_from_known_deletion() {
    for seed in 0..10 {
        let server = server();
        let story = Story::new();
        let a = Setup { story: Some(story.clone()), ..Setup::new("a") }.start(&server);
        let mut b = Setup { story: Some(story.clone()), ..Setup::new("b") };
        b.config.seed = Some(seed);
        pass(0.1).await;
        let b = b.start(&server);
        // The server stores the renewal at second 8.0, but "a" receives no response to it or to later requests.
        pass(8.0).await;
        a.client.faults().cut_off();
        delete(&server);
        pass(40.0).await;
        assert!(b.status.is_leader());
        let story = story.take();
        let at = |deed: &str| {
            let line = story.iter().find(|line| line.ends_with(deed)).unwrap_or_else(|| panic!("{deed}: {story:?}"));
            line.split(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!(at("a stopped: Deadline"), 18.0);
        // The takeover happens at most a lease duration after the first poll that finds no lock.
        let taken = at("b works");
        assert!((8.1 + 15.0..=8.1 + 4.4 + 15.1).contains(&taken), "seed {seed}: taken at {taken}");
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_release_backs_off() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    take_log(&server);
    let conflict = || Outcome::refused(409, Reason::Conflict);
    a.client.faults().when(move |request| (request.verb() == Verb::Update).then(conflict));
    a.stop().await;
    let requests = take_log(&server).len();
    assert!((4..=50).contains(&requests), "{requests} requests in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn free_lock_is_taken_in_the_watched_version() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let standbys: Vec<_> = (0..5)
        .map(|seed| {
            let mut setup = Setup { watch: true, ..Setup::new(&format!("b{seed}")) };
            setup.config.seed = Some(seed);
            setup.start(&server)
        })
        .collect();
    pass(7.5).await;
    take_log(&server);
    a.stop().await;
    pass(0.05).await;
    assert_eq!(standbys.iter().filter(|standby| standby.status.is_leader()).count(), 1);
    // A release consists of a get and an update. The next leader then sends another update without a read. The other
    // candidates see this update through the watch, and send no requests.
    assert_eq!(take_verbs(&server), ["get", "update", "update"]);
}

#[tokio::test(start_paused = true)]
async fn silent_watch_falls_back_to_polling() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let client = server.client("b");
    let silent = || Outcome::Breaks { after: 1, how: Break::Silent };
    client.faults().when(move |request| (request.verb() == Verb::Watch).then(silent));
    let b = Setup { watch: true, ..Setup::new("b") }.start_with(client);
    pass(30.0).await;
    a.stop().await;
    pass(5.0).await;
    assert!(b.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn panicking_callback_leaves_no_overdue_term() {
    let server = server();
    let lock = LeaseLock::new(server.client("a"), NAMESPACE, NAME);
    let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default()).unwrap();
    let status = elector.status();
    let callbacks = LeaderCallbacks {
        on_new_leader: Box::new(|_| panic!("the callback panicked")),
        ..LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await)
    };
    let run = tokio::spawn(async move { elector.run(&CancellationToken::new(), callbacks).await.map(drop) });
    assert!(run.await.unwrap_err().is_panic());
    pass(3_600.0).await;
    assert_eq!(status.check(Duration::ZERO), Ok(()));
    assert!(!status.is_leader() && status.leadership().is_none());
}

#[tokio::test(start_paused = true)]
async fn callback_panic_during_drop_is_caught() {
    let lock = LeaseLock::new(server().client("a"), NAMESPACE, NAME);
    let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default()).unwrap();
    let reported = Arc::new(std::sync::Mutex::new(None));
    let reason = reported.clone();
    let callbacks = LeaderCallbacks {
        on_stopped_leading: Box::new(move |end| {
            *reason.lock().unwrap() = Some(end.reason.clone());
            panic!("the callback panicked");
        }),
        ..LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await)
    };
    let stop = CancellationToken::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), elector.run(&stop, callbacks)).await;
    assert!(ended.is_err());
    assert_eq!(*reported.lock().unwrap(), Some(EndReason::Dropped));
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_renewals_read_still_releases() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    // The renewal at second 2.0 times out after a third of the renew deadline, and then the response to the next read
    // takes a second.
    a.client.faults().next([Outcome::Lost, Outcome::AnswerSlow(Duration::from_secs(1))]);
    pass(4.8).await;
    take_log(&server);
    assert_eq!(a.stop().await, Some(EndReason::Cancelled));
    assert_eq!(record(&server).holder_identity, "");
}

#[tokio::test(start_paused = true)]
async fn former_leader_waits_after_the_lock_is_deleted() {
    let server = server();
    let story = Story::new();
    let shared = || Some(story.clone());
    let a = Setup { story: shared(), ..Setup::new("a") }.start(&server);
    pass(1.0).await;
    let b = Setup { story: shared(), ..Setup::new("b") }.start(&server);
    pass(1.0).await;
    a.client.faults().cut_off();
    pass(30.0).await;
    assert!(b.status.is_leader());
    // The last record that "a" has read contains "a" as the holder. The next leader, "b", now loses its connection to
    // the server as well.
    b.client.faults().cut_off();
    delete(&server);
    a.client.faults().heal();
    pass(14.0).await;
    assert!(!a.status.is_leader());
    pass(10.0).await;
    let deeds: Vec<_> = story.take_deeds().into_iter().filter(|deed| !deed.contains("sees")).collect();
    let expected =
        ["a works", "a rests", "a stopped: Deadline", "b works", "b rests", "b stopped: Deadline", "a works"];
    assert_eq!(deeds, expected);
}

#[tokio::test(start_paused = true)]
async fn recreated_lock_counts_as_held() {
    for watch in [false, true] {
        let server = server();
        let story = Story::new();
        let a = Setup { story: Some(story.clone()), ..Setup::new("a") }.start(&server);
        pass(1.0).await;
        let _b = Setup { watch, story: Some(story.clone()), ..Setup::new("b") }.start(&server);
        pass(8.0).await;
        a.client.faults().cut_off();
        delete(&server);
        put(&server, &LeaderElectionRecord::default());
        pass(40.0).await;
        let deeds: Vec<_> = story.take_deeds().into_iter().filter(|deed| !deed.contains("sees")).collect();
        assert_eq!(deeds, ["a works", "a rests", "a stopped: Deadline", "b works"], "watch: {watch}");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_until_deletion_takes_new_lock_at_once() {
    for recreated in [false, true] {
        let server = server();
        let a = Setup::new("a").start(&server);
        pass(1.0).await;
        delete(&server);
        if recreated {
            put(&server, &LeaderElectionRecord::default());
        }
        pass(1.1).await;
        assert!(a.status.is_leader(), "recreated: {recreated}");
        assert_eq!(a.story.take_deeds().iter().filter(|deed| *deed == "a works").count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn without_wait_after_deletion_lock_is_taken_at_once() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let mut b = Setup::new("b");
    b.config.wait_after_deletion = false;
    let b = b.start(&server);
    pass(1.0).await;
    a.client.faults().cut_off();
    delete(&server);
    pass(4.5).await;
    assert!(b.status.is_leader());
}
