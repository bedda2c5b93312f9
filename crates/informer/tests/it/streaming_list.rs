//! Tests of streaming lists.

use std::time::Duration;

use pintle_informer::ReflectorConfig;
use pintle_informer::reflector::{Command, Input};
use pintle_meta::{Reason, ResourceVersionMatch, Status, StatusDetails, WatchEvent};

use crate::support::rig::{Rig, config};
use crate::support::{cut, expired, failure, pod_at, refused, too_large, too_many_requests};

fn added(rig: &mut Rig, name: &str, revision: u64) -> String {
    rig.receive(WatchEvent::Added(pod_at(name, revision)))
}

#[test]
fn stream_is_a_list_until_its_bookmark() {
    let mut rig = Rig::streaming();
    assert_eq!(rig.command_text(), "WATCH rv= initial");
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
    assert!(rig.outputs.is_empty(), "only the annotated bookmark ends the stream");
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
fn deletion_during_a_stream_keeps_other_objects() {
    let mut rig = Rig::streaming();
    rig.open();
    for name in ["a", "b", "c", "d", "e"] {
        added(&mut rig, name, 1);
    }
    let deleted = |rig: &mut Rig, name| rig.receive(WatchEvent::Deleted(pod_at(name, 2)));
    deleted(&mut rig, "a");
    rig.receive(WatchEvent::Modified(pod_at("e", 3)));
    for name in ["e", "c", "nobody", "d"] {
        deleted(&mut rig, name);
    }
    rig.receive(WatchEvent::Modified(pod_at("d", 4)));
    added(&mut rig, "a", 5);
    rig.bookmark(6, true);
    assert_eq!(rig.outputs, ["replaced [a b d] at 6"]);
}

#[test]
fn busy_server_receives_another_stream_request() {
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
    assert_eq!(rig.outputs, ["replaced [] at 2"], "no object of the broken stream");
}

#[test]
fn rejected_stream_is_replaced_by_a_list() {
    let mut rig = Rig::streaming();
    assert_eq!(rig.open_fails(failure(500, Reason::InternalError)), "LIST rv=0 limit=500");
    assert_eq!(rig.list(&["a"], 5), "WATCH rv=5");
    rig.open();
    rig.receive_error(expired());
    assert_eq!(rig.wake(), "WATCH rv=5 initial", "the next round streams again");
}

#[test]
fn stream_is_retried_after_retry_after() {
    let mut status = Status::failure(503, Reason::ServiceUnavailable, "starting");
    status.details = Some(StatusDetails { retry_after_seconds: 17, ..StatusDetails::default() });
    let mut rig = Rig::streaming();
    assert_eq!(rig.open_fails(status.into()), "SLEEP 17000");
    assert_eq!(rig.wake(), "WATCH rv= initial");
}

#[test]
fn streams_pause_for_a_server_without_support() {
    for reason in [Reason::Invalid, Reason::BadRequest] {
        let mut rig = Rig::streaming();
        assert_eq!(rig.open_fails(failure(422, reason.clone())), "LIST rv=0 limit=500");
        rig.list(&["a"], 5);
        rig.open();
        for (minutes, request) in [(0, "LIST rv=5 limit=0"), (9, "LIST rv=5 limit=0"), (1, "WATCH rv=5 initial")] {
            rig.pass(Duration::from_secs(minutes * 60));
            rig.receive_error(expired());
            assert_eq!(rig.wake(), request);
            if request.starts_with("LIST") {
                rig.list(&["a"], 5);
                rig.open();
            }
        }
        rig.open_fails(failure(422, reason));
        rig.list(&["a"], 5);
        rig.open();
        rig.pass(Duration::from_secs(1199));
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "LIST rv=5 limit=0", "the second pause is twice as long");
    }
}

#[test]
fn finished_stream_resets_the_stream_pauses() {
    let mut rig = Rig::streaming();
    for _ in 0..3 {
        rig.open();
        assert!(rig.end().starts_with("LIST"));
        rig.list(&["a"], 5);
        rig.open();
        rig.pass(Duration::from_secs(600));
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "WATCH rv=5 initial", "after the shortest pause");
        rig.open();
        rig.bookmark(5, true);
        rig.receive_error(expired());
        assert_eq!(rig.wake(), "WATCH rv=5 initial");
    }
}

#[test]
fn idle_stream_is_replaced_by_a_list() {
    let mut rig = Rig::with(ReflectorConfig {
        streaming_list: true,
        streaming_list_idle_timeout: Duration::from_secs(20),
        ..config()
    });
    rig.open();
    assert_eq!(rig.until(), rig.now + Duration::from_secs(20));
    for (number, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        rig.pass(Duration::from_secs(19));
        added(&mut rig, name, number as u64);
        assert_eq!(rig.until(), rig.now + Duration::from_secs(20), "new objects extend the deadline");
    }
    let last = rig.now;
    rig.pass(Duration::from_secs(19));
    rig.receive(WatchEvent::Modified(pod_at("a", 9)));
    rig.bookmark(9, false);
    assert_eq!(rig.until(), last + Duration::from_secs(20), "other events do not extend it");
    assert_eq!(rig.time_out(), "LIST rv=0 limit=500");
    assert_eq!(rig.errors, ["the server did not finish a streaming list"]);
    rig.list(&["a"], 5);
    rig.open();
    rig.receive_error(expired());
    assert_eq!(rig.wake(), "LIST rv=5 limit=0", "streams pause");
}

#[test]
fn busy_stream_times_out_as_well() {
    let mut rig = Rig::streaming();
    rig.open();
    added(&mut rig, "a", 1);
    rig.pass(Duration::from_secs(59));
    assert_eq!(rig.receive(WatchEvent::Modified(pod_at("a", 2))), "READ");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.receive(WatchEvent::Modified(pod_at("a", 3))), "LIST rv=0 limit=500");
    assert_eq!(rig.errors, ["the server did not finish a streaming list"]);

    let mut growing = Rig::streaming();
    growing.open();
    let mut seconds = 0;
    while added(&mut growing, &format!("pod-{seconds}"), seconds) == "READ" {
        growing.pass(Duration::from_secs(1));
        seconds += 1;
    }
    assert!((330..=630).contains(&seconds), "the time of its watch is over: {seconds}");

    let mut late = Rig::streaming();
    late.open();
    late.pass(Duration::from_secs(61));
    assert_eq!(late.bookmark(5, true), "READ", "a complete list is accepted");
    assert_eq!(late.outputs, ["replaced [] at 5"]);
}

#[test]
fn early_ended_streams_are_replaced_by_lists() {
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
        assert_eq!(anew.end(), "WATCH rv= initial", "the count is per round");
        anew.open_fails(failure(500, Reason::InternalError));
        anew.list_fails(failure(500, Reason::InternalError));
        assert_eq!(anew.wake(), "WATCH rv= initial");
    }
}

#[test]
fn stream_at_a_lost_revision_restarts_at_newest() {
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
