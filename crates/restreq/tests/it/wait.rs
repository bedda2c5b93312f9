//! Tests of watches that resume, and of methods that wait for a state of an object.

use std::time::Duration;

use pintle_meta::{ApiError, DynamicObject, ErrorKind, ObjectMeta, WatchEvent, WatchOptions};
use pintle_restreq::{Api, RetryWatch};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{End, Reply, Server, soon, steady_clock};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Widget {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Widget, "example.com/v1", "Widget", "widgets", Namespaced);

fn api(server: &Server) -> Api<Widget> {
    Api::namespaced(server.client(), "ns")
}

fn from(revision: &str) -> WatchOptions {
    WatchOptions { resource_version: revision.into(), ..WatchOptions::default() }
}

fn watch(server: &Server) -> RetryWatch<Widget> {
    api(server).retry_watch(&from("3")).unwrap()
}

fn frame(event: &str, revision: &str) -> &'static str {
    let object = json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": revision}});
    json!({"type": event, "object": object}).to_string().leak()
}

fn failing(code: u16) -> &'static str {
    let status = json!({"kind": "Status", "status": "Failure", "code": code});
    json!({"type": "ERROR", "object": status}).to_string().leak()
}

fn revisions(server: &Server) -> Vec<String> {
    let uris = server.seen().into_iter().map(|seen| seen.uri);
    let revision =
        |uri: String| uri.split("resourceVersion=").nth(1).map(|rest| rest.split('&').next().unwrap().into());
    uris.filter_map(revision).collect()
}

#[tokio::test(start_paused = true)]
async fn retry_watch_resumes_after_any_end() {
    let _clock = steady_clock();
    let server = Server::start([
        Reply::watch(&[frame("ADDED", "5"), frame("MODIFIED", "7")], End::Proper),
        Reply::json(500, "{}"),
        Reply::json(404, "{}"),
        Reply::watch(&[], End::Proper),
        Reply::watch(&[frame("BOOKMARK", "20")], End::Cut),
        Reply::watch(&[failing(504)], End::Proper),
        Reply::watch(&[failing(666)], End::Proper),
        Reply::watch(&[frame("DELETED", "30"), "{"], End::Proper),
        Reply::watch(&[failing(410)], End::Proper),
    ])
    .await;
    let mut watch = watch(&server);
    let mut events = Vec::new();
    let error = loop {
        match watch.next().await.unwrap() {
            Ok(WatchEvent::Added(it) | WatchEvent::Modified(it) | WatchEvent::Deleted(it)) => {
                events.push(it.metadata.resource_version);
            }
            Ok(other) => panic!("{other:?} is not events"),
            Err(error) => break error,
        }
    };
    assert_eq!(events, ["5", "7", "30"]);
    assert!(error.is_expired(), "{error}");
    assert!(watch.next().await.is_none());
    assert_eq!(revisions(&server), ["3", "7", "7", "7", "7", "20", "20", "20", "30"]);
    assert!(server.seen().iter().all(|seen| seen.uri.contains("allowWatchBookmarks=true")));
}

#[tokio::test(start_paused = true)]
async fn permanent_error_ends_the_retry_watch() {
    let _clock = steady_clock();
    let nameless = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
    let foreign = r#"{"type":"ADDED","object":{"metadata":7}}"#;
    type Check = fn(&ApiError) -> bool;
    let is_unreadable: Check = |error| matches!(error.kind, ErrorKind::Decode(_));
    for (reply, expected) in [
        (Reply::json(410, "{}"), ApiError::is_expired as Check),
        (Reply::json(403, "{}"), ApiError::is_forbidden),
        (Reply::json(401, "{}"), ApiError::is_unauthorized),
        (Reply::json(400, "{}"), ApiError::is_bad_request),
        (Reply::json(405, "{}"), ApiError::is_method_not_allowed),
        (Reply::watch(&[failing(403)], End::Proper), ApiError::is_forbidden),
        (Reply::watch(&[nameless], End::Stall), is_unreadable),
        (Reply::watch(&[foreign], End::Stall), is_unreadable),
    ] {
        let server = Server::always(reply.clone()).await;
        let mut watch = watch(&server);
        let error = watch.next().await.unwrap().unwrap_err();
        assert!(expected(&error), "{reply:?}: {error}");
        assert!(watch.next().await.is_none());
        assert_eq!(server.seen().len(), 1, "{reply:?}");
        assert!(watch.until(|_| true).await.is_err(), "the watch has ended");
    }
    let server = Server::always(Reply::ok()).await;
    for revision in ["", "0"] {
        assert!(api(&server).retry_watch(&from(revision)).is_err(), "{revision:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_watch_paces_its_restarts() {
    let _clock = steady_clock();
    let waited = Reply::json(429, "{}").header("retry-after", "70");
    for (reply, most) in [(Reply::watch(&[], End::Proper), 11), (Reply::json(500, "{}"), 5), (waited, 1)] {
        let server = Server::always(reply.clone()).await;
        let mut watch = watch(&server);
        let events = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
        assert!(events.is_err(), "{reply:?}: there is no event");
        assert!((1..=most).contains(&server.seen().len()), "{reply:?}: {}", server.seen().len());
    }
}

#[tokio::test(start_paused = true)]
async fn retry_watch_pauses_briefly_after_a_lasting_watch() {
    let _clock = steady_clock();
    let lasting = (0..8).map(|_| Reply::watch(&[failing(504)], End::Late));
    let server = Server::start(lasting.chain([Reply::watch(&[frame("ADDED", "5")], End::Stall)])).await;
    let started = Instant::now();
    watch(&server).next().await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn cancelled_next_loses_no_event() {
    let frames = [frame("ADDED", "5"), frame("MODIFIED", "6"), frame("MODIFIED", "7"), frame("MODIFIED", "8")];
    let server = Server::always(Reply::watch(&frames, End::Stall)).await;
    let mut watch = watch(&server);
    let is_at = |event: &WatchEvent<Widget>, revision: &str| matches!(event, WatchEvent::Modified(it) if it.metadata.resource_version == revision);
    // Poll each future of `next` once and then drop it, until one of these futures returns an
    // event.
    let mut events = 0;
    while events < 2 {
        tokio::select! {
            biased;
            event = watch.next() => {
                event.unwrap().unwrap();
                events += 1;
            }
            () = tokio::task::yield_now() => {}
        }
    }
    soon(watch.until(|event| is_at(event, "7"))).await.unwrap();
    soon(watch.until(|event| is_at(event, "8"))).await.unwrap();
    assert_eq!(server.seen().len(), 1);
}

fn list(revision: &str, items: Value) -> Reply {
    Reply::json(
        200,
        json!({"kind": "WidgetList", "metadata": {"resourceVersion": revision}, "items": items}).to_string(),
    )
}

fn object(revision: &str, more: Value) -> Value {
    let mut object = json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": revision}});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

fn event(event: &str, object: Value) -> &'static str {
    json!({"type": event, "object": object}).to_string().leak()
}

fn dynamic(server: &Server) -> Api<DynamicObject> {
    Api::dynamic(server.client(), api(server).resource().clone(), None).unwrap()
}

#[tokio::test(start_paused = true)]
async fn wait_for_survives_expired_revisions() {
    let _clock = steady_clock();
    let phase = |revision: &str, phase: &str| object(revision, json!({"phase": phase}));
    let server = Server::start([
        list("3", json!([])),
        Reply::watch(&[event("ADDED", phase("4", "Pending"))], End::Proper),
        Reply::json(410, "{}"),
        list("9", json!([phase("8", "Pending")])),
        Reply::watch(&[event("MODIFIED", phase("10", "Running")), event("MODIFIED", phase("11", "Late"))], End::Stall),
    ])
    .await;
    let mut seen = Vec::new();
    let is_running = |it: Option<&DynamicObject>| {
        seen.push(it.map(|it| it.data["phase"].clone()));
        it.is_some_and(|it| it.data["phase"] == "Running")
    };
    let found = dynamic(&server).wait_for("ns/a", is_running).await.unwrap().unwrap();
    assert_eq!(found.metadata.resource_version, "10");
    assert_eq!(seen, [None, Some(json!("Pending")), Some(json!("Pending")), Some(json!("Running"))]);
    assert_eq!(revisions(&server), ["3", "4", "9"]);
    for seen in server.seen() {
        assert!(seen.uri.starts_with("/apis/example.com/v1/namespaces/ns/widgets?"), "{}", seen.uri);
        assert!(seen.uri.contains("fieldSelector=metadata.name%3Da"), "{}", seen.uri);
    }
    let server = Server::start([list("3", json!([phase("2", "Running")]))]).await;
    assert!(
        dynamic(&server).wait_for("ns/a", |it| it.is_some()).await.unwrap().is_some(),
        "the condition may already hold"
    );
    assert_eq!(server.seen().len(), 1);
    let server = Server::always(Reply::json(403, "{}")).await;
    assert!(dynamic(&server).wait_for("ns/a", |it| it.is_some()).await.unwrap_err().is_forbidden());
    assert!(dynamic(&server).wait_for("a", |it| it.is_some()).await.is_err(), "without a namespace");
}

#[tokio::test(start_paused = true)]
async fn wait_for_condition_works_without_status_field() {
    let _clock = steady_clock();
    let with = |revision: &str, generation: i64, conditions: Value| {
        let mut object = object(revision, json!({"status": {"conditions": conditions}}));
        object["metadata"]["generation"] = generation.into();
        object
    };
    let is = |status: &str, observed: i64| json!([{"type": "Failed", "status": "False"}, {"type": "Complete", "status": status, "observedGeneration": observed}]);
    let frames = [
        event("ADDED", object("4", json!({}))),
        event("MODIFIED", with("5", 1, Value::Null)),
        event("MODIFIED", with("6", 1, is("Odd", 1))),
        event("MODIFIED", with("7", 2, is("True", 1))),
        event("MODIFIED", with("8", 2, is("True", 2))),
    ];
    let server = Server::start([list("3", json!([])), Reply::watch(&frames, End::Stall)]).await;
    let (met, widget) = api(&server).wait_for_condition("a", &["Failed", "Complete"]).await.unwrap();
    assert_eq!((met, widget.metadata.resource_version.as_str()), ("Complete", "8"));
}

#[tokio::test(start_paused = true)]
async fn wait_for_deletion_notices_a_recreated_object() {
    let _clock = steady_clock();
    let server = Server::always(list("3", json!([]))).await;
    soon(api(&server).wait_for_deletion("a", None)).await.unwrap();
    let there = || list("3", json!([object("2", json!({}))]));
    let gone = Reply::watch(&[frame("MODIFIED", "4"), frame("DELETED", "5")], End::Stall);
    let server = Server::start([there(), gone]).await;
    api(&server).wait_for_deletion("a", Some("u")).await.unwrap();
    let server = Server::start([there(), Reply::watch(&[frame("DELETED", "5")], End::Stall)]).await;
    api(&server).wait_for_deletion("a", Some("")).await.unwrap();
    assert_eq!(server.seen().len(), 2, "an empty UID is no UID");
    // The object was deleted and created again while no watch was open.
    let server = Server::start([there(), Reply::json(410, "{}"), there()]).await;
    let other = api(&server).wait_for_deletion("a", Some("other")).await;
    assert!(other.is_ok() && server.seen().len() == 1, "the existing object has another UID");
}

/// Lists one running widget `b`. Rejects all watches with status 410, because their revision has
/// expired.
fn only_another(seen: &crate::support::Seen, _: usize) -> Reply {
    if seen.uri.contains("watch=true") {
        return Reply::json(410, "{}");
    }
    list("3", json!([{"metadata": {"name": "b", "namespace": "ns"}, "phase": "Running"}]))
}

#[tokio::test(start_paused = true)]
async fn immediately_expired_revisions_are_listed_with_pauses() {
    let _clock = steady_clock();
    let server = Server::always(Reply::By(only_another)).await;
    let api = dynamic(&server);
    let waited = tokio::time::timeout(Duration::from_secs(10), api.wait_for("ns/a", |it| it.is_some())).await;
    assert!(waited.is_err(), "{waited:?}");
    assert!((4..=10).contains(&server.seen().len()), "{}", server.seen().len());
}

#[tokio::test(start_paused = true)]
async fn wait_for_pauses_briefly_on_a_quiet_resource() {
    let _clock = steady_clock();
    let bookmark = frame("BOOKMARK", "4");
    for watch in [Reply::watch(&[bookmark, failing(410)], End::Proper), Reply::watch(&[failing(410)], End::Late)] {
        let quiet = (0..8).flat_map(|_| [list("3", json!([])), watch.clone()]);
        let server = Server::start(quiet.chain([list("9", json!([object("8", json!({}))]))])).await;
        let started = Instant::now();
        dynamic(&server).wait_for("ns/a", |it| it.is_some()).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(60), "{watch:?}: {:?}", started.elapsed());
    }
}

/// Some servers do not support field selectors and return all objects.
#[tokio::test]
async fn wait_for_ignores_objects_of_other_names() {
    let other = |event_type: &str| {
        event(event_type, json!({"metadata": {"name": "b", "namespace": "ns", "resourceVersion": "4"}}))
    };
    let frames = [other("ADDED"), other("DELETED"), event("ADDED", object("5", json!({})))];
    let more = json!([{"metadata": {"name": "b", "namespace": "ns"}}]);
    let server = Server::start([list("3", more.clone()), Reply::watch(&frames, End::Stall), list("3", more)]).await;
    let mut seen = Vec::new();
    let is_there = |it: Option<&DynamicObject>| {
        seen.push(it.map(|it| it.metadata.name.clone()));
        it.is_some()
    };
    soon(dynamic(&server).wait_for("ns/a", is_there)).await.unwrap();
    assert_eq!(seen, [None, Some("a".into())]);
    soon(dynamic(&server).wait_for_deletion("ns/a", None)).await.unwrap();
}
