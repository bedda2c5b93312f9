//! Tests of garbage collection. In some tests, the server rejects all writes to a dependent.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn schema(required: bool) -> Json {
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if required {
        schema["required"] = json!(["must"]);
    }
    json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}])
}

async fn server_of_widgets() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": schema(false)});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": spec});
    assert_eq!(call(&server, Method::POST, DEFINITIONS, definition).await.code, 201);
    server.settle().await;
    server
}

#[tokio::test(start_paused = true)]
async fn unwritable_dependents_do_not_block_others_and_are_retried() {
    let server = server_of_widgets().await;
    let owner = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await.body;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let dependent = |name: &str| json!({"metadata": {"name": name, "ownerReferences": [reference]}});
    let widget = |name: &str| {
        let mut widget = dependent(name);
        (widget["apiVersion"], widget["kind"]) = ("example.com/v1".into(), "Widget".into());
        widget
    };
    for name in ["a", "z"] {
        assert_eq!(call(&server, Method::POST, WIDGETS, widget(name)).await.code, 201);
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, dependent(name)).await.code, 201);
    }
    // The new schema requires a field that the existing widgets lack, so all writes to widgets fail.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(call(&server, Method::PATCH, &path, json!({"spec": {"versions": schema(true)}})).await.code, 200);
    server.settle().await;
    let owner = format!("{CONFIG_MAPS}/owner");
    assert_eq!(delete(&server, &format!("{owner}?propagationPolicy=Orphan")).await.code, 200);
    server.settle().await;
    let owners = async |path: String| get(&server, &path).await.body["metadata"]["ownerReferences"].clone();
    for name in ["a", "z"] {
        assert!(owners(format!("{CONFIG_MAPS}/{name}")).await.is_null(), "{name} is free");
        assert!(owners(format!("{WIDGETS}/{name}")).await.is_array(), "{name} cannot be written");
    }
    assert_eq!(get(&server, &owner).await.code, 200, "it waits for dependents that cannot be orphaned yet");
    assert_eq!(call(&server, Method::PATCH, &path, json!({"spec": {"versions": schema(false)}})).await.code, 200);
    let free = async || get(&server, &owner).await.code == 404;
    assert!(pintle_apiserver::eventually(std::time::Duration::from_secs(300), free).await, "the orphaning is retried");
    for name in ["a", "z"] {
        assert!(owners(format!("{WIDGETS}/{name}")).await.is_null(), "{name} is free");
    }
}

#[tokio::test]
async fn dependents_are_deleted_although_the_definition_is_gone() {
    let server = server_of_widgets().await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "owner"}});
    let owner = call(&server, Method::POST, WIDGETS, widget).await.body;
    let uid = &owner["metadata"]["uid"];
    let reference = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": uid});
    for number in 0..50 {
        let map = json!({"metadata": {"name": format!("m{number}"), "ownerReferences": [reference]}});
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, map).await.code, 201);
    }
    assert_eq!(delete(&server, &format!("{DEFINITIONS}/widgets.example.com")).await.code, 200);
    server.settle().await;
    let left = get(&server, CONFIG_MAPS).await.body;
    let left = left["items"].as_array().into_iter().flatten().map(|map| map["metadata"]["name"].to_string());
    let left: Vec<String> = left.collect();
    assert!(!left.iter().any(|name| name.contains('m')), "{left:?}");
}

fn dependent(name: &str, owner: &Json, blocks: bool) -> Json {
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": blocks});
    reference.set("name", owner["metadata"]["name"].clone());
    reference.set("uid", owner["metadata"]["uid"].clone());
    json!({"metadata": {"name": name, "finalizers": ["x.io/f"], "ownerReferences": [reference]}})
}

#[tokio::test]
async fn foreground_deletion_deletes_non_blocking_dependents_too() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let owner = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await.body;
    for (name, blocks) in [("blocks", true), ("does-not", false)] {
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, dependent(name, &owner, blocks)).await.code, 201);
    }
    server.settle().await;
    delete(&server, &format!("{CONFIG_MAPS}/owner?propagationPolicy=Foreground")).await;
    server.settle().await;
    for name in ["owner", "blocks", "does-not"] {
        let found = get(&server, &format!("{CONFIG_MAPS}/{name}")).await.body;
        assert!(found.has("/metadata/deletionTimestamp"), "{name}: {found}");
    }
}

#[tokio::test]
async fn owner_in_another_namespace_causes_a_warning_event() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let made = call(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    assert_eq!(made.code, 201);
    let others = "/api/v1/namespaces/other/configmaps";
    let owner = call(&server, Method::POST, others, json!({"metadata": {"name": "owner"}})).await.body;
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, dependent("a", &owner, false)).await.code, 201);
    let mut absent = owner.clone();
    absent["metadata"].set("uid", "absent");
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, dependent("b", &absent, false)).await.code, 201);
    server.settle().await;
    let events = get(&server, "/api/v1/events?fieldSelector=reason=OwnerRefInvalidNamespace").await.body;
    let found: Vec<_> = events.list("/items").collect();
    assert_eq!(found.len(), 1, "{events}");
    let uid = owner.text("/metadata/uid");
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] does not exist in namespace \"default\""
    );
    let about = |field: &str| found[0].text(&format!("/involvedObject/{field}"));
    assert_eq!((about("kind"), about("namespace"), about("name")), ("ConfigMap", "default", "a"));
    assert_eq!((found[0].text("/type"), found[0].text("/message")), ("Warning", &*message));
    assert_eq!(found[0].text("/source/component"), "garbage-collector-controller");
}

fn owned(name: &str, api_version: &str, kind: &str, owner: &Json) -> Json {
    let mut reference = json!({"apiVersion": api_version, "kind": kind});
    reference.set("name", owner["metadata"]["name"].clone());
    reference.set("uid", owner["metadata"]["uid"].clone());
    json!({"metadata": {"name": name, "ownerReferences": [reference]}})
}

async fn create_widget(server: &ApiServer, mut widget: Json) -> Json {
    (widget["apiVersion"], widget["kind"]) = ("example.com/v1".into(), "Widget".into());
    let answer = call(server, Method::POST, WIDGETS, widget).await;
    assert_eq!(answer.code, 201, "{:?}", answer.body);
    answer.body
}

async fn serve_widgets(server: &ApiServer, served: bool) {
    let mut versions = schema(false);
    versions[0].set("served", served);
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let answer = call(server, Method::PATCH, &path, json!({"spec": {"versions": versions}})).await;
    assert_eq!(answer.code, 200, "{:?}", answer.body);
    server.settle().await;
}

#[tokio::test]
async fn owner_reference_with_wrong_group_keeps_the_dependent() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let owner = call(&server, Method::POST, leases, json!({"metadata": {"name": "owner"}})).await.body;
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, owned("a", "v1", "Lease", &owner)).await.code, 201);
    server.settle().await;
    assert_eq!(delete(&server, &format!("{leases}/owner")).await.code, 200);
    server.settle().await;
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/a")).await.code, 200);
}

#[tokio::test]
async fn cluster_scoped_dependent_of_a_namespaced_owner_is_kept() {
    let server = server_of_widgets().await;
    let owner = create_widget(&server, json!({"metadata": {"name": "owner"}})).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = owned("a", "example.com/v1", "Widget", &owner);
    assert_eq!(call(&server, Method::POST, roles, role).await.code, 201);
    server.settle().await;
    assert_eq!(delete(&server, &format!("{DEFINITIONS}/widgets.example.com")).await.code, 200);
    server.settle().await;
    let role = format!("{roles}/a");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(call(&server, Method::PATCH, &role, labels).await.code, 200);
    server.settle().await;
    assert_eq!(get(&server, &role).await.code, 200);
}

/// A restore removes and recreates the owner with the same UID.
#[tokio::test]
async fn restored_owner_keeps_its_dependents() {
    let server = server_of_widgets().await;
    let owner = create_widget(&server, json!({"metadata": {"name": "owner"}})).await;
    let dependents = [("a", "example.com/v1alpha1"), ("b", "example.com/v1")];
    for (name, api_version) in dependents {
        let map = owned(name, api_version, "Widget", &owner);
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, map).await.code, 201);
    }
    let snapshot = server.snapshot();
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(call(&server, Method::PATCH, &format!("{WIDGETS}/owner"), labels.clone()).await.code, 200);
    assert!(server.restore(&snapshot) > 0);
    server.settle().await;
    serve_widgets(&server, false).await;
    for (name, _) in dependents {
        patch_map(&server, name, labels.clone()).await;
    }
    server.settle().await;
    for (name, _) in dependents {
        assert_eq!(get(&server, &format!("{CONFIG_MAPS}/{name}")).await.code, 200, "{name}");
    }
}

#[tokio::test]
async fn dependent_is_deleted_when_the_owner_kind_is_served() {
    let server = server_of_widgets().await;
    serve_widgets(&server, false).await;
    let absent = json!({"metadata": {"name": "absent", "uid": "absent"}});
    let map = owned("a", "example.com/v1", "Widget", &absent);
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, map).await.code, 201);
    server.settle().await;
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/a")).await.code, 200);
    serve_widgets(&server, true).await;
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/a")).await.code, 404);
}

#[tokio::test]
async fn dependent_is_deleted_when_its_own_kind_is_served() {
    let server = server_of_widgets().await;
    let owner = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await.body;
    create_widget(&server, owned("a", "v1", "ConfigMap", &owner)).await;
    serve_widgets(&server, false).await;
    assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/owner")).await.code, 200);
    server.settle().await;
    serve_widgets(&server, true).await;
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await.code, 404);
}

#[tokio::test]
async fn orphaning_waits_until_the_dependents_kind_is_served() {
    let server = server_of_widgets().await;
    let owner = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await.body;
    create_widget(&server, owned("a", "v1", "ConfigMap", &owner)).await;
    let served_map = owned("b", "v1", "ConfigMap", &owner);
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, served_map).await.code, 201);
    serve_widgets(&server, false).await;
    let owner = format!("{CONFIG_MAPS}/owner");
    assert_eq!(delete(&server, &format!("{owner}?propagationPolicy=Orphan")).await.code, 200);
    server.settle().await;
    let before = get(&server, &owner).await.code;
    serve_widgets(&server, true).await;
    for path in [format!("{WIDGETS}/a"), format!("{CONFIG_MAPS}/b")] {
        let dependent = get(&server, &path).await;
        assert_eq!(dependent.code, 200, "{path}");
        assert!(!dependent.body.has("/metadata/ownerReferences"), "{path}: {}", dependent.body);
    }
    assert_eq!((before, get(&server, &owner).await.code), (200, 404), "the owner waits only for the widget");
}
