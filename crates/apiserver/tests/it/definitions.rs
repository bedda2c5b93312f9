//! Tests of CustomResourceDefinitions: name conflicts with built-in kinds, size limits, and the deletion of custom
//! resources.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};
use tower_service::Service;

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

fn definition(group: &str, plural: &str, kind: &str, versions: &[&str]) -> Json {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &&str| json!({"name": name, "served": true, "storage": *name == versions[0], "schema": schema});
    let versions: Vec<_> = versions.iter().map(version).collect();
    json!({
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": versions,
        },
    })
}

async fn settle(server: &ApiServer) {
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
}

async fn names(server: &ApiServer, path: &str) -> Vec<String> {
    let list = get(server, path).await.body;
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn definitions_do_not_affect_built_in_kinds() {
    let server = server().await;
    let policy = json!({"metadata": {"name": "d"}, "spec": {"podSelector": {}}});
    let built_in = call(&server, Method::POST, POLICIES, policy).await;
    assert_eq!(built_in.code, 201, "{:?}", built_in.body);
    let before = get(&server, "/apis/networking.k8s.io/v1").await.body;
    let path = format!("{POLICIES}?watch=1&resourceVersion={}", version(&built_in.body));
    let mut watch = Watch::of(send(&server, Method::GET, &path, &[], "").await);

    // The first definition has the name of a built-in kind, and defines the built-in version and another version. The
    // second definition adds another kind to the built-in version.
    for (plural, kind, versions) in
        [("networkpolicies", "NetworkPolicy", ["v1", "v9"]), ("gadgets", "Gadget", ["v9", "v1"])]
    {
        let made =
            call(&server, Method::POST, DEFINITIONS, definition("networking.k8s.io", plural, kind, &versions)).await;
        assert_eq!(made.code, 201, "{:?}", made.body);
    }
    settle(&server).await;
    assert_eq!(get(&server, "/apis/networking.k8s.io/v1").await.body, before);
    assert_eq!(names(&server, POLICIES).await, ["d"]);
    assert_eq!(get(&server, "/apis/networking.k8s.io/v1/namespaces/default/gadgets").await.code, 404);
    let custom = POLICIES.replace("/v1/", "/v9/");
    assert_eq!(names(&server, &custom).await, [""; 0]);
    let object = json!({"apiVersion": "networking.k8s.io/v9", "kind": "NetworkPolicy", "metadata": {"name": "e"}});
    let made = call(&server, Method::POST, &custom, object).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    assert_eq!(names(&server, POLICIES).await, ["d"]);
    assert_eq!(names(&server, &custom).await, ["e"]);

    // Deleting the first definition keeps the built-in objects.
    assert_eq!(delete(&server, &format!("{DEFINITIONS}/networkpolicies.networking.k8s.io")).await.code, 200);
    settle(&server).await;
    assert_eq!(get(&server, &format!("{DEFINITIONS}/networkpolicies.networking.k8s.io")).await.code, 404);
    assert_eq!(get(&server, &custom).await.code, 404);
    assert_eq!(names(&server, POLICIES).await, ["d"]);
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = call(&server, Method::PATCH, &format!("{POLICIES}/d"), labelled).await;
    assert_eq!(watch.next_event().await, format!("MODIFIED d {}", version(&patched.body)), "the watch goes on");
}

#[tokio::test]
async fn objects_too_large_for_etcd_are_rejected() {
    let server = server().await;
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let object = |size: usize| json!({"metadata": {"name": "a"}, "revision": 1, "data": {"a": "x".repeat(size)}});
    for (size, message) in [
        (1_700_000, "etcdserver: request is too large"),
        (2_200_000, "rpc error: code = ResourceExhausted desc = trying to send message larger than max ("),
    ] {
        let refused = call(&server, Method::POST, revisions, object(size)).await;
        assert_eq!((refused.code, &refused.body["reason"]), (500, &Json::Null), "{size}");
        assert!(
            refused.body["message"].as_str().is_some_and(|text| text.starts_with(message)),
            "{:?}",
            refused.body["message"]
        );
        assert_eq!(names(&server, revisions).await, [""; 0]);
    }
    assert_eq!(call(&server, Method::POST, revisions, object(1_500_000)).await.code, 201);
    let patched = call(
        &server,
        Method::PATCH,
        &format!("{revisions}/a"),
        json!({"metadata": {"annotations": {"a": "x".repeat(100_000)}}}),
    )
    .await;
    assert_eq!(patched.code, 500, "{:?}", patched.body["message"]);
    // The size limit applies to a custom resource's JSON, because a real server stores this JSON in etcd.
    let made = call(&server, Method::POST, DEFINITIONS, definition("example.com", "gadgets", "Gadget", &["v9"])).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    settle(&server).await;
    let gadgets = "/apis/example.com/v9/namespaces/default/gadgets";
    let gadget = |size: usize| json!({"apiVersion": "example.com/v9", "kind": "Gadget", "metadata": {"name": "a"}, "spec": "x".repeat(size)});
    assert_eq!(call(&server, Method::POST, gadgets, gadget(1_600_000)).await.code, 500);
    assert_eq!(call(&server, Method::POST, gadgets, gadget(1_500_000)).await.code, 201);
}

#[tokio::test]
async fn custom_kinds_do_not_inherit_built_in_rules() {
    let server = server().await;
    let mut nodes = definition("example.com", "nodes", "Node", &["v1"]);
    nodes["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    for definition in [nodes, definition("example.com", "jobs", "Job", &["v1"])] {
        assert_eq!(call(&server, Method::POST, DEFINITIONS, definition).await.code, 201);
    }
    settle(&server).await;
    let path = |plural: &str| format!("/apis/example.com/v1/namespaces/default/{plural}");
    let node = json!({"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"a": 1}});
    let made = call(&server, Method::POST, &path("nodes"), node).await;
    assert_eq!((made.code, &made.body["status"]), (201, &Json::Null));
    let refused = get(&server, &format!("{}?fieldSelector=spec.a%3Db", path("jobs"))).await;
    assert_eq!(refused.body["message"], "field label not supported: spec.a");
}

#[tokio::test]
async fn deleting_an_unserved_definition_deletes_its_objects() {
    let server = server().await;
    let gadgets = definition("example.com", "gadgets", "Gadget", &["v1", "v2"]);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let list = "/apis/example.com/v1/namespaces/default/gadgets";
    assert_eq!(call(&server, Method::POST, DEFINITIONS, gadgets.clone()).await.code, 201);
    settle(&server).await;
    for name in ["a", "b"] {
        let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}});
        assert_eq!(call(&server, Method::POST, list, gadget).await.code, 201);
    }
    let mut unserved = gadgets["spec"]["versions"].clone();
    for at in 0..2 {
        unserved[at]["served"] = false.into();
    }
    assert_eq!(call(&server, Method::PATCH, &path, json!({"spec": {"versions": unserved}})).await.code, 200);
    settle(&server).await;
    assert_eq!(get(&server, list).await.code, 404);
    assert_eq!(delete(&server, &path).await.code, 200);
    settle(&server).await;
    assert_eq!(get(&server, &path).await.code, 404);
    assert_eq!(call(&server, Method::POST, DEFINITIONS, gadgets).await.code, 201);
    settle(&server).await;
    assert_eq!(names(&server, list).await, [""; 0]);
    assert_eq!(get(&server, list).await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn established_definition_is_served_at_once() {
    let server = server().await;
    for number in 0..100 {
        let plural = format!("things{number}");
        let made = definition("example.com", &plural, &format!("Thing{number}"), &["v1"]);
        assert_eq!(call(&server, Method::POST, DEFINITIONS, made).await.code, 201);
        let path = format!("{DEFINITIONS}/{plural}.example.com");
        let is_established = |object: &Json| {
            object
                .list("/status/conditions")
                .any(|condition| condition.text("/type") == "Established" && condition.text("/status") == "True")
        };
        while !is_established(&get(&server, &path).await.body) {}
        let served = get(&server, &format!("/apis/example.com/v1/namespaces/default/{plural}")).await;
        assert_eq!(served.code, 200, "{plural}: {:?}", served.body);
    }
}

/// The client does not read its watches until the definition is deleted.
#[tokio::test]
async fn watch_delivers_all_deletions_of_a_deleted_definition() {
    let server = server().await;
    let path = "/apis/example.com/v1/namespaces/default/gadgets";
    let created =
        call(&server, Method::POST, DEFINITIONS, definition("example.com", "gadgets", "Gadget", &["v1"])).await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    settle(&server).await;
    for number in 0..3 {
        let gadget =
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": format!("g{number}")}});
        assert_eq!(call(&server, Method::POST, path, gadget).await.code, 201);
    }
    let listed = version(&get(&server, path).await.body);
    let mut watches = Vec::new();
    for query in [format!("&resourceVersion={listed}"), String::new()] {
        let request = Request::get(format!("{path}?watch=1{query}")).body(Full::<Bytes>::default()).expect("a request");
        watches.push(server.in_process().call(request).await.expect("an answer").into_body());
    }
    assert_eq!(delete(&server, &format!("{DEFINITIONS}/gadgets.example.com")).await.code, 200);
    settle(&server).await;
    assert_eq!(get(&server, path).await.code, 404);
    for (watch, count) in watches.into_iter().zip([0, 3]) {
        let body = watch.collect().await.expect("a clean end").to_bytes();
        let events = serde_json::Deserializer::from_slice(&body).into_iter::<Json>();
        let types: Vec<_> = events.map(|event| event.expect("an event").text("/type").to_owned()).collect();
        assert_eq!(types, [vec!["ADDED"; count], vec!["DELETED"; 3]].concat());
    }
}
