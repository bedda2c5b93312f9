//! What is nested so deeply that it would end the process.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// So many lists and objects may stand one in another in a stored object, with its managed fields.
const DEEPEST: usize = 120;

/// A definition of widgets that takes whatever comes below `spec` and `status`; `more` goes into its only version.
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

fn widget(name: &str, spec: Json) -> Json {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// A server of widgets, with the widget `w`.
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

/// So many lists, one in another.
fn lists(depth: usize) -> Json {
    (1..depth).fold(json!([]), |inner, _| json!([inner]))
}

/// So many objects, one in another. Unlike lists, they reach as deep into the managed fields.
fn objects(depth: usize) -> Json {
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
    let add = |path: &str, value: Json| json!({"op": "add", "path": path, "value": value});
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
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("deeper than 127 lists and objects"), "{way}: {message}");
    }
    assert_eq!(get(&server, &path).await.body["spec"], json!({}), "nothing came of them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deepest_object_that_is_taken_is_served_in_every_way() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    // The object and its spec stand around the value. What managed fields tell of stands four deeper in them; lists they tell
    // of as a whole.
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
async fn no_quota_is_charged_for_what_nests_too_deeply() {
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

/// Puts the value into the spec of the widget `w`, or into its status, in that way.
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

/// The only widget is as given in whatever is read, which serde_json takes: an answer that it does not is a text.
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
    assert_eq!(put.code, 200, "{what}: what is served can be sent back: {:?}", put.body);
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
