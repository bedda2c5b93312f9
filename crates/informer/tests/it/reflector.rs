//! Tests of the reflector's state machine, without a clock and tasks.

use std::time::{Duration, Instant};

use pintle_informer::reflector::{Command, Input};
use pintle_informer::{InformerState, ReflectorConfig};
use pintle_meta::{ApiError, FieldSelector, LabelSelector, Reason, Status, StatusDetails, WatchEvent};
use pintle_ratelimit::BackoffConfig;

use crate::support::rig::{Rig, config};
use crate::support::{cut, expired, failure, pod_at, refused, too_large, too_many_requests};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn first_list_uses_the_server_cache_then_watches() {
    let mut rig = Rig::new();
    assert_eq!(rig.command_text(), "LIST rv=0 limit=500");
    assert_eq!(rig.list(&["a", "b"], 7), "WATCH rv=7");
    let Command::Watch(options) = rig.command.clone() else { panic!("{:?}", rig.command) };
    assert!(options.allow_bookmarks && !options.send_initial_events);
    assert_eq!(rig.open(), "READ");
    assert_eq!(rig.outputs, ["replaced [a b] at 7"]);
    assert!(rig.reflector.state().is_synced());
}

#[test]
fn each_request_has_the_selectors() {
    let labels: LabelSelector = "app=web".parse().unwrap();
    let fields = FieldSelector::everything().equals("spec.nodeName", "n");
    let mut rig = Rig::with(ReflectorConfig {
        label_selector: labels.clone(),
        field_selector: fields.clone(),
        page_size: Some(1),
        ..config()
    });
    for next in ["b", "c"] {
        let Command::List(options) = rig.command.clone() else { panic!("{:?}", rig.command) };
        assert_eq!((&options.label_selector, &options.field_selector), (&labels, &fields));
        rig.page(&["a"], "1", next);
    }
    rig.page(&["a"], "1", "");
    let Command::Watch(options) = rig.command else { panic!("{:?}", rig.command) };
    assert_eq!((options.label_selector, options.field_selector), (labels, fields));
}

#[test]
fn pages_form_one_list_at_the_first_revision() {
    let mut rig = Rig::with(ReflectorConfig { page_size: Some(4), ..config() });
    assert_eq!(rig.command_text(), "LIST rv=0 limit=4");
    assert_eq!(rig.page(&["a", "b", "c", "d"], "9", "t1"), "LIST rv= limit=4 next");
    assert_eq!(rig.page(&["e", "f", "g", "h"], "10", "t2"), "LIST rv= limit=4 next");
    assert_eq!(rig.page(&["i", "j"], "11", ""), "WATCH rv=9");
    assert_eq!(rig.outputs, ["replaced [a b c d e f g h i j] at 9"]);
}

#[test]
fn later_lists_are_paged_only_without_server_cache() {
    let mut cached = Rig::watching(10);
    cached.receive_error(expired());
    assert_eq!(cached.wake(), "LIST rv=10 limit=0");

    let mut uncached = Rig::new();
    uncached.page(&["a"], "10", "more");
    uncached.page(&["b"], "10", "");
    uncached.open();
    uncached.receive_error(expired());
    assert_eq!(uncached.wake(), "LIST rv=10 limit=500");
}

#[test]
fn list_goes_back_only_after_a_lost_revision() {
    for lost in [expired(), failure(410, Reason::Gone), too_large()] {
        let mut rig = Rig::watching(10);
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "LIST rv=10 limit=0");
        assert_eq!(rig.list_fails(lost), "LIST rv= limit=500", "at once");
        assert_eq!(rig.list(&["a"], 20), "WATCH rv=20");
        rig.open();
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "LIST rv=20 limit=0", "the next list is bounded again");
        assert!(rig.errors.is_empty(), "{:?}", rig.errors);
    }
}

#[test]
fn list_rejected_at_any_revision_backs_off() {
    let mut rig = Rig::new();
    assert_eq!(rig.list_fails(expired()), "LIST rv= limit=500");
    assert_eq!(rig.list_fails(expired()), "SLEEP 800");
    assert_eq!(rig.wake(), "LIST rv= limit=500");
}

#[test]
fn expired_page_restarts_the_list_in_one_page() {
    let mut rig = Rig::with(ReflectorConfig { page_size: Some(4), ..config() });
    rig.list(&["a"], 10);
    rig.open();
    rig.receive_error(expired());
    assert_eq!(rig.wake(), "LIST rv=10 limit=4");
    rig.outputs.clear();
    assert_eq!(rig.page(&["a", "b"], "12", "t1"), "LIST rv= limit=4 next");
    assert_eq!(rig.list_fails(expired()), "LIST rv=10 limit=0");
    assert_eq!(rig.page(&["c"], "13", ""), "WATCH rv=13");
    assert_eq!(rig.outputs, ["replaced [c] at 13"], "no object of the first attempt is in the output");
}

/// The server pages a list that was requested without a limit, and then rejects its own continue
/// tokens.
#[test]
fn pages_that_expire_again_fail_the_list() {
    let mut rig = Rig::with(ReflectorConfig { page_size: Some(4), ..config() });
    assert_eq!(rig.page(&["a"], "12", "t1"), "LIST rv= limit=4 next");
    let (mut steps, mut answer) = (0, rig.list_fails(expired()));
    while answer.starts_with("LIST") && steps < 10 {
        steps += 1;
        rig.page(&["a"], "12", "t1");
        answer = rig.list_fails(expired());
    }
    assert_eq!(answer, "SLEEP 800");
    assert!(steps <= 3 && rig.cause().is_some(), "{steps}");
}

/// Each empty page names another next page, so the list would have no end.
#[test]
fn too_many_empty_pages_fail_the_list() {
    let mut rig = Rig::new();
    let next = |rig: &mut Rig, names: &[&str], page: u32| rig.page(names, "12", &page.to_string());
    for page in 0..999 {
        assert_eq!(next(&mut rig, &[], page), "LIST rv= limit=500 next");
    }
    assert_eq!(next(&mut rig, &["a"], 999), "LIST rv= limit=500 next", "an object resets the limit");
    for page in 1_000..1_999 {
        assert_eq!(next(&mut rig, &[], page), "LIST rv= limit=500 next");
    }
    assert_eq!(next(&mut rig, &[], 1_999), "SLEEP 800");
    assert!(rig.errors[0].contains("1000 empty pages"), "{:?}", rig.errors);
}

#[test]
fn repeated_continue_token_fails_the_list() {
    for named in ["t2", "t1"] {
        let mut rig = Rig::new();
        assert_eq!(rig.page(&["a"], "12", "t1"), "LIST rv= limit=500 next");
        assert_eq!(rig.page(&["b"], "12", "t2"), "LIST rv= limit=500 next");
        assert_eq!(rig.page(&["b"], "12", named), "SLEEP 800");
        assert!(rig.cause().is_some_and(|cause| cause.contains("repeats a continue token")), "{:?}", rig.cause());
        assert_eq!(rig.wake(), "LIST rv=0 limit=500");
        assert_eq!(
            rig.page(&["a"], "13", named),
            "LIST rv= limit=500 next",
            "a new list may use the page tokens of the last list"
        );
        assert_eq!(rig.page(&["b"], "13", ""), "WATCH rv=13");
        assert_eq!(rig.outputs, ["replaced [a b] at 13"]);
    }
}

#[test]
fn failed_list_is_retried_and_degrades_the_state() {
    let mut rig = Rig::new();
    let start = rig.now;
    assert_eq!(rig.list_fails(failure(403, Reason::Forbidden)), "SLEEP 800");
    assert_eq!(rig.wake(), "LIST rv=0 limit=500");
    assert_eq!(rig.list_fails(failure(404, Reason::NotFound)), "SLEEP 1600");
    let InformerState::Degraded { cause, since, next_try } = rig.reflector.state() else { panic!("not degraded") };
    assert!(cause.to_string().contains("NotFound"), "{cause}");
    assert_eq!(since, start, "since the first failure");
    assert_eq!(next_try, Some(rig.now + Duration::from_millis(1600)));
    assert_eq!(rig.errors.len(), 2);

    rig.wake();
    let state = rig.reflector.state();
    assert!(matches!(state, InformerState::Degraded { next_try: None, .. }), "a retry is in progress: {state:?}");
    rig.list(&["a"], 5);
    assert!(rig.reflector.state().is_synced());
}

#[test]
fn retry_after_of_the_server_is_respected() {
    let mut status = Status::failure(429, Reason::TooManyRequests, "later");
    status.details = Some(StatusDetails { retry_after_seconds: 17, ..StatusDetails::default() });
    assert_eq!(Rig::new().list_fails(status.into()), "SLEEP 17000");
}

#[test]
fn throttled_watch_is_retried_without_a_list() {
    for error in [refused, too_many_requests] {
        let mut rig = Rig::new();
        rig.list(&["a"], 1);
        for delay in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            assert_eq!(rig.open_fails(error()), format!("SLEEP {delay}"));
            assert_eq!(rig.wake(), "WATCH rv=1");
        }
        assert!(rig.cause().is_some());
        rig.open();
        assert!(rig.cause().is_none());
    }
}

#[test]
fn unanswered_watch_is_retried_before_a_list() {
    let mut rig = Rig::new();
    rig.list(&["a"], 3);
    for _ in 0..2 {
        for _ in 0..5 {
            rig.open_fails(cut());
            assert_eq!(rig.wake(), "WATCH rv=3");
        }
        rig.open_fails(ApiError::timeout("too late"));
        assert_eq!(rig.wake(), "LIST rv=3 limit=0");
        rig.list(&["a"], 3);
        rig.open();
        assert_eq!(rig.receive_error(cut()), "SLEEP 30000", "an open watch resets the count");
        rig.wake();
    }
}

#[test]
fn rejected_watch_causes_a_list() {
    for error in [expired(), failure(500, Reason::InternalError), failure(403, Reason::Forbidden), too_large()] {
        let mut rig = Rig::new();
        rig.list(&["a"], 3);
        assert_eq!(rig.open_fails(error), "SLEEP 800");
        assert_eq!(rig.wake(), "LIST rv=3 limit=0");
    }
}

#[test]
fn throttled_open_watch_is_reopened_without_a_list() {
    let mut rig = Rig::watching(5);
    rig.receive(WatchEvent::Added(pod_at("b", 6)));
    for delay in [800, 1600, 3200, 6400] {
        assert_eq!(rig.receive_error(too_many_requests()), format!("SLEEP {delay}"));
        assert_eq!(rig.wake(), "WATCH rv=6");
        rig.open();
    }
}

#[test]
fn error_on_an_open_watch_causes_a_list() {
    let broken = ApiError::decode("no JSON");
    for (error, is_trouble) in [(expired(), false), (failure(500, Reason::InternalError), true), (broken, true)] {
        let mut rig = Rig::watching(5);
        assert_eq!(rig.receive_error(error), "SLEEP 800");
        assert_eq!(rig.cause().is_some(), is_trouble, "an expired revision is not a failure");
        assert_eq!(rig.wake(), "LIST rv=5 limit=0");
    }
}

#[test]
fn each_event_advances_the_revision() {
    let mut rig = Rig::watching(5);
    let check = |rig: &mut Rig, event: WatchEvent<_>, revision: &str| {
        assert_eq!(rig.receive(event), "READ");
        assert_eq!(rig.reflector.resource_version(), revision);
    };
    check(&mut rig, WatchEvent::Added(pod_at("b", 10)), "10");
    check(&mut rig, WatchEvent::Modified(pod_at("b", 20)), "20");
    rig.bookmark(30, false);
    check(&mut rig, WatchEvent::Deleted(pod_at("b", 40)), "40");
    assert_eq!(rig.outputs, ["added b@10", "updated b@20", "bookmark 30", "deleted b@40"]);
    rig.pass(SECOND);
    assert_eq!(rig.end(), "WATCH rv=40");
}

#[test]
fn synthetic_events_do_not_advance_the_revision() {
    let mut rig = Rig::new();
    rig.page(&[], "", "");
    rig.open();
    rig.receive(WatchEvent::Added(pod_at("b", 20)));
    rig.receive(WatchEvent::Added(pod_at("a", 10)));
    assert_eq!(rig.reflector.resource_version(), "");
    rig.bookmark(30, false);
    assert_eq!(rig.reflector.resource_version(), "30");
    rig.receive(WatchEvent::Added(pod_at("c", 31)));
    assert_eq!(rig.reflector.resource_version(), "31");
}

#[test]
fn ended_watch_is_reopened_at_the_last_revision() {
    let mut news = Rig::watching(5);
    news.receive(WatchEvent::Added(pod_at("b", 6)));
    assert_eq!(news.end(), "WATCH rv=6");

    let mut long = Rig::watching(5);
    long.pass(SECOND);
    assert_eq!(long.end(), "WATCH rv=5");

    let mut broken = Rig::watching(5);
    broken.receive(WatchEvent::Added(pod_at("b", 6)));
    assert_eq!(broken.receive_error(cut()), "WATCH rv=6");
    assert!(broken.errors.is_empty());
}

#[test]
fn immediately_ended_watches_back_off() {
    let mut rig = Rig::watching(5);
    for delay in [800, 1600, 3200] {
        assert_eq!(rig.end(), format!("SLEEP {delay}"));
        assert!(rig.cause().unwrap().contains("at once"));
        assert_eq!(rig.wake(), "WATCH rv=5", "no list is needed");
        rig.open();
    }
}

#[test]
fn lasting_watch_clears_the_short_watch_failure() {
    let short = || {
        let mut rig = Rig::watching(5);
        rig.end();
        rig.wake();
        rig.open();
        assert!(rig.cause().is_some(), "opening does not clear the failure");
        rig
    };
    let mut lasting = short();
    let Command::Read { until } = lasting.command else { panic!("{:?}", lasting.command) };
    assert_eq!(until, lasting.now + SECOND);
    lasting.now = until;
    assert_eq!(lasting.answer(Input::TimedOut), "READ");
    assert!(lasting.cause().is_none());
    let Command::Read { until } = lasting.command else { panic!("{:?}", lasting.command) };
    assert!(until > lasting.now + Duration::from_secs(60));

    let mut news = short();
    news.bookmark(6, false);
    assert!(news.cause().is_none());
}

#[test]
fn one_event_watches_cause_no_hot_loop() {
    let mut rig = Rig::watching(5);
    let mut delays = 0;
    for revision in 6..26 {
        rig.receive(WatchEvent::Added(pod_at("b", revision)));
        if rig.end().starts_with("SLEEP") {
            delays += 1;
            rig.wake();
        }
        rig.open();
    }
    assert!(delays >= 10, "only {delays} delays in 20 watches without any duration");
}

#[test]
fn short_watches_count_only_in_a_row() {
    let mut rig = Rig::watching(5);
    for revision in 6..26 {
        rig.receive(WatchEvent::Added(pod_at("b", revision)));
        if revision % 5 == 0 {
            rig.pass(SECOND);
        }
        assert_eq!(rig.end(), format!("WATCH rv={revision}"));
        rig.open();
    }
}

#[test]
fn object_without_revision_keeps_the_reflector_revision() {
    let mut rig = Rig::watching(5);
    let mut pod = pod_at("b", 1);
    pod.metadata.resource_version.clear();
    rig.receive(WatchEvent::Added(pod));
    assert_eq!(rig.outputs, ["added b@ at 5"]);
    assert_eq!(rig.end(), "WATCH rv=5");
}

#[test]
fn watch_timeout_is_random_and_enforced() {
    let mut timeouts = Vec::new();
    // With this idle timeout, a silent watch ends only when the watch's own timeout expires.
    let silent = ReflectorConfig { watch_idle_timeout: Some(Duration::from_secs(3600)), ..config() };
    let mut rig = Rig::with(silent);
    rig.list(&["a"], 5);
    for _ in 0..50 {
        let Command::Watch(options) = rig.command.clone() else { panic!("{:?}", rig.command) };
        let timeout = options.timeout.unwrap();
        assert!((300..=600).contains(&timeout.as_secs()) && timeout.subsec_nanos() == 0, "{timeout:?}");
        timeouts.push(timeout);
        rig.open();
        // Without a bookmark, the reflector would list after a few silent watches.
        rig.bookmark(5, false);
        let Command::Read { until } = rig.command else { panic!("{:?}", rig.command) };
        assert_eq!(until, rig.now + timeout + Duration::from_secs(30));
        rig.now = until;
        assert_eq!(rig.answer(Input::TimedOut), "WATCH rv=5");
    }
    timeouts.dedup();
    assert!(timeouts.len() > 30, "not by chance: {timeouts:?}");

    let long = Rig::with(ReflectorConfig { watch_timeout: Duration::from_secs(1800), ..config() });
    let mut long = long;
    long.list(&["a"], 5);
    let Command::Watch(options) = long.command else { panic!("{:?}", long.command) };
    assert!((1800..=3600).contains(&options.timeout.unwrap().as_secs()));
}

/// Makes the reflector fail six times, so that the next delay is the maximum delay.
fn six_delays(rig: &mut Rig, mut fail: impl FnMut(&mut Rig) -> String) {
    for delay in [800, 1600, 3200, 6400, 12_800, 25_600] {
        assert_eq!(fail(rig), format!("SLEEP {delay}"));
        rig.wake();
    }
}

#[test]
fn delays_reset_after_a_complete_list() {
    let mut rig = Rig::new();
    six_delays(&mut rig, |rig| rig.list_fails(refused()));
    rig.list(&["a"], 5);
    assert_eq!(rig.open_fails(refused()), "SLEEP 800");

    let mut rig = Rig::streaming();
    six_delays(&mut rig, |rig| rig.open_fails(refused()));
    rig.open();
    rig.bookmark(5, true);
    assert_eq!(rig.receive_error(too_many_requests()), "SLEEP 800");
}

#[test]
fn delays_reset_after_a_watch_event() {
    let mut rig = Rig::new();
    rig.list(&["a"], 5);
    six_delays(&mut rig, |rig| rig.open_fails(refused()));
    rig.open();
    rig.receive(WatchEvent::Added(pod_at("b", 6)));
    assert_eq!(rig.receive_error(too_many_requests()), "SLEEP 800");
}

#[test]
fn delays_reset_after_a_lasting_watch() {
    for end in [
        |rig: &mut Rig| rig.receive_error(expired()),
        |rig: &mut Rig| rig.receive_error(failure(500, Reason::InternalError)),
        |rig: &mut Rig| {
            assert_eq!(rig.end(), "WATCH rv=5");
            rig.open_fails(refused())
        },
    ] {
        let mut rig = Rig::new();
        rig.list(&["a"], 5);
        six_delays(&mut rig, |rig| rig.open_fails(refused()));
        rig.open();
        rig.pass(SECOND);
        assert_eq!(end(&mut rig), "SLEEP 800");
    }
}

#[test]
fn slow_failure_does_not_reset_delays() {
    let mut rig = Rig::new();
    six_delays(&mut rig, |rig| rig.list_fails(refused()));
    for _ in 0..10 {
        rig.pass(Duration::from_secs(180));
        assert_eq!(rig.list_fails(failure(504, Reason::Timeout)), "SLEEP 30000");
        rig.wake();
    }
}

#[test]
fn complete_lists_keep_the_delays_of_failing_watches() {
    let mut rig = Rig::new();
    six_delays(&mut rig, |rig| {
        rig.list(&["a"], 5);
        rig.open_fails(failure(500, Reason::InternalError))
    });
    // A failed list between two failed watches does not reset the delays.
    assert_eq!(rig.list_fails(refused()), "SLEEP 30000");
    rig.wake();
    rig.list(&["a"], 5);
    assert_eq!(rig.open_fails(failure(500, Reason::InternalError)), "SLEEP 30000");
}

#[test]
fn delays_grow_for_watches_failing_after_one_event() {
    let mut rig = Rig::new();
    let mut delays = Vec::new();
    for revision in 5..17 {
        rig.list(&["a"], revision);
        rig.open();
        rig.receive(WatchEvent::Added(pod_at("b", revision + 1)));
        delays.push(rig.receive_error(expired()));
        rig.wake();
    }
    assert!(delays[..5].iter().all(|delay| delay == "SLEEP 800"), "{delays:?}");
    assert_eq!(delays[5..], [1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000].map(|delay| format!("SLEEP {delay}")));
}

#[test]
fn extreme_configuration_does_not_overflow() {
    let backoff =
        BackoffConfig { base: Duration::MAX, factor: f64::INFINITY, cap: Duration::MAX, ..BackoffConfig::default() };
    let mut rig = Rig::with(ReflectorConfig {
        backoff,
        watch_timeout: Duration::from_secs(u64::MAX),
        watch_grace: Duration::from_secs(10),
        ..config()
    });
    rig.list_fails(refused());
    rig.now = Instant::now();
    rig.answer(Input::Woke);
    rig.list(&["a"], 1);
    assert_eq!(rig.open(), "READ");
}
