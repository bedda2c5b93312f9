//! The first state as a stream.

use std::time::Duration;

use pintle_informer::ReflectorConfig;
use pintle_informer::reflector::{Command, Input};
use pintle_meta::{Reason, ResourceVersionMatch, WatchEvent};

use crate::support::rig::{Rig, config};
use crate::support::{cut, expired, failure, pod_at, refused, too_large, too_many_requests};

fn added(rig: &mut Rig, name: &str, revision: u64) -> String {
    rig.receive(WatchEvent::Added(pod_at(name, revision)))
}

#[test]
fn the_stream_holds_everything_up_to_its_bookmark_and_goes_on_as_the_watch() {
    let mut rig = Rig::streaming();
    assert_eq!(rig.asks(), "WATCH rv= initial");
    let Command::Watch(options) = rig.command.clone() else { panic!("{:?}", rig.command) };
    assert_eq!(options.resource_version_match, Some(ResourceVersionMatch::NotOlderThan));
    assert!(options.allow_bookmarks && options.timeout.is_some());

    assert_eq!(rig.open(), "READ");
    added(&mut rig, "a", 1);
    added(&mut rig, "b", 2);
    added(&mut rig, "c", 3);
    rig.receive(WatchEvent::Modified(pod_at("a", 4)));
    rig.receive(WatchEvent::Deleted(pod_at("b", 5)));
    rig.bookmark(5, false);
    assert!(rig.outputs.is_empty(), "only the annotated bookmark ends it");
    assert_eq!(rig.reflector.resource_version(), "");
    assert_eq!(rig.bookmark(6, true), "READ");
    assert_eq!(rig.outputs, ["replaced [a c] at 6"]);
    assert!(rig.reflector.state().is_synced());

    added(&mut rig, "d", 7);
    assert_eq!(rig.outputs.last().unwrap(), "added d@7");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.end(), "WATCH rv=7");
}

#[test]
fn a_server_that_is_busy_is_asked_for_a_stream_again() {
    let mut rig = Rig::streaming();
    assert_eq!(rig.open_fails(too_many_requests()), "SLEEP 800");
    assert_eq!(rig.wake(), "WATCH rv= initial");
    assert_eq!(rig.open_fails(refused()), "SLEEP 1600");
    assert_eq!(rig.wake(), "WATCH rv= initial");
    rig.open();
    added(&mut rig, "a", 1);
    assert_eq!(rig.receive_error(too_many_requests()), "SLEEP 3200");
    assert_eq!(rig.wake(), "WATCH rv= initial");
    rig.open();
    rig.bookmark(2, true);
    assert_eq!(rig.outputs, ["replaced [] at 2"], "nothing of the broken stream is left");
}

#[test]
fn a_stream_that_is_refused_gives_way_to_a_list_in_this_round() {
    let mut rig = Rig::streaming();
    assert_eq!(rig.open_fails(failure(500, Reason::InternalError)), "LIST rv=0 limit=500");
    assert_eq!(rig.list(&["a"], 5), "WATCH rv=5");
    rig.open();
    rig.receive_error(expired());
    assert_eq!(rig.wake(), "WATCH rv=5 initial", "the next round tries again");
}

#[test]
fn a_server_that_does_not_know_of_streams_is_not_asked_twice() {
    for reason in [Reason::Invalid, Reason::BadRequest] {
        let mut rig = Rig::streaming();
        assert_eq!(rig.open_fails(failure(422, reason)), "LIST rv=0 limit=500");
        rig.list(&["a"], 5);
        rig.open();
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "LIST rv=5 limit=0");
    }
}

#[test]
fn a_stream_without_an_end_gives_way_to_a_list_after_its_deadline() {
    let mut rig = Rig::with(ReflectorConfig {
        streaming_list: true,
        streaming_list_deadline: Duration::from_secs(20),
        ..config()
    });
    rig.open();
    let start = rig.now;
    added(&mut rig, "a", 1);
    rig.pass(Duration::from_secs(19));
    added(&mut rig, "b", 2);
    let Command::Read { until } = rig.command else { panic!("{:?}", rig.command) };
    assert_eq!(until, start + Duration::from_secs(20), "events do not put it off");
    assert_eq!(rig.answer(Input::TimedOut), "LIST rv=0 limit=500");
    assert_eq!(rig.errors.len(), 1);
    rig.list(&["a"], 5);
    rig.open();
    rig.receive_error(expired());
    assert_eq!(rig.wake(), "LIST rv=5 limit=0", "it is not asked twice");
}

#[test]
fn a_stream_that_always_has_something_ready_has_the_same_deadline() {
    let mut rig = Rig::streaming();
    rig.open();
    rig.pass(Duration::from_secs(59));
    assert_eq!(added(&mut rig, "a", 1), "READ");
    rig.pass(Duration::from_secs(1));
    assert_eq!(added(&mut rig, "b", 2), "LIST rv=0 limit=500");
    assert_eq!(rig.errors, ["the server did not finish a streaming list"]);

    let mut late = Rig::streaming();
    late.open();
    late.pass(Duration::from_secs(61));
    assert_eq!(late.bookmark(5, true), "READ", "what is complete is taken");
    assert_eq!(late.outputs, ["replaced [] at 5"]);
}

#[test]
fn streams_that_end_early_are_not_asked_for_without_end() {
    let mut rig = Rig::streaming();
    for _ in 0..2 {
        rig.open();
        rig.pass(Duration::from_secs(2));
        assert_eq!(rig.end(), "WATCH rv= initial");
    }
    rig.open();
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.answer(Input::Received(Some(Err(cut())))), "LIST rv=0 limit=500");

    let mut short = Rig::streaming();
    short.open();
    assert_eq!(short.end(), "LIST rv=0 limit=500");

    let mut anew = Rig::streaming();
    for _ in 0..5 {
        anew.open();
        anew.pass(Duration::from_secs(2));
        assert_eq!(anew.end(), "WATCH rv= initial", "each round has its own count");
        anew.open_fails(failure(500, Reason::InternalError));
        anew.list_fails(failure(500, Reason::InternalError));
        assert_eq!(anew.wake(), "WATCH rv= initial");
    }
}

#[test]
fn a_stream_at_a_revision_that_is_lost_begins_at_the_newest() {
    for lost in [expired(), too_large()] {
        let mut rig = Rig::streaming();
        rig.open();
        rig.bookmark(5, true);
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "WATCH rv=5 initial");
        assert_eq!(rig.open_fails(lost), "WATCH rv= initial");
        rig.open();
        assert_eq!(rig.bookmark(9, true), "READ");
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "WATCH rv=9 initial");
    }
}
