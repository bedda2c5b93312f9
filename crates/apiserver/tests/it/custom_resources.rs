//! Tests of custom resources with embedded objects, list types and a scale.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::definition_of;
use crate::support::*;

const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

async fn server() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let mut inner =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"n": {"type": "integer"}}});
    let defaulted = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "k", "odd": 1}});
    let mut outer = inner.clone();
    outer["properties"]["metadata"] =
        json!({"type": "object", "properties": {"odder": {"type": "integer", "default": 1}}});
    inner["properties"]["inner"] = outer.clone();
    outer.set("default", defaulted);
    let count = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let ports = json!({"type": "array", "items": {"type": "object", "properties": {"p": {"type": "integer"}}}});
    let members = json!({"spec": count, "status": count, "one": inner, "made": outer, "ports": ports});
    let definition = definition_of(
        "Gadget",
        json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": members}},
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
        }),
    );
    let made = call(&server, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    server.settle().await;
    server
}

fn gadget(more: Json) -> Json {
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    more.members("").for_each(|(key, value)| object.set(key, value.clone()));
    object
}

fn message(answer: &Answer) -> &str {
    answer.body["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn embedded_objects_are_validated() {
    let server = server().await;
    let inner = json!({"apiVersion": "a/b/c", "kind": "%", "metadata": {"name": "..", "namespace": "A", "finalizers": ["x y"]}});
    let one = json!({"apiVersion": "v1", "kind": "K", "metadata": {"labels": {"a": "x y"}}, "inner": inner});
    let refused = call(&server, Method::POST, GADGETS, gadget(json!({"one": one}))).await;
    assert_eq!(refused.code, 422, "{:?}", refused.body);
    for error in [
        "one.metadata.labels: Invalid value: \"x y\": a valid label",
        "one.inner.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        "one.inner.kind: Invalid value: \"%\": may have mixed case, but should otherwise match: a DNS-1035 label",
        "one.inner.metadata.name: Invalid value: \"..\": may not be '..'",
        "one.inner.metadata.namespace: Invalid value: \"A\": a lowercase RFC 1123 label",
        "one.inner.metadata.finalizers: Invalid value: \"x y\": name part must consist",
    ] {
        assert!(message(&refused).contains(error), "{error}: {}", message(&refused));
    }
}

#[tokio::test]
async fn defaults_do_not_add_unknown_metadata_fields() {
    let server = server().await;
    let made = call(&server, Method::POST, GADGETS, gadget(json!({}))).await;
    assert_eq!(made.body["made"], json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "k"}}));
}

/// The server first reports unknown fields in the object's metadata, then in other parts of the object, and finally in
/// embedded metadata.
#[tokio::test]
async fn unknown_fields_are_reported_in_order() {
    let server = server().await;
    let one = json!({"apiVersion": "v1", "kind": "K", "metadata": {"odd": 1}});
    let mut object = gadget(json!({"one": one, "abc": 1, "spec": {"z": 1}, "ports": [{"q": 1}]}));
    object["metadata"]["odd"] = 1.into();
    let refused = call(&server, Method::POST, &format!("{GADGETS}?fieldValidation=Strict"), object).await;
    let fields = ["metadata.odd", "abc", "ports[0].q", "spec.z", "one.metadata.odd"];
    let unknown = fields.map(|field| format!("unknown field \"{field}\"")).join(", ");
    assert!(message(&refused).ends_with(&format!("strict decoding error: {unknown}")), "{}", message(&refused));
}

#[tokio::test]
async fn replicas_above_int32_are_rejected() {
    let server = server().await;
    let most = 2_147_483_647_i64;
    assert_eq!(call(&server, Method::POST, GADGETS, gadget(json!({"spec": {"replicas": most}}))).await.code, 201);
    for (path, part) in [("", "spec"), ("/status", "status")] {
        let path = format!("{GADGETS}/a{path}");
        let refused = call(&server, Method::PATCH, &path, json!({part: {"replicas": most + 1}})).await;
        let why = format!(".{part}.replicas: Invalid value: {}: should be less than or equal to {most}", most + 1);
        assert!(message(&refused).ends_with(&why), "{}", message(&refused));
        assert_eq!(call(&server, Method::PATCH, &path, json!({part: {"replicas": 1}})).await.code, 200);
    }
}

#[tokio::test]
async fn finalizer_without_a_path_causes_a_warning() {
    let server = server().await;
    let mut object = gadget(json!({}));
    object["metadata"]["finalizers"] = json!(["a.b", "c"]);
    let made = call(&server, Method::POST, GADGETS, object).await;
    let warnings: Vec<_> = made.headers.get_all("warning").iter().map(|value| value.to_str().expect("text")).collect();
    assert!(
        warnings[0].contains("a.b\\\": prefer a domain-qualified finalizer name including a path (/) to"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("c\\\": prefer a domain-qualified finalizer name to"), "{warnings:?}");
}

async fn redefine(server: &ApiServer, members: Json) {
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com";
    let mut found = get(server, definition).await.body;
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": members});
    assert_eq!(call(server, Method::PUT, definition, found).await.code, 200);
    server.settle().await;
}

#[tokio::test]
async fn old_duplicates_may_stay_but_invalid_versions_may_not() {
    let server = server().await;
    let list = |more: Json| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        more.members("").for_each(|(key, value)| list.set(key, value.clone()));
        list
    };
    let set = json!({"x-kubernetes-list-type": "set"});
    redefine(&server, json!({"free": list(json!({})), "set": list(set.clone())})).await;
    let object = gadget(json!({"free": ["a", "a"], "set": ["a"]}));
    assert_eq!(call(&server, Method::POST, GADGETS, object).await.code, 201);
    let path = format!("{GADGETS}/a");
    let twice = json!({"set": ["b", "b"]});
    let refused = call(&server, Method::PATCH, &path, twice.clone()).await;
    assert!(message(&refused).ends_with("set[1]: Duplicate value: \"b\""), "{}", message(&refused));
    redefine(&server, json!({"free": list(set.clone()), "set": list(set.clone())})).await;
    assert_eq!(call(&server, Method::PATCH, &path, twice).await.code, 200);

    let version = json!({"type": "string", "pattern": "^other$"});
    redefine(&server, json!({"free": list(set.clone()), "set": list(set), "apiVersion": version})).await;
    let refused = call(&server, Method::PATCH, &path, json!({"set": ["c"]})).await;
    let why = "apiVersion: Invalid value: \"example.com/v1\": apiVersion in body should match '^other$'";
    assert!(message(&refused).ends_with(why), "{}", message(&refused));
}

#[tokio::test]
async fn reordering_a_keyed_list_does_not_revalidate_it() {
    let server = server().await;
    let ports = |more: Json| {
        let item = json!({"type": "object", "required": ["p"], "properties": {"p": {"type": "integer"}}});
        let mut list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p"], "items": item});
        more.members("").for_each(|(key, value)| list.set(key, value.clone()));
        json!({"ports": list})
    };
    redefine(&server, ports(json!({}))).await;
    let object = gadget(json!({"ports": [{"p": 1}, {"p": 2}, {"p": 3}]}));
    assert_eq!(call(&server, Method::POST, GADGETS, object).await.code, 201);
    redefine(&server, ports(json!({"maxItems": 2}))).await;
    let path = format!("{GADGETS}/a");
    for (ports, code) in [
        (json!([{"p": 3}, {"p": 1}, {"p": 2}]), 200),
        (json!([{"p": 3}, {"p": 1}, {"p": 4}]), 422),
        (json!([{"p": 3}, {"p": 1}, {"p": 2}, {"p": 4}]), 422),
    ] {
        let written = call(&server, Method::PATCH, &path, json!({"ports": ports})).await;
        assert_eq!(written.code, code, "{ports}: {}", message(&written));
    }
}

/// The expected generations and versions are from kube-apiserver 1.36.1.
#[tokio::test]
async fn float_differs_from_an_integer_until_it_is_stored() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let served = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    });
    create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition_of("Gadget", served)).await;
    server.settle().await;
    let mut last = create(&server, GADGETS, gadget(json!({"spec": {"n": 1}}))).await;
    for (part, body, generation, is_written) in [
        ("/status", r#"{"status": {"n": 1.0}}"#, 1, true),
        ("/status", r#"{"status": {"n": 1.0}}"#, 1, false),
        ("", r#"{"spec": {"n": 1.0}}"#, 2, true),
        ("", r#"{"spec": {"n": 1.0}}"#, 3, true),
        ("", r#"{"spec": {"n": 1}}"#, 3, false),
        ("", r#"{"spec": {"n": 1e19}}"#, 4, true),
        ("", r#"{"spec": {"n": 1e19}}"#, 4, false),
        ("", r#"{"spec": {"n": 0}}"#, 5, true),
        ("", r#"{"spec": {"n": 0.0}}"#, 6, true),
        ("/status", r#"{"status": {"n": [2.0, {"m": 3.0}]}}"#, 6, true),
        ("/status", r#"{"status": {"n": [2.0, {"m": 3.0}]}}"#, 6, false),
    ] {
        let headers = [("content-type", "application/merge-patch+json")];
        let answer = read(send(&server, Method::PATCH, &format!("{GADGETS}/a{part}"), &headers, body).await).await;
        assert_eq!(answer.body["metadata"]["generation"], generation, "{body}: {:?}", answer.body);
        let is_new = version(&answer.body) != version(&last);
        assert_eq!(is_new, is_written, "{body}");
        last = answer.body;
    }
}
