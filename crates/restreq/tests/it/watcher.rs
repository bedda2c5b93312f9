//! Tests of the watcher, which returns the objects of a list and later changes as one stream.

use std::time::Duration;

use futures_util::StreamExt;
use pintle_meta::{ListOptions, Object, PartialObject};
use pintle_restreq::{Api, Watcher, WatcherEvent};
use tokio::time::Instant;

use crate::support::{End, Reply, Server, soon, steady_clock};

fn watcher(server: &Server, options: &ListOptions) -> Watcher<PartialObject> {
    let pods = pintle_meta::ApiResource::new("v1", "Pod", "pods", pintle_meta::Scope::Namespaced);
    let pods: Api<PartialObject> = Api::dynamic(server.client(), pods, Some("ns")).unwrap();
    pods.watcher(options)
}

fn page(names: &[&str], next: &str, revision: u32) -> Reply {
    let items: Vec<_> = names.iter().map(|name| object(name, revision)).collect();
    let metadata = format!(r#"{{"resourceVersion":"{revision}","continue":"{next}"}}"#);
    Reply::json(200, format!(r#"{{"metadata":{metadata},"items":[{}]}}"#, items.join(",")))
}

fn object(name: &str, revision: u32) -> String {
    format!(r#"{{"metadata":{{"namespace":"ns","name":"{name}","resourceVersion":"{revision}"}}}}"#)
}

const CHANGES: [&str; 4] = [
    r#"{"type":"ADDED","object":{"metadata":{"name":"d","resourceVersion":"11"}}}"#,
    r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"12"}}}"#,
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"13"}}}"#,
    r#"{"type":"DELETED","object":{"metadata":{"name":"b","resourceVersion":"14"}}}"#,
];
const EXPIRED: &str =
    r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"old"}}"#;

fn text(event: WatcherEvent<PartialObject>) -> String {
    match event {
        WatcherEvent::Init => "init".into(),
        WatcherEvent::InitApply(object) => format!("has {}", object.name()),
        WatcherEvent::InitDone => "done".into(),
        WatcherEvent::Apply(object) => format!("apply {}", object.name()),
        WatcherEvent::Delete(object) => format!("delete {}", object.name()),
    }
}

#[tokio::test(start_paused = true)]
async fn watcher_lists_pages_then_follows_and_lists_again() {
    let server = Server::start([
        page(&["a", "b"], "more", 10),
        page(&["c"], "", 10),
        Reply::watch(&CHANGES, End::Proper),
        Reply::watch(&[EXPIRED], End::Proper),
        page(&[], "", 20),
        Reply::watch(&[], End::Stall),
    ])
    .await;
    let _clock = steady_clock();
    let options = ListOptions { label_selector: "app=web".parse().unwrap(), limit: 2, ..ListOptions::default() };
    let events = watcher(&server, &options).take(10).map(|event| text(event.unwrap()));
    let events: Vec<String> = tokio::time::timeout(Duration::from_secs(600), events.collect()).await.unwrap();
    let expected = ["init", "has a", "has b", "has c", "done", "apply d", "apply a", "delete b", "init", "done"];
    assert_eq!(events, expected);
    let seen: Vec<String> = server.seen().into_iter().map(|seen| seen.uri).collect();
    let base = "/api/v1/namespaces/ns/pods?";
    assert_eq!(seen[0].replace("%3D", "="), format!("{base}labelSelector=app=web&limit=2"));
    assert!(seen[1].contains("continue=more"), "{}", seen[1]);
    assert!(seen[2].contains("resourceVersion=10") && seen[2].contains("watch=true"), "{}", seen[2]);
    assert!(seen[3].contains("resourceVersion=14") && seen[3].contains("labelSelector"), "{}", seen[3]);
}

/// The revision of a list may expire before the client has read all pages. The watcher must then request the entire
/// list at once, because another paged list would expire again.
#[tokio::test(start_paused = true)]
async fn expired_continue_token_causes_one_whole_list() {
    let expired = r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"old token"}"#;
    let server = Server::start([
        page(&["a"], "more", 10),
        Reply::json(410, expired),
        page(&["a", "b"], "", 20),
        Reply::watch(&[EXPIRED], End::Proper),
        page(&["a"], "more", 30),
        page(&["b"], "", 30),
        Reply::watch(&[], End::Stall),
    ])
    .await;
    let _clock = steady_clock();
    let options = ListOptions { limit: 1, ..ListOptions::default() };
    let events = watcher(&server, &options).take(10).map(|event| text(event.unwrap()));
    let events: Vec<String> = tokio::time::timeout(Duration::from_secs(600), events.collect()).await.unwrap();
    assert_eq!(events, ["init", "has a", "init", "has a", "has b", "done", "init", "has a", "has b", "done"]);
    let seen: Vec<String> = server.seen().into_iter().map(|seen| seen.uri).collect();
    assert!(!seen[2].contains("limit") && !seen[2].contains("continue"), "{}", seen[2]);
    assert!(seen[4].contains("limit=1"), "the next list has pages again: {}", seen[4]);
}

#[tokio::test(start_paused = true)]
async fn watcher_continues_after_an_error_with_growing_pauses() {
    let refused = || Reply::json(403, r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}"#);
    let server = Server::start([refused(), refused(), page(&["a"], "", 1), Reply::watch(&[], End::Stall)]).await;
    let _clock = steady_clock();
    let started = Instant::now();
    let mut watcher = watcher(&server, &ListOptions::default());
    let mut events = Vec::new();
    while events.last().is_none_or(|event| event != "done") {
        events.push(match watcher.next().await.unwrap() {
            Ok(event) => text(event),
            Err(error) => {
                assert!(error.is_forbidden(), "{error}");
                "error".into()
            }
        });
    }
    assert_eq!(events, ["init", "error", "init", "error", "init", "has a", "done"]);
    assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
}

/// On a quiet resource, a watch delivers no events until its revision expires.
#[tokio::test(start_paused = true)]
async fn pauses_stay_short_on_a_quiet_resource() {
    let _clock = steady_clock();
    for watch in [Reply::watch(&[CHANGES[2], EXPIRED], End::Proper), Reply::watch(&[EXPIRED], End::Late)] {
        let server = Server::start((0..8).flat_map(|_| [page(&[], "", 10), watch.clone()])).await;
        let started = Instant::now();
        let events = watcher(&server, &ListOptions::default()).map(|event| text(event.unwrap()));
        let lists = events.filter(|event| std::future::ready(event == "init")).take(8);
        assert_eq!(lists.count().await, 8);
        assert!(started.elapsed() < Duration::from_secs(60), "{watch:?}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn adapters_select_objects() {
    for (select, expected) in [
        (Watcher::applied as fn(_) -> _, vec!["a", "b", "d", "a"]),
        (Watcher::touched, vec!["a", "b", "d", "a", "b"]),
        (Watcher::deleted, vec!["b"]),
    ] {
        let server = Server::start([page(&["a", "b"], "", 10), Reply::watch(&CHANGES, End::Stall)]).await;
        let mut objects = select(watcher(&server, &ListOptions::default()));
        let mut names = Vec::new();
        for _ in &expected {
            names.push(soon(objects.next()).await.unwrap().unwrap().name().to_owned());
        }
        assert_eq!(names, expected);
    }
}
