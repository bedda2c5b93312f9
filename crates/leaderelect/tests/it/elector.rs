//! Tests of the elector and its leadership guard on a paused clock.

use std::slice;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use jiff::SignedDuration;
use pintle_leaderelect::{
    ElectionStatus, EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElector, LeaderEvent, LeaderEventKind,
    Leadership, LeaseLock,
};
use pintle_meta::{Object, Reason};
use pintle_testing::{Outcome, Verb};
use tokio_util::sync::CancellationToken;

use crate::contender::{Setup, Story, TestClock, pass};
use crate::server::{delete, holder, lease, record, server, take_log};

#[tokio::test(start_paused = true)]
async fn hung_request_never_costs_the_term() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    for _ in 0..20 {
        a.client.faults().next([Outcome::Lost]);
        pass(7.0).await;
    }
    assert_eq!(a.story.take_deeds(), ["a sees \"a\"", "a works"]);
    assert!(a.status.is_leader());
    assert_eq!(a.status.check(Duration::MAX), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn lost_response_to_first_write_is_resolved_by_reading() {
    let server = server();
    let client = server.client("a");
    client.faults().next([Outcome::Pass, Outcome::AnswerLost]);
    let a = Setup::new("a").start_with(client);
    pass(9.0).await;
    assert!(a.status.is_leader());
    // The deadline is measured from the sending time of the create request. This request was sent immediately, and it
    // times out after a third of the deadline.
    a.client.faults().cut_off();
    pass(30.0).await;
    let story = a.story.take();
    let stopped = story.iter().find(|line| line.contains("stopped")).expect("still working");
    let stopped: f64 = stopped.split(' ').next().unwrap().parse().unwrap();
    assert!(stopped <= 19.1, "{story:?}");
}

#[tokio::test(start_paused = true)]
async fn renewal_with_lost_response_counts_from_sending() {
    let server = server();
    let client = server.client("a");
    client.faults().next([Outcome::Pass, Outcome::Pass, Outcome::AnswerLost, Outcome::Pass, Outcome::Lost]);
    let a = Setup::new("a").start_with(client);
    pass(6.0).await;
    a.client.faults().cut_off();
    pass(30.0).await;
    // The renewal at second 2.0 timed out at second 5.3, but the next read showed that the server had stored this
    // renewal.
    assert!(a.story.take().contains(&"12.0 a stopped: Deadline".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn server_refusals_for_a_while_cost_no_term() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    a.client.faults().next([
        Outcome::refused(429, Reason::TooManyRequests),
        Outcome::refused(500, Reason::InternalError),
        Outcome::refused(503, Reason::ServiceUnavailable),
    ]);
    pass(60.0).await;
    assert_eq!(a.story.take_deeds(), ["a sees \"a\"", "a works"]);
}

#[tokio::test(start_paused = true)]
async fn candidate_survives_every_server_error() {
    let server = server();
    let client = server.client("a");
    let reasons = [(403, Reason::Forbidden), (404, Reason::NotFound), (422, Reason::Invalid), (504, Reason::Timeout)];
    client
        .faults()
        .next(reasons.into_iter().flat_map(|(code, reason)| [Outcome::Pass, Outcome::refused(code, reason)]));
    let a = Setup::new("a").start_with(client);
    pass(40.0).await;
    assert!(a.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn cut_off_leader_stops_before_its_successor_works() {
    let server = server();
    let story = Story::new();
    let a = Setup { story: Some(story.clone()), ..Setup::new("a") }.start(&server);
    pass(1.0).await;
    let b = Setup { story: Some(story.clone()), ..Setup::new("b") }.start(&server);
    pass(10.0).await;
    a.client.faults().cut_off();
    pass(30.0).await;
    let deeds: Vec<_> = story.take_deeds().into_iter().filter(|deed| !deed.contains("sees")).collect();
    assert_eq!(deeds, ["a works", "a rests", "a stopped: Deadline", "b works"]);
    assert!(b.status.is_leader() && !a.status.is_leader());
    assert_eq!(record(&server).leader_transitions, 1);
    // After the server is reachable again, the elector contends and observes the next leader.
    a.client.faults().heal();
    pass(3.4 + 4.4).await;
    assert_eq!(a.status.leader().as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn expired_own_term_is_taken_again_without_wait() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    a.client.faults().cut_off();
    pass(12.0).await;
    a.client.faults().heal();
    pass(5.0).await;
    let deeds = a.story.take_deeds();
    assert_eq!(deeds, ["a sees \"a\"", "a works", "a rests", "a stopped: Deadline", "a works"]);
    assert_eq!(record(&server).leader_transitions, 0, "the holder never changed");
}

#[tokio::test(start_paused = true)]
async fn watching_successor_leads_at_once_after_release() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let b = Setup { watch: true, ..Setup::new("b") }.start(&server);
    pass(30.0).await;
    a.stop().await;
    pass(0.3).await;
    assert!(b.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn forbidden_watch_falls_back_to_polling() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let client = server.client("b");
    client.faults().next([
        Outcome::refused(403, Reason::Forbidden),
        Outcome::Pass,
        Outcome::refused(403, Reason::Forbidden),
    ]);
    let b = Setup { watch: true, ..Setup::new("b") }.start_with(client);
    a.stop().await;
    pass(5.0).await;
    assert!(b.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn hanging_watch_request_is_retried() {
    let server = server();
    let _a = Setup::new("a").start(&server);
    pass(1.0).await;
    let client = server.client("b");
    client.faults().next_of(Verb::Watch, [Outcome::Lost]);
    let _b = Setup { watch: true, ..Setup::new("b") }.start_with(client);
    pass(30.0).await;
    take_log(&server);
    pass(60.0).await;
    let requests = take_log(&server).iter().filter(|request| request.client == "b").count();
    assert_eq!(requests, 0, "the elector no longer polls");
}

#[tokio::test(start_paused = true)]
async fn failed_watches_reopen_with_jitter_and_growing_pauses() {
    let server = server();
    let _leader = Setup::new("leader").start(&server);
    pass(1.0).await;
    let _candidates = (0..20)
        .map(|seed| {
            let client = server.client("candidate");
            let refused = || Outcome::refused(403, Reason::Forbidden);
            client.faults().when(move |request| (request.verb() == Verb::Watch).then(refused));
            let mut setup = Setup { watch: true, ..Setup::new("candidate") };
            setup.config.seed = Some(seed);
            setup.start_with(client)
        })
        .collect::<Vec<_>>();
    pass(0.1).await;
    take_log(&server);
    // The number of watches opened in each tenth of a second.
    let mut opened = Vec::new();
    for _ in 0..600 {
        pass(0.1).await;
        opened.push(take_log(&server).iter().filter(|request| request.verb() == Verb::Watch).count());
    }
    let most = opened.iter().max().copied().unwrap();
    assert!(most <= 6, "{most} of 20 within a tenth of a second");
    // The pauses are 2, 4, 8, 16 and 32 s, each multiplied by a jitter of up to 2.2. Therefore, each elector opens
    // three or four watches within a minute.
    let all: usize = opened.iter().sum();
    assert!((60..=80).contains(&all), "{all} in a minute");
}

#[tokio::test(start_paused = true)]
async fn deleted_lock_counts_as_held_until_it_would_expire() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let b = Setup::new("b").start(&server);
    pass(1.0).await;
    a.client.faults().cut_off();
    delete(&server);
    pass(12.0).await;
    assert!(!b.status.is_leader() && lease(&server).is_none());
    pass(8.0).await;
    assert!(b.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn suspended_leader_finds_its_deadline_passed() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let guard = a.guard();
    assert!(guard.check().is_ok());
    a.clock.0.jump_wall(SignedDuration::from_secs(60));
    assert_eq!(guard.check().unwrap_err().reason, EndReason::Deadline);
    assert!(guard.run(async {}).await.is_err(), "work was polled after the deadline");
    assert!(!a.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn wall_clock_set_back_changes_no_term() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    a.clock.0.jump_wall(SignedDuration::from_secs(-3_600));
    pass(60.0).await;
    assert!(a.status.is_leader());
    a.client.faults().cut_off();
    pass(10.0).await;
    assert!(!a.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn late_polled_work_is_dropped() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let guard = a.guard();
    let polled = Arc::new(Mutex::new(0));
    let count = polled.clone();
    let clock = a.clock.clone();
    let outcome = guard.run(async move {
        *count.lock().unwrap() += 1;
        // The process is paused for longer than the deadline.
        clock.0.advance(Duration::from_secs(30));
        tokio::task::yield_now().await;
        *count.lock().unwrap() += 1;
    });
    assert_eq!(outcome.await.unwrap_err().reason, EndReason::Deadline);
    assert_eq!(*polled.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn hanging_leader_fails_its_health_check() {
    let server = server();
    let a = Setup::new("a").start(&server);
    let b = Setup::new("b").start(&server);
    pass(1.0).await;
    let (leader, candidate) = if a.status.is_leader() { (a, b) } else { (b, a) };
    let tolerance = Duration::from_secs(20);
    for (hang, well) in [(0, true), (30, true), (10, false)] {
        leader.clock.0.advance(Duration::from_secs(hang));
        candidate.clock.0.advance(Duration::from_secs(hang));
        assert_eq!(leader.status.check(tolerance).is_ok(), well);
        assert!(candidate.status.check(tolerance).is_ok());
    }
    let message = leader.status.check(tolerance).unwrap_err().to_string();
    assert!(message.contains("kube-system/lock"), "{message}");
}

/// The elector holds the lock until each callback has returned, so it must report the term even if a callback hangs.
/// The test steps the clock inside of the callbacks, because a paused clock does not advance while a thread is blocked.
#[tokio::test(start_paused = true)]
async fn hanging_callback_of_a_term_fails_the_health_check() {
    let clock = TestClock::new();
    let status = Arc::new(OnceLock::<ElectionStatus>::new());
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let hang = {
        let (clock, status, seen) = (clock.clone(), status.clone(), seen.clone());
        move |callback: &str| {
            let status = status.get().unwrap();
            let before = status.check(Duration::ZERO).is_ok();
            clock.0.advance(Duration::from_secs(16));
            let after = status.check(Duration::ZERO).is_ok();
            seen.lock().unwrap().push((callback.to_owned(), status.is_leader(), before, after));
        }
    };
    let (began, stopped) = (status.clone(), hang.clone());
    let lead = seen.clone();
    let config = LeaderElectionConfig {
        clocks: clock.clone(),
        events: Some(Arc::new(move |event| match event.kind {
            LeaderEventKind::BecameLeader => {
                let leads = began.get().is_some_and(ElectionStatus::is_leader);
                lead.lock().unwrap().push((event.to_string(), leads, true, true));
            }
            LeaderEventKind::StoppedLeading => hang(&event.to_string()),
        })),
        identity: "a".into(),
        ..LeaderElectionConfig::default()
    };
    let lock = LeaseLock::new(server().client("a"), "kube-system", "lock");
    let mut elector = LeaderElector::new(lock, config).unwrap();
    assert!(status.set(elector.status()).is_ok());
    let callbacks = LeaderCallbacks {
        on_stopped_leading: Box::new(move |_| stopped("on_stopped_leading")),
        ..LeaderCallbacks::new(async |_| pass(5.0).await)
    };
    elector.run(&CancellationToken::new(), callbacks).await.unwrap();
    let expected = [
        ("a became leader", true, true, true),
        ("a stopped leading", false, true, false),
        ("on_stopped_leading", false, false, false),
    ];
    let expected = expected.map(|(callback, leads, before, after)| (callback.to_owned(), leads, before, after));
    assert_eq!(*seen.lock().unwrap(), expected);
    let status = elector.status();
    assert!(status.check(Duration::ZERO).is_ok() && status.leadership().is_none());
}

#[tokio::test(start_paused = true)]
async fn finished_work_ends_the_election_and_releases() {
    let server = server();
    let a = Setup { work: Some(Duration::from_secs(5)), ..Setup::new("a") }.start(&server);
    let status = a.status.clone();
    assert_eq!(a.run.await.unwrap(), Some(EndReason::Completed));
    assert_eq!(holder(&server), "");
    assert!(!status.is_leader() && status.leadership().is_none());
}

#[tokio::test(start_paused = true)]
async fn run_once_ends_with_its_first_term() {
    let server = server();
    let a = Setup { once: true, ..Setup::new("a") }.start(&server);
    pass(1.0).await;
    delete(&server);
    assert_eq!(a.run.await.unwrap(), Some(EndReason::Deleted));
}

#[tokio::test(start_paused = true)]
async fn stopped_candidate_calls_no_start_or_stop_callback() {
    let server = server();
    let _a = Setup::new("a").start(&server);
    pass(1.0).await;
    let b = Setup::new("b").start(&server);
    pass(5.0).await;
    let story = b.story.clone();
    assert_eq!(b.stop().await, None);
    assert_eq!(story.take_deeds(), ["b sees \"a\""]);
    assert_eq!(holder(&server), "a");
}

#[tokio::test(start_paused = true)]
async fn candidate_stopped_during_a_write_leaves_no_lock() {
    for fault in [Outcome::AnswerLost, Outcome::AnswerSlow(Duration::from_secs(2))] {
        let server = server();
        let client = server.client("a");
        client.faults().next([Outcome::Pass, fault.clone()]);
        let a = Setup::new("a").start_with(client);
        pass(0.5).await;
        assert_eq!(a.stop().await, None);
        assert_eq!(holder(&server), "", "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_run_leaves_nothing_running() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let guard = a.guard();
    a.run.abort();
    pass(0.1).await;
    assert_eq!(guard.check().unwrap_err().reason, EndReason::Dropped);
    assert!(!a.status.is_leader());
    assert_eq!(a.story.take_deeds()[2..], ["a rests", "a stopped: Dropped"]);
    take_log(&server);
    pass(60.0).await;
    assert!(take_log(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn term_end_reports_the_outcome_of_the_work() {
    let ended = async |work: fn() -> Result<u32, String>| {
        let server = server();
        let lock = LeaseLock::new(server.client("a"), "kube-system", "lock");
        let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default()).unwrap();
        let stopped = Arc::new(Mutex::new(Vec::new()));
        let recorded = stopped.clone();
        let callbacks = LeaderCallbacks {
            on_stopped_leading: Box::new(move |end| recorded.lock().unwrap().push(end.reason.clone())),
            ..LeaderCallbacks::new(async |_: Leadership| work())
        };
        let end = elector.run(&CancellationToken::new(), callbacks).await.unwrap();
        assert_eq!(*stopped.lock().unwrap(), slice::from_ref(&end.reason));
        assert_eq!(holder(&server), "", "the lock is released, because the work has ended");
        let work = end.work.unwrap().map_err(|panic| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        (end.reason, work)
    };
    assert_eq!(ended(|| Ok(7)).await, (EndReason::Completed, Ok(Ok(7))));
    assert_eq!(ended(|| Err("no luck".into())).await, (EndReason::Completed, Ok(Err("no luck".into()))));
    let panicked = ended(|| panic!("the work panicked")).await;
    assert_eq!(panicked, (EndReason::Panicked, Err(Some("the work panicked".into()))));
}

#[tokio::test(start_paused = true)]
async fn work_returning_after_term_end_does_not_end_election() {
    let server = server();
    let lock = LeaseLock::new(server.client("a"), "kube-system", "lock");
    let clock = TestClock::new();
    let config = LeaderElectionConfig { clocks: clock.clone(), ..LeaderElectionConfig::default() };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let recorded = ends.clone();
    let mut terms = 0;
    let callbacks = LeaderCallbacks {
        on_stopped_leading: Box::new(move |end| {
            let work = end.work.as_ref().map(|work| *work.as_ref().unwrap());
            recorded.lock().unwrap().push((end.reason.clone(), work));
        }),
        ..LeaderCallbacks::new(move |leadership: Leadership| {
            terms += 1;
            let (term, clock) = (terms, clock.clone());
            async move {
                if term == 1 {
                    // The process is paused for longer than the deadline. The leader's work notices the end of the term
                    // before the elector.
                    clock.0.advance(Duration::from_secs(30));
                    return leadership.check().map(|_| ()).map_err(|lost| lost.reason == EndReason::Deadline);
                }
                Ok(())
            }
        })
    };
    let end = elector.run(&CancellationToken::new(), callbacks).await.unwrap();
    assert_eq!(end.reason, EndReason::Completed);
    let expected = [(EndReason::Deadline, Some(Err(true))), (EndReason::Completed, Some(Ok(())))];
    assert_eq!(*ends.lock().unwrap(), expected);
}

/// If two callbacks panicked, the second panic would abort the process.
#[tokio::test(start_paused = true)]
async fn all_end_callbacks_run_even_if_one_panics() {
    let run = async |events: Option<&'static str>, work: Option<&'static str>| {
        let lock = LeaseLock::new(server().client("a"), "kube-system", "lock");
        let fall_over = move |event: &LeaderEvent| match events {
            Some(panic) if event.kind == LeaderEventKind::StoppedLeading => panic!("{panic}"),
            _ => {}
        };
        let config = LeaderElectionConfig { events: Some(Arc::new(fall_over)), ..LeaderElectionConfig::default() };
        let mut elector = LeaderElector::new(lock, config).unwrap();
        let stopped = Arc::new(Mutex::new(0));
        let recorded = stopped.clone();
        let callbacks = LeaderCallbacks {
            on_stopped_leading: Box::new(move |_| {
                *recorded.lock().unwrap() += 1;
                panic!("the callback panicked")
            }),
            ..LeaderCallbacks::new(move |_: Leadership| async move {
                if let Some(panic) = work {
                    panic!("{panic}");
                }
            })
        };
        let run = tokio::spawn(async move { elector.run(&CancellationToken::new(), callbacks).await });
        let panic = run.await.unwrap_err().into_panic();
        assert_eq!(*stopped.lock().unwrap(), 1);
        let text = panic.downcast_ref().map(|text: &&str| (*text).to_owned());
        text.or(panic.downcast_ref::<String>().cloned())
    };
    for (events, work, expected) in [
        (None, None, "the callback panicked"),
        (Some("the event panicked"), None, "the event panicked"),
        (None, Some("the work panicked"), "the callback panicked"),
        (Some("the event panicked"), Some("the work panicked"), "the event panicked"),
    ] {
        assert_eq!(run(events, work).await.as_deref(), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn new_leaders_are_reported_once_and_in_order() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let watcher = Setup { watch: true, ..Setup::new("watcher") }.start(&server);
    pass(20.0).await;
    let b = Setup { watch: true, ..Setup::new("b") }.start(&server);
    pass(1.0).await;
    watcher.stop.cancel();
    a.stop().await;
    pass(1.0).await;
    assert!(b.status.is_leader());
    assert_eq!(b.story.take_deeds(), ["b sees \"a\"", "b sees \"\"", "b sees \"b\"", "b works"]);
    assert_eq!(watcher.story.take_deeds(), ["watcher sees \"a\""]);
}

#[tokio::test(start_paused = true)]
async fn each_term_emits_two_events() {
    let server = server();
    let events = Arc::new(Mutex::new(Vec::new()));
    let record = events.clone();
    let lock = LeaseLock::new(server.client("a"), "kube-system", "lock");
    let config = LeaderElectionConfig {
        identity: "a".into(),
        events: Some(Arc::new(move |event| record.lock().unwrap().push(event.clone()))),
        ..LeaderElectionConfig::default()
    };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        let callbacks = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        async move { elector.run(&stop, callbacks).await }
    });
    pass(1.0).await;
    stop.cancel();
    run.await.unwrap();
    let events = events.lock().unwrap();
    assert_eq!(events.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a became leader", "a stopped leading"]);
    assert_eq!((events[0].resource.kind.as_str(), events[0].key.as_str()), ("Lease", "kube-system/lock"));
    assert_eq!(events[0].version.uid, lease(&server).unwrap().uid());
}
