//! What is nested so deeply that it would end the process.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use serde_json::{Value, json};

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A definition of widgets that takes whatever comes below `spec`; `more` goes into its only version.
fn definition(more: Value) -> Value {
    let mut version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "a": {"type": "string"},
        }}},
    });
    for (name, value) in more.as_object().expect("members") {
        version[name] = value.clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// A server of widgets, with the widget `w`.
async fn server() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    server.load(&definition(json!({})).to_string()).expect("a definition");
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    assert_eq!(call(&server, Method::POST, WIDGETS, widget("w", json!({}))).await.code, 201);
    server
}

async fn patch(server: &ApiServer, path: &str, operations: &Value) -> Answer {
    let media = [("content-type", "application/json-patch+json")];
    read(send(server, Method::PATCH, path, &media, &operations.to_string()).await).await
}

/// So many lists, one in another.
fn lists(depth: usize) -> Value {
    (1..depth).fold(json!([]), |inner, _| json!([inner]))
}

/// So many objects, one in another. Unlike lists, they reach as deep into the managed fields.
fn objects(depth: usize) -> Value {
    (1..depth).fold(json!({}), |inner, _| json!({"a": inner}))
}

/// The way down so many lists.
fn deep_path(depth: usize) -> String {
    "/0".repeat(depth)
}

/// The tasks of the server run where a stack is 2 MiB, as in the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_json_patch_builds_nothing_deeper_than_a_body_can_be() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let copy = |from: &str, path: &str| json!({"op": "copy", "from": from, "path": path});
    let to = |from: &str, path: &str| json!({"op": "move", "from": from, "path": path});
    // Each copy lays the list into its own innermost one.
    let mut doubling = vec![add("/spec/l", lists(100))];
    doubling.extend((0..10).map(|at| copy("/spec/l", &format!("/spec/l{}/-", deep_path((100 << at) - 1)))));
    let mut adding = vec![add("/spec/l", lists(100))];
    adding.extend((1..60).map(|at| add(&format!("/spec/l{}/-", deep_path(100 * at - 1)), lists(100))));
    let mut moving: Vec<_> = (0..60).map(|at| add(&format!("/spec/l{at}"), lists(100))).collect();
    moving.extend((1..60).map(|at| to(&format!("/spec/l{at}"), &format!("/spec/l0{}/-", deep_path(100 * at - 1)))));
    for (way, operations) in [("copy", doubling), ("add", adding), ("move", moving)] {
        let answer = patch(&server, &path, &operations.into()).await;
        assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")), "{way}: {:?}", answer.body);
        assert_eq!(answer.body["details"], json!({}), "{way}");
    }
    assert_eq!(get(&server, &path).await.body["spec"], json!({}), "nothing came of them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deepest_object_that_is_taken_is_served_in_every_way() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    // The object and its spec stand around the value.
    const ROOM: usize = 127 - 2;
    let add = |depth| json!([{"op": "add", "path": "/spec/l", "value": lists(depth)}]);
    let grown = |depth: usize| {
        json!([
            {"op": "add", "path": "/spec/l", "value": lists(100)},
            {"op": "add", "path": "/spec/m", "value": lists(depth - 100)},
            {"op": "move", "from": "/spec/m", "path": format!("/spec/l{}/-", deep_path(99))},
        ])
    };
    assert_eq!(patch(&server, &path, &add(ROOM - 1)).await.code, 200, "the list of operations is around it too");
    let answer = patch(&server, &path, &grown(ROOM)).await;
    assert_eq!((answer.code, &answer.body["spec"]["l"]), (200, &lists(ROOM)));
    assert_eq!(patch(&server, &path, &grown(ROOM + 1)).await.code, 422);
    let merge = json!({"spec": {"l": lists(ROOM), "o": objects(ROOM)}, "metadata": {"labels": {"a": "b"}}});
    assert_eq!(call(&server, Method::PATCH, &path, merge).await.code, 200);
    let apply = widget("w", json!({"a": objects(ROOM)}));
    let media = [("content-type", "application/apply-patch+yaml")];
    let applied = send(&server, Method::PATCH, &format!("{path}?fieldManager=m"), &media, &apply.to_string()).await;
    assert_eq!(applied.status(), 200);
    // Its managed fields stand deeper than what they tell of, and keep no patch from working.
    let rest = json!([{"op": "add", "path": "/metadata/labels/c", "value": "d"}]);
    assert_eq!(patch(&server, &path, &rest).await.code, 200);
    assert_eq!(get(&server, &path).await.code, 200);
    assert_eq!(delete(&server, &path).await.code, 200);
    for (depth, code) in [(ROOM, 201), (ROOM + 1, 400)] {
        let body = widget("v", json!({"l": lists(depth)}));
        assert_eq!(call(&server, Method::POST, WIDGETS, body).await.code, code, "{depth}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_bounded_before_they_are_made() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    let text = "x".repeat(1 << 20);
    let mut operations = vec![json!({"op": "add", "path": "/spec/a", "value": [text]})];
    // As often doubled it would be a tebibyte.
    operations.extend((0..20).map(|_| json!({"op": "copy", "from": "/spec/a", "path": "/spec/a/-"})));
    let answer = patch(&server, &path, &operations.into()).await;
    assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")), "{:?}", answer.body["message"]);
    assert_eq!(get(&server, &path).await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_of_nested_filters_is_no_path() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let nested = |depth: usize| format!(".spec{}.a{}", "[?(@".repeat(depth), ")]".repeat(depth));
    for depth in [2, 4_000, 100_000] {
        let selectable = definition(json!({"selectableFields": [{"jsonPath": nested(depth)}]}));
        let answer = call(&server, Method::POST, DEFINITIONS, selectable).await;
        assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")), "{depth}");
        assert_eq!(answer.body["details"]["causes"][0]["field"], "spec.selectableFields[0].jsonPath", "{depth}");
    }
    let columns = [("Deep", nested(4_000)), ("A", ".a".to_owned())];
    let columns = columns.map(|(name, path)| json!({"name": name, "type": "string", "jsonPath": path}));
    server.load(&definition(json!({"additionalPrinterColumns": columns})).to_string()).expect("a definition");
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let answer = read(send(&server, Method::GET, WIDGETS, &table, "").await).await;
    let names: Vec<_> =
        answer.body["columnDefinitions"].as_array().into_iter().flatten().map(|it| &it["name"]).collect();
    assert_eq!(names, ["Name", "Age"], "one path that cannot be read takes all columns with it");
}
