//! Tests that bodies with many items are processed in linear time.
//!
//! With a linear algorithm, the tests finish long before their timeout. A quadratic algorithm would need many minutes
//! for these bodies.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::definition_of;
use crate::support::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn send_in_time(server: &ApiServer, method: Method, path: &str, media: &str, body: &Json) -> Answer {
    let text = body.to_string();
    let answer = async { read(send(server, method, path, &[("content-type", media)], &text).await).await };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("{path}: no response in time"))
}

async fn post(server: &ApiServer, path: &str, body: &Json) -> Answer {
    send_in_time(server, Method::POST, path, "application/json", body).await
}

fn each(count: usize, make: impl Fn(usize) -> Json) -> Json {
    (0..count).map(make).collect()
}

fn finalizers(numbers: std::ops::Range<usize>) -> Json {
    numbers.map(|at| json!(format!("e.com/f{at}"))).collect()
}

fn owners(numbers: std::ops::Range<usize>) -> Json {
    let owner =
        |at: usize| json!({"apiVersion": "e.com/v1", "kind": "E", "name": format!("n{at}"), "uid": format!("u{at}")});
    numbers.map(owner).collect()
}

#[tokio::test]
async fn many_service_ports_take_linear_work() {
    let server = server().await;
    let ports = each(10_000, |at| json!({"name": format!("p{at}"), "port": at + 1, "nodePort": 0}));
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": ports}});
    let made = post(&server, SERVICES, &service).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
    let path = format!("{SERVICES}/s");
    let cluster_ip =
        json!({"spec": {"type": "ClusterIP", "ports": made.body["spec"]["ports"], "selector": {"a": "b"}}});
    let patched =
        send_in_time(&server, Method::PATCH, &path, "application/strategic-merge-patch+json", &cluster_ip).await;
    assert_eq!(patched.code, 200, "{:?}", patched.body["message"]);
    let twice = each(20_000, |_| json!({"name": "p", "port": 1}));
    let refused = post(&server, SERVICES, &json!({"metadata": {"name": "t"}, "spec": {"ports": twice}})).await;
    assert_eq!(refused.code, 422);
    let causes = refused.body["details"]["causes"].as_array().map_or(0, Vec::len);
    assert_eq!(causes, 2 * 19_999, "each but the first repeats a name and a number");
}

#[tokio::test]
async fn many_owners_and_finalizers_take_linear_work() {
    let server = server().await;
    let named = |name: &str, owners: &Json, finalizers: &Json| json!({"metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers}});
    let object = named("c", &owners(0..8_000), &finalizers(0..15_000));
    assert_eq!(post(&server, CONFIG_MAPS, &object).await.code, 201);
    let path = format!("{CONFIG_MAPS}/c");
    let more = named("c", &owners(4_000..12_000), &finalizers(7_500..22_500));
    let merged = send_in_time(&server, Method::PATCH, &path, "application/strategic-merge-patch+json", &more).await;
    assert_eq!(merged.code, 200, "{:?}", merged.body["message"]);
    let count = |name: &str| merged.body["metadata"][name].as_array().map_or(0, Vec::len);
    assert_eq!((count("ownerReferences"), count("finalizers")), (12_000, 22_500));
    let odd: Json = (0..15_000).map(|at| json!(format!("f{at}"))).collect();
    assert_eq!(post(&server, CONFIG_MAPS, &named("d", &json!([]), &odd)).await.code, 422);
}

#[tokio::test]
async fn applying_long_keyed_lists_and_sets_takes_linear_work() {
    let server = server().await;
    let object = |first: usize| {
        let ports =
            each(5_000, |at| json!({"name": format!("p{}", first + at), "port": first + at, "protocol": "TCP"}));
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "finalizers": finalizers(first..first + 8_000)},
            "spec": {"ports": ports},
        })
    };
    let path = format!("{SERVICES}/s?fieldManager=m");
    for (first, code) in [(1, 201), (2_501, 200)] {
        let applied = send_in_time(&server, Method::PATCH, &path, "application/apply-patch+yaml", &object(first)).await;
        assert_eq!(applied.code, code, "{:?}", applied.body["message"]);
        assert_eq!(applied.body["spec"]["ports"].as_array().map(Vec::len), Some(5_000));
        assert_eq!(applied.body["metadata"]["finalizers"].as_array().map(Vec::len), Some(8_000));
    }
}

#[tokio::test]
async fn many_map_keys_and_managers_take_linear_work() {
    let server = server().await;
    let keys: pintle_json::Map = (0..50_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    let object = json!({"metadata": {"name": "c", "labels": keys}});
    assert_eq!(post(&server, CONFIG_MAPS, &object).await.code, 201);
    let path = format!("{CONFIG_MAPS}/c");
    for media in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        let nulls: pintle_json::Map = keys.keys().map(|key| (key.clone(), Json::Null)).collect();
        let patched = send_in_time(&server, Method::PATCH, &path, media, &json!({"metadata": {"labels": nulls}})).await;
        assert_eq!(patched.code, 200);
        assert!(patched.body["metadata"]["labels"].is_null());
    }
    let odd: pintle_json::Map = (0..50_000).map(|at| (format!("-{at}"), json!("v"))).collect();
    assert_eq!(post(&server, CONFIG_MAPS, &json!({"metadata": {"name": "d", "labels": odd}})).await.code, 422);
    let managers = each(8_000, |at| {
        let fields = json!({"f:data": {(format!("f:k{at}")): {}}});
        json!({"manager": format!("m{at}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    });
    let data: pintle_json::Map = (0..8_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    let managed = json!({"metadata": {"managedFields": managers}, "data": data});
    let patched = send_in_time(&server, Method::PATCH, &path, "application/merge-patch+json", &managed).await;
    assert_eq!(patched.code, 200, "{:?}", patched.body["message"]);
}

#[tokio::test]
async fn long_json_patches_take_linear_work() {
    let server = server().await;
    create_map(&server, "c", json!({})).await;
    let path = format!("{CONFIG_MAPS}/c?fieldValidation=Ignore");
    let mut operation: pintle_json::Map = (0..200_000).map(|at| (format!("m{at}"), json!(0))).collect();
    operation.extend([("op", "test"), ("path", "/data/k"), ("value", "v")]);
    let patched = send_in_time(&server, Method::PATCH, &path, "application/json-patch+json", &json!([operation])).await;
    assert_eq!(patched.code, 200);
    let mut operations = vec![json!({"op": "add", "path": "/metadata/finalizers", "value": vec![0; 1_000_000]})];
    operations.extend((1..10_000).map(|_| json!({"op": "add", "path": "/metadata/finalizers/0", "value": 0})));
    let refused = send_in_time(&server, Method::PATCH, &path, "application/json-patch+json", &json!(operations)).await;
    assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")), "{:?}", refused.body["message"]);
}

#[tokio::test]
async fn warnings_for_unknown_fields_are_truncated() {
    let server = server().await;
    // If all warnings together exceed 4096 characters, each warning is truncated to 256 characters. The response
    // contains as many truncated warnings as fit into 4096 characters.
    let mut object: pintle_json::Map = (0..9_000).map(|at| (format!("{at:0300}"), json!(0))).collect();
    object.insert("metadata", json!({"name": "d"}));
    let made = post(&server, CONFIG_MAPS, &object.into()).await;
    assert_eq!(made.code, 201);
    let warnings: Vec<_> = made.headers.get_all("warning").iter().map(http::HeaderValue::len).collect();
    let frame = r#"299 - """#.len();
    assert_eq!(warnings, [256 + frame + 1; 16], "a quotation mark in the text is escaped");
    let mut long = json!({"metadata": {"name": "e"}});
    let parts: pintle_json::Map = (0..100_000).map(|at| (format!("y{at}"), json!(0))).collect();
    long["data"] = json!({"k": "v"});
    long["x".repeat(1_000_000)] = parts.into();
    let made = post(&server, CONFIG_MAPS, &long).await;
    assert_eq!((made.code, made.headers.get_all("warning").iter().count()), (201, 1));
}

#[tokio::test]
async fn many_host_ports_and_invalid_labels_take_linear_work() {
    let server = server().await;
    // None of the ports conflict, so the search for conflicts examines all of them.
    let ports = each(20_000, |at| json!({"containerPort": 1, "hostPort": at + 1}));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x", "ports": ports}]}});
    let made = post(&server, "/api/v1/namespaces/default/pods?dryRun=All", &pod).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
    let labels: pintle_json::Map = (0..100_000).map(|at| (format!("!{at}"), json!("?"))).collect();
    let refused = post(&server, CONFIG_MAPS, &json!({"metadata": {"name": "c", "labels": labels}})).await;
    assert_eq!(refused.code, 422);
    assert!(
        refused.body.to_string().len() < 16 << 20,
        "the response must not be a hundred times as long as the request"
    );
}

#[tokio::test]
async fn long_path_prefix_of_many_members_takes_linear_work() {
    let server = server().await;
    let numbers = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": numbers}}});
    let definition = definition_of(
        "Gadget",
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}),
    );
    assert_eq!(post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.code, 201);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    let gadget = |value: Json| {
        let members: pintle_json::Map = (0..20_000).map(|at| (format!("m{at}"), value.clone())).collect();
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {("x".repeat(300_000)): members}})
    };
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets?fieldValidation=Ignore";
    for (value, code) in [(json!(1), 201), (json!("no number"), 422)] {
        let answer = post(&server, gadgets, &gadget(value)).await;
        assert_eq!(answer.code, code);
        assert!(
            answer.body.to_string().len() < 32 << 20,
            "the response must not be a hundred times as long as the request"
        );
    }
}

#[tokio::test]
async fn size_of_reported_errors_is_bounded() {
    let server = server().await;
    let service = json!({"metadata": {"name": "a", "finalizers": each(60_000, |_| json!(""))}});
    let answer = post(&server, SERVICES, &service).await;
    assert_eq!(answer.code, 422);
    let length = answer.body.to_string().len();
    assert!(length < 20 << 20, "{length} bytes");
}

#[tokio::test]
async fn validation_of_schema_branches_stops_at_the_step_limit() {
    let server = server().await;
    // Only the last `anyOf` branch matches the value -1.
    let branches = each(2_000, |at| json!({"properties": {"n": {"maximum": at as i64 - 2_000}}}));
    let item = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "anyOf": branches});
    let list = json!({"type": "array", "items": item});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": list}}}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": spec});
    let made = post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
    server.settle().await;
    let widget = |items: usize, n: i64| {
        let spec = json!({"l": each(items, |_| json!({"n": n}))});
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": format!("w{items}")}, "spec": spec})
    };
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    assert_eq!(post(&server, widgets, &widget(10, -1)).await.code, 201);
    assert_eq!(post(&server, widgets, &widget(10, 3)).await.code, 422);
    // Without a limit on the list length, the validation would take 200 million steps.
    let refused = post(&server, widgets, &widget(100_000, -1)).await;
    assert_eq!(refused.code, 422);
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(message.contains("steps to validate"), "{}", &message[..message.len().min(500)]);
}

#[tokio::test]
async fn long_keyed_lists_of_custom_resources_take_linear_work() {
    let server = server().await;
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}});
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item});
    let schema = json!({"type": "object", "properties": {"l": list}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": spec});
    assert_eq!(post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.code, 201);
    server.settle().await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let list = each(15_000, |at| json!({"name": format!("n{at}"), "n": at}));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "l": list});
    let mut made = post(&server, widgets, &widget).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
    made.body["l"][14_999]["n"] = "no number".into();
    let refused = send_in_time(&server, Method::PUT, &format!("{widgets}/w"), "application/json", &made.body).await;
    assert_eq!(refused.code, 422);
    let causes = &refused.body["details"]["causes"];
    assert_eq!((causes.as_array().map(Vec::len), &causes[0]["field"]), (Some(1), &json!("l[14999].n")), "{causes}");
}

#[tokio::test]
async fn many_tolerations_take_linear_work() {
    let server = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let tolerations = each(8_000, |at| json!({"key": format!("k{at}"), "operator": "Exists"}));
    let spec = json!({"containers": [{"name": "c", "image": "x"}], "tolerations": tolerations});
    let mut made = post(&server, pods, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
    made.body["metadata"]["labels"] = json!({"a": "b"});
    let put = send_in_time(&server, Method::PUT, &format!("{pods}/p"), "application/json", &made.body).await;
    assert_eq!(put.code, 200, "{:?}", put.body["message"]);
}

#[tokio::test]
async fn many_token_audiences_take_linear_work() {
    let server = server().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(post(&server, accounts, &json!({"metadata": {"name": "a"}})).await.code, 201);
    let audiences = |prefix: char| each(60_000, |at| json!(format!("{prefix}{at}")));
    let request = json!({"spec": {"audiences": audiences('a')}});
    let made = post(&server, &format!("{accounts}/a/token"), &request).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    for (prefix, authenticated) in [('a', json!(true)), ('b', Json::Null)] {
        let review = json!({"spec": {"token": made.body["status"]["token"], "audiences": audiences(prefix)}});
        let answer = post(&server, reviews, &review).await;
        assert_eq!((answer.code, &answer.body["status"]["authenticated"]), (201, &authenticated), "{prefix}");
    }
}
