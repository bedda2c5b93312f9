//! Tests of watches over HTTP: events, bookmarks, selectors, faults, and the end of a watch.

use std::time::Duration;

use crate::support::*;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::faults::{Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};
use tower_service::Service;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { seed: Some(1), ..ApiServerConfig::default() }).await.expect("a server")
}

#[tokio::test]
async fn watch_from_list_version_gets_each_change_once() {
    let server = server().await;
    create_map(&server, "before", json!({})).await;
    let listed = version(&get(&server, CONFIG_MAPS).await.body);
    let mut watch = Watch::start(&server, &format!("resourceVersion={listed}")).await;
    let created = create_map(&server, "a", json!({})).await;
    let updated = patch_map(&server, "a", json!({"data": {"k": "w"}})).await;
    delete(&server, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(watch.next_event().await, format!("ADDED a {created}"));
    assert_eq!(watch.next_event().await, format!("MODIFIED a {updated}"));
    assert_eq!(watch.next_event().await, format!("DELETED a {}", updated + 1));
}

#[tokio::test]
async fn leaving_the_selection_is_a_deleted_event() {
    let server = server().await;
    let mut watch = Watch::start(&server, "labelSelector=app%3Dx").await;
    create_map(&server, "a", json!({"app": "y"})).await;
    let entered = patch_map(&server, "a", json!({"metadata": {"labels": {"app": "x"}}})).await;
    let left = patch_map(&server, "a", json!({"metadata": {"labels": {"app": "z"}}})).await;
    assert_eq!(watch.next_event().await, format!("ADDED a {entered}"));
    let Next::Event(event) = watch.next().await else { panic!("an event") };
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["app"], "x");
    assert_eq!(version(&event["object"]), left);
}

#[tokio::test]
async fn node_name_selector_delivers_only_pods_of_that_node() {
    let server = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let path = "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1,status.phase!%3DFailed";
    let mut watch = Watch::of(send(&server, Method::GET, path, &[], "").await);
    let pod = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    for (name, node) in [("a", ""), ("b", "n2"), ("c", "n1")] {
        assert_eq!(call(&server, Method::POST, pods, pod(name, node)).await.code, 201);
    }
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(call(&server, Method::POST, &format!("{pods}/a/binding"), binding).await.code, 201);
    let failed = json!({"status": {"phase": "Failed"}});
    assert_eq!(call(&server, Method::PATCH, &format!("{pods}/c/status"), failed).await.code, 200);
    for name in ["b", "c", "a"] {
        let labelled = json!({"metadata": {"labels": {"seen": "yes"}}});
        assert_eq!(call(&server, Method::PATCH, &format!("{pods}/{name}"), labelled).await.code, 200);
    }
    for expected in ["ADDED c", "ADDED a", "DELETED c", "MODIFIED a"] {
        let event = watch.next_event().await;
        assert!(event.starts_with(&format!("{expected} ")), "{expected}: {event}");
    }
}

#[tokio::test]
async fn pending_events_are_sent_in_batches_without_delay() {
    let server = server().await;
    let mut expected: Vec<_> = (100..400).map(|number| format!("m{number}")).collect();
    for name in &expected {
        create_map(&server, name, json!({})).await;
    }
    let mut watch = Watch::start(&server, "").await;
    let request = Request::get(format!("{CONFIG_MAPS}?watch=1")).body(Full::<Bytes>::default()).expect("a request");
    let mut pieces = server.in_process().call(request).await.expect("an answer").into_body();
    let (mut names, mut count) = (Vec::new(), 0);
    while names.len() < expected.len() {
        let piece = pieces.frame().await.expect("more").expect("it goes on").into_data().expect("data");
        assert!(piece.ends_with(b"\n") && piece.len() < 17 << 10, "{}", piece.len());
        let events = serde_json::Deserializer::from_slice(&piece).into_iter::<Json>();
        names.extend(events.map(|event| event.expect("an event")["object"].text("/metadata/name").to_owned()));
        count += 1;
    }
    names.retain(|name| name != "kube-root-ca.crt");
    assert!(count <= 10, "{count} pieces");
    create_map(&server, "z", json!({})).await;
    let last = pieces.frame().await.expect("more").expect("it goes on").into_data().expect("data");
    let last: Json = serde_json::from_slice(&last).expect("one event");
    names.push(last["object"].text("/metadata/name").to_owned());
    expected.push("z".into());
    assert_eq!(names, expected);
    for name in expected {
        assert!(watch.next_event().await.starts_with(&format!("ADDED {name} ")), "{name}");
    }
}

#[tokio::test]
async fn no_op_write_causes_no_event() {
    let server = server().await;
    let created = create_map(&server, "a", json!({})).await;
    let mut watch = Watch::start(&server, &format!("resourceVersion={created}")).await;
    assert_eq!(patch_map(&server, "a", json!({"data": {"k": "v"}})).await, created);
    let changed = patch_map(&server, "a", json!({"data": {"k": "w"}})).await;
    assert_eq!(watch.next_event().await, format!("MODIFIED a {changed}"));
}

#[tokio::test]
async fn streaming_list_ends_with_an_annotated_bookmark() {
    let server = server().await;
    let b = create_map(&server, "b", json!({})).await;
    let a = create_map(&server, "a", json!({})).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Watch::start(&server, query).await;
    assert_eq!(watch.next_event().await, format!("ADDED a {a}"));
    assert_eq!(watch.next_event().await, format!("ADDED b {b}"));
    let Next::Event(mark) = watch.next().await else { panic!("an event") };
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(version(&mark["object"]) >= a);
}

#[tokio::test]
async fn compacted_version_causes_an_expired_error_event() {
    let server = server().await;
    let created = create_map(&server, "a", json!({})).await;
    patch_map(&server, "a", json!({"data": {"k": "w"}})).await;
    server.compact();
    let mut watch = Watch::start(&server, &format!("resourceVersion={created}")).await;
    let Next::Event(event) = watch.next().await else { panic!("an event") };
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(watch.next().await, Next::End);
}

#[tokio::test]
async fn watch_ends_cleanly_at_its_timeout() {
    let server = server().await;
    let mut watch = Watch::start(&server, "timeoutSeconds=1").await;
    assert_eq!(watch.next().await, Next::End);
}

#[tokio::test]
async fn bookmarks_advance_with_writes_of_other_kinds() {
    let config = ApiServerConfig { bookmark_interval: Duration::from_millis(20), ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    let mut watch = Watch::start(&server, "resourceVersion=0&allowWatchBookmarks=true").await;
    let secret = json!({"metadata": {"name": "s"}});
    let secret = call(&server, Method::POST, "/api/v1/namespaces/default/secrets", secret).await;
    loop {
        let Next::Event(event) = watch.next().await else { panic!("an event") };
        assert_eq!(event["type"], "BOOKMARK");
        if version(&event["object"]) >= version(&secret.body) {
            break;
        }
    }
}

/// A bookmark must not be older than the start of the watch, because the client may resume the watch from the bookmark.
#[tokio::test]
async fn watch_from_a_future_version_gets_no_earlier_bookmark() {
    let config = ApiServerConfig { bookmark_interval: Duration::from_millis(20), ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    let query = "resourceVersion=4000000000&allowWatchBookmarks=true&timeoutSeconds=1";
    assert_eq!(Watch::start(&server, query).await.next().await, Next::End);
}

#[tokio::test]
async fn extreme_configurations_and_timeouts_serve_watches() {
    let least =
        ApiServerConfig { bookmark_interval: Duration::ZERO, watch_buffer: 0, history: 0, ..Default::default() };
    let most = ApiServerConfig {
        bookmark_interval: Duration::MAX,
        watch_buffer: usize::MAX,
        history: usize::MAX,
        first_revision: u64::MAX,
        ..Default::default()
    };
    for config in [least, most] {
        let server = ApiServer::start(config).await.expect("a server");
        for timeout in [1, i64::MAX] {
            let query = format!("allowWatchBookmarks=true&timeoutSeconds={timeout}");
            let mut watch = Watch::start(&server, &query).await;
            let created = create_map(&server, &format!("a{timeout}"), json!({})).await;
            loop {
                let Next::Event(event) = watch.next().await else { panic!("an event") };
                if event["type"] == "ADDED" && version(&event["object"]) == created {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn slow_watcher_is_cut_and_others_continue() {
    let server =
        ApiServer::start(ApiServerConfig { watch_buffer: 8, ..ApiServerConfig::default() }).await.expect("a server");
    let first = create_map(&server, "a", json!({})).await;
    let query = format!("resourceVersion={first}");
    let mut slow = Watch::start(&server, &query).await;
    let mut quick = Watch::start(&server, &query).await;
    let filler = "x".repeat(400_000);
    let mut last = first;
    for number in 0..40 {
        last = patch_map(&server, "a", json!({"data": {"k": format!("{number}{filler}")}})).await;
        assert_eq!(quick.next_event().await, format!("MODIFIED a {last}"));
    }
    let mut seen = first;
    loop {
        match slow.next().await {
            Next::Event(event) => {
                assert_eq!(version(&event["object"]), seen + 1, "the events have no gap");
                seen += 1;
            }
            end => {
                assert_eq!(end, Next::Broken);
                break;
            }
        }
    }
    assert!(first < seen && seen < last, "it was served until it was cut: {first} {seen} {last}");
}

/// Uses an in-process watch, because socket buffers could contain frames that the client has not read.
#[tokio::test]
async fn unread_initial_events_expire_with_the_history() {
    for (kept, is_cut) in [(4, true), (100, false)] {
        let config = ApiServerConfig { history: kept, watch_buffer: kept, ..ApiServerConfig::default() };
        let server = ApiServer::start(config).await.expect("a server");
        for name in ["a", "b", "c"] {
            // The objects are so large that the server sends each object separately.
            let data = json!({"k": "x".repeat(20 << 10)});
            let map = json!({"metadata": {"name": name, "labels": {"l": "x"}}, "data": data});
            assert_eq!(call(&server, Method::POST, CONFIG_MAPS, map).await.code, 201);
        }
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let request = Request::get(format!("{CONFIG_MAPS}?{query}&labelSelector=l")).body(Full::<Bytes>::default());
        let watch = server.in_process().call(request.expect("a request")).await;
        let mut watch = Watch::of(watch.expect("an answer"));
        let mut next = async || match watch.next().await {
            Next::Event(event) => [&event["type"], &event["object"]["metadata"]["name"]]
                .map(|text| text.as_str().unwrap_or("-"))
                .join(" "),
            Next::Broken => "CUT".into(),
            Next::End => "END".into(),
        };
        assert_eq!(next().await, "ADDED a");
        for number in 0..5 {
            patch_map(&server, "b", json!({"data": {"n": number.to_string()}})).await;
        }
        delete(&server, &format!("{CONFIG_MAPS}/c")).await;
        let rest: &[_] = if is_cut { &["CUT"] } else { &["ADDED b", "ADDED c", "BOOKMARK -", "MODIFIED b"] };
        for expected in rest {
            assert_eq!(next().await, *expected);
        }
    }
}

#[tokio::test]
async fn watch_faults_apply_once_by_default() {
    let server = server().await;
    let version = create_map(&server, "a", json!({})).await;
    let query = format!("resourceVersion={version}");
    for fault in [Fault::Expire, Fault::CutAfter(1), Fault::CutMidFrame(0)] {
        server.faults().add(Rule { resource: Some("configmaps".into()), ..Rule::new(fault) });
    }

    let Next::Event(expired) = Watch::start(&server, &query).await.next().await else { panic!("an event") };
    assert_eq!(expired["object"]["reason"], "Expired");

    let mut cut = Watch::start(&server, "").await;
    assert!(matches!(cut.next().await, Next::Event(_)));
    create_map(&server, "b", json!({})).await;
    assert_eq!(cut.next().await, Next::Broken);

    assert_eq!(Watch::start(&server, "").await.next().await, Next::Broken);

    assert!(matches!(Watch::start(&server, "").await.next().await, Next::Event(_)), "the rules are used up");
    assert_eq!(server.faults().hits(), 3);
}

#[tokio::test]
async fn silent_fault_keeps_the_watch_open_without_events() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    server.faults().add(Rule { resource: Some("configmaps".into()), ..Rule::new(Fault::SilentAfter(1)) });
    let mut silent = Watch::start(&server, "").await;
    let mut other = Watch::start(&server, "").await;
    for watch in [&mut silent, &mut other] {
        assert!(matches!(watch.next().await, Next::Event(_)));
    }
    for name in ["b", "c"] {
        create_map(&server, name, json!({})).await;
        assert!(matches!(other.next().await, Next::Event(_)), "the other watch gets the event");
    }
    let more = tokio::time::timeout(Duration::from_millis(20), silent.next()).await;
    assert!(more.is_err(), "{more:?}");
    drop(silent);
    server.shutdown().await;
}

#[tokio::test]
async fn watch_faults_respect_their_user_agent() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    server.faults().add(Rule { user_agent: Some("mine/".into()), ..Rule::new(Fault::Expire) });
    for (agent, expected) in [("other/1.0", "ADDED"), ("mine/1.0", "ERROR")] {
        let Next::Event(event) = Watch::start_as(&server, agent, "").await.next().await else { panic!("an event") };
        assert_eq!(event["type"], expected, "{agent}");
    }
}
