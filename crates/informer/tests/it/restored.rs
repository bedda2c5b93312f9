//! Tests of watches that outlive a restore of the server from a backup. After the restore, the server has lower
//! revisions than the reflector.

use std::time::{Duration, Instant};

use pintle_informer::reflector::Command;
use pintle_meta::WatchEvent;

use crate::support::rig::Rig;
use crate::support::{pod_at, too_large};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns a test rig whose reflector has opened its second watch at revision 100.
fn reopened() -> Rig {
    let mut rig = Rig::watching(100);
    rig.pass(MINUTE);
    assert_eq!(rig.end(), "WATCH rv=100");
    rig.open();
    rig
}

#[test]
fn event_below_the_watch_start_causes_a_list() {
    for event in [WatchEvent::Added, WatchEvent::Modified, WatchEvent::Deleted] {
        let mut rig = reopened();
        assert_eq!(rig.receive(event(pod_at("a", 60))), "SLEEP 800");
        assert!(rig.cause().is_some_and(|cause| cause.contains("60") && cause.contains("100")), "{:?}", rig.cause());
        assert!(rig.outputs.is_empty(), "{:?}", rig.outputs);
        assert_eq!(rig.wake(), "LIST rv=100 limit=0");
    }
}

#[test]
fn bookmark_below_the_watch_start_causes_a_list() {
    let mut rig = reopened();
    assert_eq!(rig.bookmark(100, false), "READ");
    assert_eq!(rig.bookmark(99, false), "SLEEP 800");
    assert_eq!(rig.wake(), "LIST rv=100 limit=0");
    assert_eq!(rig.outputs, ["bookmark 100"]);
}

#[test]
fn watch_after_a_streaming_list_starts_at_its_revision() {
    let mut rig = Rig::streaming();
    rig.open();
    rig.receive(WatchEvent::Added(pod_at("a", 7)));
    rig.bookmark(100, true);
    assert_eq!(rig.receive(WatchEvent::Modified(pod_at("a", 99))), "SLEEP 800");
}

/// A restored server with lower revisions accepts the watch, but sends no events and no bookmarks.
#[test]
fn restore_is_noticed_although_the_watch_is_silent() {
    let mut rig = reopened();
    let restored = rig.now;
    assert_eq!(rig.time_out(), "WATCH rv=100", "one silent watch proves nothing");
    rig.open();
    assert_eq!(rig.time_out(), "LIST rv=100 limit=0");
    assert_eq!(rig.list_fails(too_large()), "LIST rv= limit=500");
    while !matches!(rig.command, Command::Watch(_)) {
        match rig.command {
            Command::List(_) => rig.list(&["b"], 50),
            _ => rig.wake(),
        };
    }
    assert_eq!((rig.command_text(), rig.outputs), ("WATCH rv=50".into(), vec!["replaced [b] at 50".into()]));
    assert!(rig.now - restored < 6 * MINUTE, "{:?}", rig.now - restored);
}

#[test]
fn event_or_bookmark_ends_the_silence() {
    let bookmark: fn(&mut Rig) -> String = |rig| rig.bookmark(100, false);
    for news in [bookmark, |rig| rig.receive(WatchEvent::Modified(pod_at("a", 101)))] {
        let mut rig = reopened();
        for _ in 0..10 {
            assert!(rig.time_out().starts_with("WATCH"));
            rig.open();
            news(&mut rig);
            assert!(rig.time_out().starts_with("WATCH"));
            rig.open();
        }
    }
}

/// Returns the times of the lists on a day without events and bookmarks. A proxy cuts each watch after `lasts`.
fn quiet_day(lasts: Option<Duration>) -> Vec<Instant> {
    let (mut rig, mut lists) = (Rig::watching(100), Vec::new());
    let start = rig.now;
    while rig.now - start < DAY {
        match (&rig.command, lasts) {
            (Command::Watch(_), _) => drop(rig.open()),
            (Command::Read { until }, Some(lasts)) if rig.now + lasts < *until => {
                rig.pass(lasts);
                rig.end();
            }
            (Command::Read { .. }, _) => drop(rig.time_out()),
            (Command::List(_), _) => {
                lists.push(rig.now);
                rig.list(&["a"], 100);
            }
            (Command::Sleep(_), _) => drop(rig.wake()),
        }
    }
    lists
}

#[test]
fn gaps_between_lists_grow_to_two_hours() {
    for lasts in [None, Some(Duration::from_secs(1)), Some(Duration::from_secs(30)), Some(5 * MINUTE)] {
        let lists = quiet_day(lasts);
        assert!((12..=24).contains(&lists.len()), "{lasts:?}: {} lists", lists.len());
        let gaps: Vec<_> = lists.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[0] < 40 * MINUTE && gaps[..3].is_sorted_by(|one, next| one < next), "{gaps:?}");
        assert!(gaps[gaps.len() / 2..].iter().all(|gap| *gap >= 120 * MINUTE), "{gaps:?}");
    }
}
