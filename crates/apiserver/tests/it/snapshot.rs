//! Tests of taking, restoring and parsing server snapshots.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig, InvalidSnapshot, ServerSnapshot};
use pintle_json::json;

use crate::support::*;

const DEFINITION: &str = r#"{
    apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com},
    spec: {group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [
        {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}"#;
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

#[tokio::test]
async fn restore_brings_back_the_objects_of_the_snapshot() {
    let server = server().await;
    create_map(&server, "kept", json!({})).await;
    create_map(&server, "changed", json!({})).await;
    let original = get(&server, &format!("{CONFIG_MAPS}/changed")).await.body;
    let snapshot = server.snapshot();
    assert_eq!(snapshot.resource_version(), server.resource_version());
    let mut watch = Watch::start(&server, &format!("resourceVersion={}", snapshot.resource_version())).await;

    patch_map(&server, "changed", json!({"data": {"k": "other"}})).await;
    create_map(&server, "new", json!({})).await;
    let before = server.resource_version();
    assert_eq!(server.restore(&snapshot), 3, "two deletions and a creation");
    assert!(server.resource_version() > before, "resource versions do not decrease");
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/new")).await.code, 404);
    let back = get(&server, &format!("{CONFIG_MAPS}/changed")).await.body;
    assert_eq!((&back["data"], &back["metadata"]["uid"]), (&json!({"k": "v"}), &original["metadata"]["uid"]));
    assert!(version(&back) > before);
    assert_eq!(server.restore(&snapshot), 0, "only resource versions differ from the snapshot");

    for expected in ["MODIFIED changed", "ADDED new", "DELETED changed", "DELETED new", "ADDED changed"] {
        let event = watch.next_event().await;
        assert!(event.starts_with(expected), "{expected}: {event}");
    }
}

#[tokio::test]
async fn snapshot_text_restores_on_another_server() {
    let first = server().await;
    first.load(DEFINITION).expect("a definition");
    first.settle().await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    assert_eq!(call(&first, Method::POST, WIDGETS, widget).await.code, 201);
    let text = first.snapshot().to_text();
    let uid = get(&first, "/api/v1/namespaces/default").await.body["metadata"]["uid"].clone();
    first.shutdown().await;

    let snapshot = ServerSnapshot::parse(&text).expect("a snapshot");
    let first_revision = snapshot.resource_version() + 1;
    let config = ApiServerConfig { first_revision, ..ApiServerConfig::default() };
    let second = ApiServer::start(config).await.expect("a server");
    second.restore(&snapshot);
    second.settle().await;
    let widget = get(&second, &format!("{WIDGETS}/w")).await;
    assert_eq!((widget.code, &widget.body["spec"]), (200, &json!({"size": 3})));
    assert_eq!(get(&second, "/api/v1/namespaces/default").await.body["metadata"]["uid"], uid);
    // After the restore, the endpoints of the Service `kubernetes` contain the port of this server.
    let slice = get(&second, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await.body;
    let port: u64 = second.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    assert_eq!(slice["ports"][0]["port"], port);
}

#[tokio::test]
async fn restore_adds_and_removes_definitions() {
    let server = server().await;
    let without = server.snapshot();
    server.load(DEFINITION).expect("a definition");
    server.settle().await;
    assert_eq!(get(&server, WIDGETS).await.code, 200);
    let with = server.snapshot();
    for (snapshot, code) in [(&without, 404), (&with, 200)] {
        server.restore(snapshot);
        server.settle().await;
        assert_eq!(get(&server, WIDGETS).await.code, code);
    }
}

#[test]
fn invalid_snapshot_error_names_the_line() {
    let object = r#"{"resource":"configmaps","key":"default/a","apiVersion":"v1","object":{"metadata":{"name":"a"}}}"#;
    for (text, expected) in [
        (String::new(), Err(1)),
        ("{}".to_owned(), Err(1)),
        (r#"{"resourceVersion":7}"#.to_owned(), Ok(7)),
        (r#"{"resourceVersion":7,"tokenKey":"AAAA"}"#.to_owned(), Err(1)),
        (format!("{{\"resourceVersion\":7}}\n{object}\n\n"), Ok(7)),
        (format!("{{\"resourceVersion\":7}}\n{object}\n[]"), Err(3)),
        (format!("{{\"resourceVersion\":7}}\n{}", object.replace("metadata", "m")), Err(2)),
    ] {
        let read = ServerSnapshot::parse(&text).map(|snapshot| snapshot.resource_version());
        assert_eq!(read, expected.map_err(|line| InvalidSnapshot { line }), "{text:?}");
    }
}
