//! Tests that the server rejects values whose nesting could overflow the stack.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::definition_of;
use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The maximum nesting depth of a stored object, including its managed fields.
const DEEPEST: usize = 120;

/// Returns a CustomResourceDefinition for widgets with arbitrary `spec` and `status`. The members of `more` are added
/// to the only version of the definition.
fn definition(more: Json) -> Json {
    let mut version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "a": {"type": "string"},
        }}},
    });
    for (name, value) in more.as_object().expect("members") {
        version[name] = value.clone();
    }
    definition_of("Widget", version)
}

fn widget(name: &str, spec: Json) -> Json {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn server() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    server.load(&definition(json!({"subresources": {"status": {}}})).to_string()).expect("a definition");
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    assert_eq!(call(&server, Method::POST, WIDGETS, widget("w", json!({}))).await.code, 201);
    server
}

async fn patch(server: &ApiServer, path: &str, operations: &Json) -> Answer {
    let media = [("content-type", "application/json-patch+json")];
    read(send(server, Method::PATCH, path, &media, &operations.to_string()).await).await
}

fn lists(depth: usize) -> Json {
    (1..depth).fold(json!([]), |inner, _| json!([inner]))
}

/// Returns `depth` nested objects. Each nested object adds a nesting level to the managed fields, but nested lists add
/// none.
fn objects(depth: usize) -> Json {
    (1..depth).fold(json!({}), |inner, _| json!({"a": inner}))
}

fn deep_path(depth: usize) -> String {
    "/0".repeat(depth)
}

/// The worker threads of the server have a stack of 2 MiB, like the threads of the program `pintle-apiserver`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_patch_result_has_the_depth_limit_of_bodies() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    let add = |path: &str, value: Json| json!({"op": "add", "path": path, "value": value});
    let copy = |from: &str, path: &str| json!({"op": "copy", "from": from, "path": path});
    let to = |from: &str, path: &str| json!({"op": "move", "from": from, "path": path});
    // Each operation copies the outermost list into the innermost list, which doubles the depth.
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
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("deeper than 127 lists and objects"), "{way}: {message}");
    }
    assert_eq!(get(&server, &path).await.body["spec"], json!({}), "unchanged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deepest_accepted_object_is_served_in_every_form() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    // The object and its spec count as two nesting levels. In the managed fields, nested objects are four levels
    // deeper. Nested lists add no levels to the managed fields, because a list is a single entry.
    let shapes = [(lists as fn(usize) -> Json, DEEPEST - 2), (objects, DEEPEST - 6)];
    for (shape, room) in shapes {
        for way in ["create", "put", "merge", "json", "apply", "status"] {
            let what = format!("{way} {room}");
            assert_eq!(delete(&server, &path).await.code, 200, "{what}");
            if way != "create" {
                assert_eq!(call(&server, Method::POST, WIDGETS, widget("w", json!({}))).await.code, 201, "{what}");
            }
            let refused = write(&server, way, shape(room + 1)).await;
            assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")), "{what}: {:?}", refused.body);
            assert_eq!(refused.body["details"]["name"], "w", "{what}");
            let taken = write(&server, way, shape(room)).await;
            assert!(matches!(taken.code, 200 | 201), "{what}: {:?}", taken.body);
            let field = if way == "status" { "status" } else { "spec" };
            assert_eq!(taken.body[field]["a"], shape(room), "{what}");
            assert_served(&server, &taken.body, &what).await;
        }
    }
    for (depth, code) in [(127, 422), (128, 400)] {
        let answer = call(&server, Method::POST, WIDGETS, widget("v", json!({"a": lists(depth - 2)}))).await;
        assert_eq!(answer.code, code, "a body of {depth}: {:?}", answer.body);
    }
}

#[tokio::test]
async fn quota_is_not_charged_for_rejected_nesting() {
    const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
    let server = server().await;
    let amounts = |count: &str| json!({"count/widgets.example.com": count});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": amounts("5")}});
    assert_eq!(call(&server, Method::POST, QUOTAS, quota).await.code, 201);
    let status = json!({"status": {"hard": amounts("5"), "used": amounts("1")}});
    assert_eq!(call(&server, Method::PATCH, &format!("{QUOTAS}/q/status"), status).await.code, 200);
    for (depth, code, used) in [(DEEPEST + 1, 422, "1"), (DEEPEST, 201, "2")] {
        let answer = call(&server, Method::POST, WIDGETS, widget("v", json!({"a": lists(depth - 2)}))).await;
        assert_eq!(answer.code, code, "{:?}", answer.body);
        assert_eq!(get(&server, &format!("{QUOTAS}/q")).await.body["status"]["used"], amounts(used), "{depth}");
    }
}

/// Writes `value` to the spec or the status of the widget `w`. `way` is the type of the request, such as update or
/// patch.
async fn write(server: &ApiServer, way: &str, value: Json) -> Answer {
    let path = format!("{WIDGETS}/w");
    let spec = json!({"a": value});
    let (method, path, media, body) = match way {
        "create" => (Method::POST, WIDGETS.to_owned(), "application/json", widget("w", spec)),
        "put" => {
            let mut object = get(server, &path).await.body;
            object["spec"] = spec;
            (Method::PUT, path, "application/json", object)
        }
        "merge" => (Method::PATCH, path, "application/merge-patch+json", json!({"spec": spec})),
        "json" => {
            let operations = json!([{"op": "add", "path": "/spec/a", "value": spec["a"]}]);
            (Method::PATCH, path, "application/json-patch+json", operations)
        }
        "apply" => (Method::PATCH, format!("{path}?fieldManager=m"), "application/apply-patch+yaml", widget("w", spec)),
        "status" => (Method::PATCH, format!("{path}/status"), "application/merge-patch+json", json!({"status": spec})),
        _ => panic!("no such way: {way}"),
    };
    read(send(server, method, &path, &[("content-type", media)], &body.to_string()).await).await
}

/// Asserts that each kind of read returns a single widget that equals `expected`. A body that
/// `serde_json` cannot parse is compared as a string, so the assertion fails.
async fn assert_served(server: &ApiServer, expected: &Json, what: &str) {
    const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let path = format!("{WIDGETS}/w");
    assert_eq!(get(server, &path).await.body, *expected, "{what}");
    assert_eq!(get(server, WIDGETS).await.body["items"][0], *expected, "{what}: list");
    let query = format!("{WIDGETS}?includeObject=Object");
    let table = read(send(server, Method::GET, &query, &[TABLE], "").await).await;
    assert_eq!(table.body["rows"][0]["object"], *expected, "{what}: table");
    let frame = async |headers: &[(&str, &str)]| {
        let response = send(server, Method::GET, &format!("{query}&watch=1"), headers, "").await;
        match Watch::of(response).next().await {
            Next::Event(event) => event,
            other => panic!("{what}: an event expected: {other:?}"),
        }
    };
    assert_eq!(frame(&[]).await["object"], *expected, "{what}: watch");
    assert_eq!(frame(&[TABLE]).await["object"]["rows"][0]["object"], *expected, "{what}: watch of tables");
    let put = call(server, Method::PUT, &path, expected.clone()).await;
    assert_eq!(put.code, 200, "{what}: the served object can be written back: {:?}", put.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_json_patch_copies_are_rejected_by_size() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    let text = "x".repeat(1 << 20);
    let mut operations = vec![json!({"op": "add", "path": "/spec/a", "value": [text]})];
    // Each operation doubles the object's size. After 20 operations, the object would have a size of about one
    // tebibyte.
    operations.extend((0..20).map(|_| json!({"op": "copy", "from": "/spec/a", "path": "/spec/a/-"})));
    let answer = patch(&server, &path, &operations.into()).await;
    assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")), "{:?}", answer.body["message"]);
    assert_eq!(get(&server, &path).await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_paths_with_nested_filters_are_rejected() {
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
    assert_eq!(names, ["Name", "Age"], "one invalid path disables all additional columns");
}
