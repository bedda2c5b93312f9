//! Tests of permits, and of the clocks that measure their deadlines.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::SignedDuration;
use pintle_leaderelect::{
    EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, LeaderEvent,
    LeaderEventKind, Leadership, LeaseLock,
};
use pintle_testing::Verb;
use tokio_util::sync::CancellationToken;

use crate::contender::{Setup, Story, TestClock, pass};
use crate::server::{NAME, NAMESPACE, holder, put, server};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn release_waits_for_every_permit() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let b = Setup { watch: true, ..Setup::new("b") }.start(&server);
    pass(1.5).await;
    let (one, other) = (a.guard().permit().unwrap(), a.guard().clone().permit().unwrap());
    a.stop.cancel();
    pass(3.0).await;
    drop(other);
    pass(3.0).await;
    assert_eq!(holder(&server), "a");
    assert!(!one.remaining().is_zero() && !b.status.is_leader());
    drop(one);
    pass(0.1).await;
    assert!(b.status.is_leader());
    assert_eq!(a.run.await.unwrap(), Some(EndReason::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn leaked_permit_holds_the_lock_only_until_deadline() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let b = Setup { watch: true, ..Setup::new("b") }.start(&server);
    pass(1.5).await;
    // The last renewal was sent at second 2.0, and each term lasts ten seconds.
    let permit = a.guard().permit().unwrap();
    a.stop.cancel();
    pass(9.0).await;
    assert_eq!(permit.remaining(), SECOND / 2, "a permit is not extended after the work has ended");
    assert!(!b.status.is_leader());
    pass(0.6).await;
    assert!(permit.remaining().is_zero() && b.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn release_waits_for_concurrent_work() {
    let server = server();
    let story = Story::new();
    let a = Setup { story: Some(story.clone()), ..Setup::new("a") }.start(&server);
    pass(1.0).await;
    let b = Setup { watch: true, story: Some(story.clone()), ..Setup::new("b") }.start(&server);
    let guard = a.guard();
    let other = tokio::spawn(async move {
        let ran = guard.run(async {
            guard.cancelled().await;
            tokio::time::sleep(4 * SECOND).await;
        });
        ran.await.map_err(|lost| lost.reason)
    });
    pass(1.0).await;
    a.stop.cancel();
    pass(3.9).await;
    assert!(!b.status.is_leader() && !other.is_finished());
    pass(0.3).await;
    assert_eq!(other.await.unwrap(), Ok(()));
    assert!(b.status.is_leader());
    let deeds: Vec<_> = story.take().into_iter().filter(|deed| !deed.contains("sees")).collect();
    assert_eq!(deeds, ["0.0 a works", "2.0 a rests", "6.0 a stopped: Cancelled", "6.0 b works"]);
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_issued_after_the_work_has_ended() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let permit = a.guard().permit().unwrap();
    a.stop.cancel();
    pass(1.0).await;
    assert!(a.guard().check().is_ok(), "existing permits stay valid");
    assert_eq!(a.guard().permit().unwrap_err().reason, EndReason::Cancelled);
    assert!(a.guard().run(async {}).await.is_err());
    drop(permit);
    pass(0.1).await;
    assert!(a.guard().check().is_err());
}

#[tokio::test(start_paused = true)]
async fn expired_term_never_becomes_valid_again() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let first = a.guard();
    // The time of day is set forward while the leader's work checks its leadership. The time of day is set back
    // again before the elector reads the clock and renews.
    a.clock.0.jump_wall(SignedDuration::from_secs(60));
    assert!(first.check().is_err());
    a.clock.0.jump_wall(SignedDuration::from_secs(-60));
    assert_eq!(first.check().unwrap_err().reason, EndReason::Deadline);
    pass(2.0).await;
    assert_eq!(first.check().unwrap_err().reason, EndReason::Deadline);
    pass(5.0).await;
    assert!(a.status.is_leader(), "the elector leads again, in a new term");
    assert!(a.guard().check().is_ok() && first.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn suspend_counts_against_term_without_wall_clock() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    a.clock.suspend(8 * SECOND);
    assert_eq!(a.guard().check(), Ok(SECOND));
    assert_eq!(a.guard().permit().unwrap().remaining(), SECOND);
    a.clock.suspend(SECOND);
    assert_eq!(a.guard().check().unwrap_err().reason, EndReason::Deadline);
    assert!(!a.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn term_end_after_suspend_is_noticed_within_a_second() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(0.5).await;
    let guard = a.guard();
    a.client.faults().cut_off();
    let lost = tokio::spawn(async move { guard.lost().await.reason });
    pass(0.1).await;
    a.clock.suspend(60 * SECOND);
    pass(1.0).await;
    assert!(lost.is_finished());
    assert_eq!(lost.await.unwrap(), EndReason::Deadline);
    assert!(a.story.take_deeds().contains(&"a rests".to_owned()));
}

/// A timeout from [`Permit::remaining`] stays valid if the time of day changes.
#[tokio::test(start_paused = true)]
async fn permits_delay_term_end_when_wall_clock_jumps() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(2.5).await;
    // The last renewal was sent at second 2.0, so 9.5 s of the term remain.
    let permit = a.guard().permit().unwrap();
    assert_eq!(permit.remaining(), 19 * SECOND / 2);
    a.clock.0.jump_wall(SignedDuration::from_secs(60));
    pass(5.0).await;
    assert!(permit.remaining().is_zero());
    let deeds: Vec<_> = a.story.take_deeds().into_iter().filter(|deed| !deed.contains("sees")).collect();
    assert_eq!(deeds, ["a works", "a rests"], "actions with the permit may take another 4.5 s");
    drop(permit);
    pass(0.1).await;
    assert_eq!(a.story.take_deeds(), ["a stopped: Deadline", "a works"]);
}

#[tokio::test(start_paused = true)]
async fn leaked_permit_is_awaited_on_the_monotonic_clock() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(2.5).await;
    let permit = a.guard().permit().unwrap();
    a.clock.0.jump_wall(SignedDuration::from_secs(60));
    pass(9.4).await;
    assert!(!a.status.is_leader());
    pass(0.2).await;
    assert!(a.status.is_leader(), "the elector leads in a new term");
    assert!(permit.remaining().is_zero());
}

/// The elector reports the end of a term exactly once after its work was dropped, even if a callback panics.
#[tokio::test(start_paused = true)]
async fn term_end_is_reported_once_after_any_panic() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Falls {
        Event,
        NewLeader,
        DropOfWork,
        Lock,
    }
    for falls in [Falls::Event, Falls::NewLeader, Falls::DropOfWork, Falls::Lock] {
        let server = server();
        let client = server.client("a");
        let story = Story::new();
        let (works, log) = (story.clone(), story.clone());
        let event = move |event: &LeaderEvent| {
            if falls == Falls::Event && event.kind == LeaderEventKind::BecameLeader {
                panic!("panicked")
            }
        };
        let config = LeaderElectionConfig {
            identity: "a".into(),
            clocks: TestClock::new(),
            events: Some(Arc::new(event)),
            ..LeaderElectionConfig::default()
        };
        if falls == Falls::Lock {
            client.faults().when(|request| if request.verb() == Verb::Update { panic!("panicked") } else { None });
        }
        let mut elector = LeaderElector::new(LeaseLock::new(client, NAMESPACE, NAME), config).unwrap();
        let status = elector.status();
        let callbacks = LeaderCallbacks {
            on_new_leader: Box::new(move |leader| assert!(falls != Falls::NewLeader || leader == "a", "panicked")),
            on_stopped_leading: Box::new(move |end| log.log(&format!("stopped: {:?}", end.reason))),
            ..LeaderCallbacks::new(move |leadership: Leadership| {
                works.log("works");
                let rest = Rest(works.clone(), falls == Falls::DropOfWork);
                async move {
                    let _rest = rest;
                    leadership.cancelled().await;
                }
            })
        };
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { elector.run(&stop, callbacks).await.map(drop) }
        });
        pass(1.0).await;
        match falls {
            Falls::NewLeader => {
                put(&server, &LeaderElectionRecord { holder_identity: "b".into(), ..Default::default() })
            }
            Falls::DropOfWork => stop.cancel(),
            Falls::Event | Falls::Lock => {}
        }
        pass(30.0).await;
        match run.await {
            Ok(end) => assert!(falls == Falls::DropOfWork && end.is_some()),
            Err(error) => assert_eq!(error.into_panic().downcast_ref::<&str>(), Some(&"panicked"), "{falls:?}"),
        }
        let expected: &[&str] = match falls {
            Falls::Event => &[],
            Falls::NewLeader => &["works", "rests", "stopped: TakenBy { by: \"b\" }"],
            Falls::DropOfWork => &["works", "rests", "stopped: Panicked"],
            Falls::Lock => &["works", "rests", "stopped: Dropped"],
        };
        assert_eq!(story.take_deeds(), expected, "{falls:?}");
        assert!(status.leadership().is_none(), "{falls:?}");
    }
}

/// A permit keeps its deadline while the elector is not running.
#[tokio::test(start_paused = true)]
async fn next_run_waits_for_permits_of_a_failed_run() {
    for (given_back, led_at, falls) in
        [(true, 4.0, false), (false, 12.0, false), (true, 4.0, true), (false, 12.0, true)]
    {
        let server = server();
        let config = LeaderElectionConfig {
            identity: "a".into(),
            clocks: TestClock::new(),
            reuse_identity: true,
            ..LeaderElectionConfig::default()
        };
        let mut elector = LeaderElector::new(LeaseLock::new(server.client("a"), NAMESPACE, NAME), config).unwrap();
        let (stop, status, start) = (CancellationToken::new(), elector.status(), tokio::time::Instant::now());
        let work = || LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        let permit = {
            let on_new_leader = Box::new(|leader: &str| assert_eq!(leader, "a", "panicked"));
            let callbacks = LeaderCallbacks { on_new_leader, ..work() };
            let mut run = pin!(AssertUnwindSafe(elector.run(&stop, callbacks)).catch_unwind());
            // The last renewal is sent at second 2.0.
            assert!(tokio::time::timeout(5 * SECOND / 2, &mut run).await.is_err());
            let permit = status.leadership().unwrap().permit().unwrap();
            if falls {
                put(&server, &LeaderElectionRecord { holder_identity: "b".into(), ..Default::default() });
                assert!(run.await.is_err(), "the callback panics");
                put(&server, &LeaderElectionRecord::default());
            }
            permit
        };
        let back = async {
            pass(1.5).await;
            drop(permit);
            std::future::pending().await
        };
        let led = async {
            while !status.is_leader() {
                pass(0.1).await;
            }
            start.elapsed().as_secs_f64()
        };
        let led = tokio::select! {
            _ = elector.run(&stop, work()) => panic!("the run ended"),
            () = back, if given_back => unreachable!(),
            led = led => led,
        };
        assert!(
            (led_at..led_at + 0.3).contains(&led),
            "permit returned: {given_back}, run panicked: {falls}, led at {led}"
        );
    }
}

struct Rest(Story, bool);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.log("rests");
        assert!(!self.1, "panicked");
    }
}

#[tokio::test(start_paused = true)]
async fn run_dropped_while_awaiting_permits_ends_without_release() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(2.5).await;
    let permit = a.guard().permit().unwrap();
    a.stop.cancel();
    pass(1.0).await;
    assert_eq!(a.story.take_deeds(), ["a sees \"a\"", "a works", "a rests"]);
    a.run.abort();
    pass(0.1).await;
    assert_eq!(a.story.take_deeds(), ["a stopped: Dropped"]);
    assert!(permit.remaining().is_zero());
    drop(permit);
    pass(30.0).await;
    assert!(a.story.take_deeds().is_empty());
    assert_eq!(holder(&server), "a");
}

#[tokio::test(start_paused = true)]
async fn hanging_release_times_out_and_issues_no_permits() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(2.5).await;
    let guard = a.guard();
    a.client.faults().cut_off();
    a.stop.cancel();
    pass(1.0).await;
    assert!(!a.run.is_finished() && guard.permit().is_err());
    assert_eq!(a.story.take_deeds()[2..], ["a rests", "a stopped: Cancelled"]);
    pass(9.1).await;
    assert!(a.run.is_finished(), "the release times out after the renew deadline");
    assert_eq!(holder(&server), "a");
}

#[tokio::test(start_paused = true)]
async fn work_does_not_start_in_an_expired_term() {
    let server = server();
    let client = server.client("a");
    let lock = LeaseLock { watch: false, ..LeaseLock::new(client.clone(), NAMESPACE, NAME) };
    let config = LeaderElectionConfig { identity: "a".into(), clocks: TestClock::new(), ..Default::default() };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let story = Story::new();
    let (begins, log) = (story.clone(), story.clone());
    let callbacks = LeaderCallbacks {
        on_stopped_leading: Box::new(move |end| log.log(&format!("stopped: {:?}", end.reason))),
        ..LeaderCallbacks::new(move |leadership: Leadership| {
            begins.log("begins");
            async move { leadership.cancelled().await }
        })
    };
    let stop = CancellationToken::new();
    let mut run = pin!(elector.run(&stop, callbacks));
    // The task that polls the leader's work is blocked. The election continues, because it runs in a separate task.
    assert!(run.as_mut().now_or_never().is_none());
    pass(1.0).await;
    assert_eq!(holder(&server), "a");
    client.faults().cut_off();
    pass(20.0).await;
    assert!(tokio::time::timeout(SECOND, &mut run).await.is_err());
    assert_eq!(story.take_deeds(), ["stopped: Deadline"]);
    client.faults().heal();
    assert!(tokio::time::timeout(10 * SECOND, &mut run).await.is_err());
    assert_eq!(story.take_deeds(), ["begins"]);
}
