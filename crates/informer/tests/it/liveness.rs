//! Tests with connections that look open but deliver nothing.

use std::time::Duration;

use pintle_informer::reflector::Command;
use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer};
use pintle_meta::WatchEvent;
use pintle_testing::Break;

use crate::support::rig::{Rig, config};
use crate::support::{expired, key, pod, pod_at, pods, requests, settle};

const SECOND: Duration = Duration::from_secs(1);

fn with_bookmarks(seconds: &[u32]) -> Rig {
    let mut rig = Rig::watching(5);
    for &pause in seconds {
        rig.pass(pause * SECOND);
        rig.bookmark(6, false);
    }
    rig
}

fn patience(rig: &Rig) -> u64 {
    (rig.until() - rig.now).as_secs()
}

#[test]
fn watch_without_bookmarks_times_out() {
    let mut rig = with_bookmarks(&[10, 60, 75, 60]);
    assert_eq!(patience(&rig), 75 + 30);
    assert_eq!(rig.time_out(), "WATCH rv=6");
    assert_eq!(rig.errors, ["the watch fell silent"]);
    assert!(rig.reflector.state().is_synced(), "a new watch has started");
}

#[test]
fn any_event_resets_the_idle_timeout() {
    let mut rig = with_bookmarks(&[10, 60]);
    for revision in 7..10 {
        rig.pass(20 * SECOND);
        rig.receive(WatchEvent::Added(pod_at("b", revision)));
        assert_eq!(patience(&rig), 60 + 30);
    }
    assert!(rig.errors.is_empty());
}

/// If a watch has received at most one bookmark, the interval between bookmarks is unknown.
#[test]
fn first_watch_has_the_same_idle_timeout() {
    for bookmarks in [&[][..], &[10]] {
        let mut rig = with_bookmarks(bookmarks);
        assert_eq!(patience(&rig), 60 + 30);
        rig.pass(10 * SECOND);
        rig.receive(WatchEvent::Added(pod_at("b", 7)));
        assert_eq!(patience(&rig), 60 + 30);
        assert_eq!(rig.time_out(), "WATCH rv=7");
        assert_eq!(rig.errors, ["the watch fell silent"]);
    }
}

#[test]
fn idle_timeout_doubles_without_bookmarks() {
    let mut rig = Rig::watching(5);
    let mut waited = Vec::new();
    while rig.errors.len() == waited.len() {
        waited.push(patience(&rig));
        if rig.time_out() == "LIST rv=5 limit=0" {
            rig.list(&["a"], 5);
        }
        assert_eq!(rig.command_text(), "WATCH rv=5");
        rig.open();
    }
    assert!(waited.starts_with(&[90, 180]) && waited.len() <= 4, "{waited:?}");
    assert!(*waited.last().unwrap() > 300, "{waited:?}");
    rig.receive(WatchEvent::Added(pod_at("b", 7)));
    assert!(patience(&rig) > 300, "events do not count as bookmarks");
    rig.bookmark(8, false);
    assert_eq!(patience(&rig), 90, "the server does send bookmarks");
}

#[test]
fn close_bookmarks_do_not_shorten_the_timeout() {
    let rig = with_bookmarks(&[1, 1, 1]);
    assert_eq!(patience(&rig), 60 + 30);
}

#[test]
fn bookmark_gap_carries_over_to_the_next_watch() {
    let mut rig = with_bookmarks(&[1, 90]);
    rig.end();
    rig.open();
    assert_eq!(patience(&rig), 90 + 30);
    for pause in [5, 60] {
        rig.pass(pause * SECOND);
        rig.bookmark(7, false);
    }
    assert_eq!(patience(&rig), 60 + 30, "old gaps are forgotten");
}

#[test]
fn too_short_idle_timeout_is_not_used_again() {
    let mut rig = with_bookmarks(&[1, 1]);
    rig.time_out();
    rig.open();
    assert_eq!(patience(&rig), 2 * (60 + 30));
    rig.time_out();
    rig.open();
    assert!(patience(&rig) > 300, "bookmarks must be seen again");
    rig.bookmark(7, false);
    assert_eq!(patience(&rig), 60 + 30);
}

#[test]
fn watch_idle_timeout_can_be_configured() {
    let mut rig = Rig::with(ReflectorConfig { watch_idle_timeout: Some(20 * SECOND), ..config() });
    rig.list(&["a"], 5);
    rig.open();
    for _ in 0..3 {
        assert_eq!(patience(&rig), 20);
        rig.pass(19 * SECOND);
        rig.bookmark(6, false);
    }
    assert_eq!(rig.time_out(), "WATCH rv=6");

    let mut hasty = Rig::with(ReflectorConfig { watch_idle_timeout: Some(Duration::ZERO), ..config() });
    hasty.list(&["a"], 5);
    hasty.open();
    assert_eq!(hasty.time_out(), "SLEEP 800", "no hot loop");
}

#[test]
fn f19_watch_timeout_is_at_least_5_minutes() {
    for (configured, shortest) in [(0, 300), (1, 300), (299, 300), (1800, 1800)] {
        let mut rig = Rig::with(ReflectorConfig { watch_timeout: configured * SECOND, ..config() });
        rig.list(&["a"], 5);
        for _ in 0..20 {
            let Command::Watch(options) = rig.command.clone() else { panic!("{:?}", rig.command) };
            let timeout = options.timeout.unwrap().as_secs();
            assert!((shortest..=2 * shortest).contains(&timeout), "{configured}: {timeout}");
            rig.open();
            rig.pass(SECOND);
            rig.end();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn half_open_watch_is_reopened_after_90_seconds() {
    for bookmarks in [0, 1, 3] {
        let source = pods(&["a"]);
        let informer = SharedInformer::new(source.clone(), InformerConfig::default());
        informer.start();
        informer.wait_for_sync().await.unwrap();
        for _ in 0..bookmarks {
            tokio::time::sleep(60 * SECOND).await;
            source.bookmark();
        }
        settle().await;
        requests(&source);
        source.break_watches(Break::Silent);
        source.put(pod("b", ""));
        tokio::time::sleep(91 * SECOND).await;
        assert_eq!(requests(&source), ["WATCH rv=1"]);
        assert!(informer.lister().get(&key("b")).is_some());

        source.break_watches(Break::Fails(expired()));
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(requests(&source), ["LIST rv=2 limit=0", "WATCH rv=2"]);
    }
}
