//! Tests of unusual values in the mutations of admission policies.

use pintle_json::json;

use crate::policies::{apply, create, mutating, patch, post, server};
use crate::support::*;

#[tokio::test]
async fn test_for_null_fails_in_a_mutation() {
    let server = server().await;
    let add = "JSONPatch{op: 'add', path: '/data/seen', value: 'yes'}";
    for (name, test, expected) in [
        ("null", "JSONPatch{op: 'test', path: '/data/absent', value: null}", json!({"x": "1"})),
        ("none", "JSONPatch{op: 'test', path: '/data/absent'}", json!({"x": "1", "seen": "yes"})),
        ("value", "JSONPatch{op: 'test', path: '/data/x', value: '1'}", json!({"x": "1", "seen": "yes"})),
    ] {
        let only =
            json!({"matchConditions": [{"name": "c", "expression": format!("object.metadata.name == '{name}'")}]});
        mutating(&server, name, "Never", patch(&format!("[{test}, {add}]")), only).await;
        assert_eq!(create(&server, name, json!({"x": "1"})).await, (201, expected), "{name}");
    }
}

#[tokio::test]
async fn null_does_not_fit_an_apply_configuration() {
    let server = server().await;
    for (name, mutation, why) in [
        ("map", "Object{data: null}", ".data: expected map, got &{NULL_VALUE}"),
        ("text", "Object{data: {'a': null}}", ".data.a: expected string, got &value.valueUnstructured{Value:0}"),
        ("flag", "Object{immutable: null}", ".immutable: expected boolean, got &{NULL_VALUE}"),
        ("struct", "Object{metadata: null}", ".metadata: expected map, got &{NULL_VALUE}"),
        (
            "number",
            "Object{metadata: Object.metadata{generation: null}}",
            ".metadata.generation: expected numeric (int or float), got structpb.NullValue",
        ),
        (
            "list",
            "Object{metadata: Object.metadata{finalizers: null}}",
            ".metadata.finalizers: expected list, got &{NULL_VALUE}",
        ),
    ] {
        let only =
            json!({"matchConditions": [{"name": "c", "expression": format!("object.metadata.name == '{name}'")}]});
        mutating(&server, name, "Never", apply(mutation), only).await;
        let (code, message) = create(&server, name, json!({"x": "1"})).await;
        let why =
            format!("denied request: error applying patch: failed to convert patch object to typed object: {why}");
        assert!(code == 403 && message.as_str().is_some_and(|text| text.ends_with(&why)), "{name}: {code} {message}");
    }
}

#[tokio::test]
async fn mutation_leaves_no_empty_managed_fields() {
    let server = server().await;
    for (name, value) in [("list", "[]"), ("null", "null")] {
        let set = format!("[JSONPatch{{op: 'add', path: '/metadata/managedFields', value: {value}}}]");
        let only =
            json!({"matchConditions": [{"name": "c", "expression": format!("object.metadata.name == '{name}'")}]});
        mutating(&server, name, "Never", patch(&set), only).await;
        let made = post(&server, CONFIG_MAPS, json!({"metadata": {"name": name}})).await;
        assert_eq!(made["metadata"].get("managedFields"), None, "{name}");
    }
}

#[tokio::test]
async fn mutation_cannot_make_managed_fields_malformed() {
    let server = server().await;
    let set = "[JSONPatch{op: 'add', path: '/metadata/managedFields', value: [{'operation': 'Other'}]}]";
    mutating(&server, "malformed", "Never", patch(set), json!({})).await;
    let made = post(&server, CONFIG_MAPS, json!({"metadata": {"name": "m"}, "data": {"x": "1"}})).await;
    let managed: Vec<_> = made.list("/metadata/managedFields").map(|entry| entry.text("/operation")).collect();
    assert_eq!(managed, ["Update"], "{made}");
}

/// kube-apiserver converts the values in a JSON patch to JSON, but not the values in an apply configuration.
#[tokio::test]
async fn apply_configuration_with_a_duration_is_refused() {
    let server = server().await;
    let mut accepted = Vec::new();
    for (name, value) in [
        ("duration", "duration('1h')"),
        ("timestamp", "timestamp('2020-01-01T00:00:00Z')"),
        ("bytes", "b'abc'"),
        ("quantity", "quantity('1Gi')"),
        ("url", "url('https://a')"),
    ] {
        let only =
            json!({"matchConditions": [{"name": "c", "expression": format!("object.metadata.name == '{name}'")}]});
        mutating(&server, name, "Never", apply(&format!("Object{{data: {{'a': {value}}}}}")), only).await;
        let (code, found) = create(&server, name, json!({"x": "1"})).await;
        if code != 403 {
            accepted.push(format!("{name}: {code} {found}"));
        }
    }
    assert_eq!(accepted, Vec::<String>::new());
}
