//! Tests which events watches send, and how watches end.

use pintle_meta::{ListWatch, WatchOptions};
use pintle_testing::{Break, Collection, Events};

use crate::support::{Website, available, from, key, labelled, now, site, sites};

fn watch(sites: &Collection<Website>, options: &WatchOptions) -> Events {
    now(sites.watch(options)).unwrap()
}

fn streaming(resource_version: &str) -> WatchOptions {
    WatchOptions {
        resource_version: resource_version.into(),
        send_initial_events: true,
        allow_bookmarks: true,
        ..WatchOptions::default()
    }
}

#[test]
fn watch_from_a_revision_delivers_all_later_events() {
    let sites = sites(&["a", "b"]);
    sites.remove(&key("a"));
    let mut events = watch(&sites, &from(1));
    sites.put(site("b"));
    assert_eq!(available(&mut events), ["ADDED b@2", "DELETED a@3", "MODIFIED b@4"]);
    sites.put(site("c"));
    assert_eq!(available(&mut events), ["ADDED c@5"]);
}

#[test]
fn watch_without_a_revision_starts_with_current_state() {
    let sites = sites(&["b", "a"]);
    for version in ["", "0"] {
        let mut events = watch(&sites, &WatchOptions { resource_version: version.into(), ..WatchOptions::default() });
        assert_eq!(available(&mut events), ["ADDED a@2", "ADDED b@1"], "sorted by key");
    }
}

#[test]
fn streaming_list_ends_with_bookmark_and_continues() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &streaming("1"));
    sites.put(site("b"));
    assert_eq!(available(&mut events), ["ADDED a@1", "BOOKMARK @1 end", "ADDED b@2"]);
    let mut unmarked = watch(&sites, &WatchOptions { allow_bookmarks: false, ..streaming("") });
    assert_eq!(available(&mut unmarked), ["ADDED a@1", "ADDED b@2"]);
    assert_eq!(available(&mut watch(&sites, &streaming("9"))), ["ERROR 504", "end"]);
}

#[test]
fn compaction_expires_new_watches_and_keeps_open_ones() {
    let sites = sites(&["a"]);
    let mut open = watch(&sites, &from(1));
    sites.put(site("b"));
    sites.compact();
    assert_eq!(available(&mut watch(&sites, &from(1))), ["ERROR 410", "end"]);
    assert_eq!(available(&mut watch(&sites, &from(2))), [""; 0]);
    assert_eq!(available(&mut open), ["ADDED b@2"]);
}

#[test]
fn watch_from_a_future_revision_waits() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &from(2));
    sites.put(site("b"));
    sites.put(site("c"));
    assert_eq!(available(&mut events), ["ADDED c@3"]);
}

#[test]
fn objects_entering_and_leaving_selection_are_added_and_deleted() {
    let sites = sites(&[]);
    let selecting = WatchOptions { label_selector: "app=web".parse().unwrap(), ..from(0) };
    let mut events = watch(&sites, &selecting);
    for labels in [&[][..], &[("app", "web")], &[("app", "web"), ("x", "y")], &[("app", "db")], &[]] {
        sites.put(labelled("a", labels));
    }
    sites.remove(&key("a"));
    assert_eq!(available(&mut events), ["ADDED a@2", "MODIFIED a@3", "DELETED a@4"]);
    let mut later = watch(&sites, &WatchOptions { resource_version: "2".into(), ..selecting });
    assert_eq!(available(&mut later), ["MODIFIED a@3", "DELETED a@4"]);
    let mut other = now(sites.client("one").in_namespace("other").watch(&from(1))).unwrap();
    assert!(available(&mut other).is_empty());
}

#[test]
fn bookmarks_are_ordered_and_opt_in() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &from(1));
    let mut without = watch(&sites, &WatchOptions { allow_bookmarks: false, ..from(1) });
    sites.put(site("b"));
    sites.advance();
    sites.bookmark();
    sites.put(site("c"));
    assert_eq!(available(&mut events), ["ADDED b@2", "BOOKMARK @3", "ADDED c@4"]);
    assert_eq!(available(&mut without), ["ADDED b@2", "ADDED c@4"]);
}

#[test]
fn events_before_a_break_are_delivered() {
    for (how, last) in [
        (Break::End, &["end"][..]),
        (Break::expired(), &["ERROR 410", "end"]),
        (Break::cut(), &["failed: the connection failed: the connection was cut", "end"]),
        (Break::Silent, &[]),
    ] {
        let sites = sites(&["a"]);
        let mut events = watch(&sites, &from(1));
        sites.put(site("b"));
        sites.break_watches(how.clone());
        sites.put(site("c"));
        let available = available(&mut events);
        assert_eq!(
            (available[0].as_str(), &available[1..]),
            ("ADDED b@2", &last.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..])
        );
        assert_eq!(sites.open_watches(), usize::from(matches!(how, Break::Silent)));
    }
}

#[test]
fn silent_watch_can_be_broken_without_missed_events() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &from(1));
    sites.break_watches(Break::Silent);
    sites.put(site("b"));
    sites.bookmark();
    assert_eq!((available(&mut events), sites.open_watches()), (vec![], 1));
    sites.break_watches(Break::End);
    assert_eq!((available(&mut events), sites.open_watches()), (vec!["end".into()], 0));
}

#[test]
fn dropping_the_stream_closes_the_watch() {
    let sites = sites(&["a"]);
    let (one, other) = (watch(&sites, &from(1)), watch(&sites, &from(1)));
    assert_eq!(sites.open_watches(), 2);
    drop(one);
    assert_eq!(sites.open_watches(), 1);
    drop(other);
    assert_eq!(sites.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn watching_task_wakes_only_for_relevant_changes() {
    let sites = sites(&["a"]);
    for wake in [
        (|sites| _ = sites.put(site("b"))) as fn(&Collection<Website>),
        |sites| _ = sites.remove(&key("b")),
        Collection::bookmark,
        |sites| sites.break_watches(Break::End),
    ] {
        let mut events = watch(&sites, &from(sites.revision()));
        let waiting = tokio::spawn(async move { events.next().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        wake(&sites);
        waiting.await.unwrap().transpose().unwrap();
    }
}
