//! Watches: what they tell, and how they end.

use pintle_meta::{ListWatch, WatchOptions};
use pintle_testing::{Break, Collection, Events};

use crate::support::{Website, from, key, labelled, now, site, sites, told};

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
fn a_watch_from_a_revision_tells_all_that_came_later() {
    let sites = sites(&["a", "b"]);
    sites.remove(&key("a"));
    let mut events = watch(&sites, &from(1));
    sites.put(site("b"));
    assert_eq!(told(&mut events), ["ADDED b@2", "DELETED a@3", "MODIFIED b@4"]);
    sites.put(site("c"));
    assert_eq!(told(&mut events), ["ADDED c@5"]);
}

#[test]
fn a_watch_from_nowhere_begins_with_what_is_there() {
    let sites = sites(&["b", "a"]);
    for version in ["", "0"] {
        let mut events = watch(&sites, &WatchOptions { resource_version: version.into(), ..WatchOptions::default() });
        assert_eq!(told(&mut events), ["ADDED a@2", "ADDED b@1"], "in the order of their keys");
    }
}

#[test]
fn a_streaming_list_ends_with_its_bookmark_and_goes_on_as_a_watch() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &streaming("1"));
    sites.put(site("b"));
    assert_eq!(told(&mut events), ["ADDED a@1", "BOOKMARK @1 end", "ADDED b@2"]);
    let mut unmarked = watch(&sites, &WatchOptions { allow_bookmarks: false, ..streaming("") });
    assert_eq!(told(&mut unmarked), ["ADDED a@1", "ADDED b@2"]);
    assert_eq!(told(&mut watch(&sites, &streaming("9"))), ["ERROR 504", "end"]);
}

#[test]
fn a_watch_from_the_forgotten_past_is_told_so_and_an_open_one_goes_on() {
    let sites = sites(&["a"]);
    let mut open = watch(&sites, &from(1));
    sites.put(site("b"));
    sites.compact();
    assert_eq!(told(&mut watch(&sites, &from(1))), ["ERROR 410", "end"]);
    assert_eq!(told(&mut watch(&sites, &from(2))), [""; 0]);
    assert_eq!(told(&mut open), ["ADDED b@2"]);
}

#[test]
fn a_watch_from_the_future_is_silent_until_then() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &from(2));
    sites.put(site("b"));
    sites.put(site("c"));
    assert_eq!(told(&mut events), ["ADDED c@3"]);
}

#[test]
fn what_comes_to_match_is_added_and_what_ceases_to_is_deleted() {
    let sites = sites(&[]);
    let selecting = WatchOptions { label_selector: "app=web".parse().unwrap(), ..from(0) };
    let mut events = watch(&sites, &selecting);
    for labels in [&[][..], &[("app", "web")], &[("app", "web"), ("x", "y")], &[("app", "db")], &[]] {
        sites.put(labelled("a", labels));
    }
    sites.remove(&key("a"));
    assert_eq!(told(&mut events), ["ADDED a@2", "MODIFIED a@3", "DELETED a@4"]);
    let mut later = watch(&sites, &WatchOptions { resource_version: "2".into(), ..selecting });
    assert_eq!(told(&mut later), ["MODIFIED a@3", "DELETED a@4"]);
    let mut other = now(sites.client("one").in_namespace("other").watch(&from(1))).unwrap();
    assert!(told(&mut other).is_empty());
}

#[test]
fn bookmarks_come_in_their_place_to_who_allows_them() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &from(1));
    let mut without = watch(&sites, &WatchOptions { allow_bookmarks: false, ..from(1) });
    sites.put(site("b"));
    sites.advance();
    sites.bookmark();
    sites.put(site("c"));
    assert_eq!(told(&mut events), ["ADDED b@2", "BOOKMARK @3", "ADDED c@4"]);
    assert_eq!(told(&mut without), ["ADDED b@2", "ADDED c@4"]);
}

#[test]
fn what_was_said_before_a_break_is_heard() {
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
        let told = told(&mut events);
        assert_eq!(
            (told[0].as_str(), &told[1..]),
            ("ADDED b@2", &last.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..])
        );
        assert_eq!(sites.open_watches(), usize::from(matches!(how, Break::Silent)));
    }
}

#[test]
fn a_silent_watch_can_still_be_broken_and_hears_nothing_of_the_silence() {
    let sites = sites(&["a"]);
    let mut events = watch(&sites, &from(1));
    sites.break_watches(Break::Silent);
    sites.put(site("b"));
    sites.bookmark();
    assert_eq!((told(&mut events), sites.open_watches()), (vec![], 1));
    sites.break_watches(Break::End);
    assert_eq!((told(&mut events), sites.open_watches()), (vec!["end".into()], 0));
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
async fn a_task_that_waits_for_a_watch_is_woken_by_what_concerns_it() {
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
