//! Request bodies of maximum size, which are expensive to process in different ways.

use std::sync::Arc;

use http::Method;
use http_body_util::BodyExt;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, Map, json};

use crate::support::*;

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const WIDGETS: &str = "/apis/e.com/v1/namespaces/default/widgets";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// An expensive request, and the objects that must exist before it is sent.
#[derive(Clone)]
pub(crate) struct Heavy {
    pub(crate) name: &'static str,
    pub(crate) before: Vec<(&'static str, Json)>,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) media: &'static str,
    pub(crate) body: String,
}

impl Heavy {
    fn post(name: &'static str, path: &str, body: impl ToString) -> Self {
        // Use strict validation, because warnings about all unknown fields would need more headers than the test client
        // accepts.
        let path = format!("{path}?fieldValidation=Strict");
        Self { name, before: Vec::new(), method: Method::POST, path, media: JSON, body: body.to_string() }
    }

    fn patch(name: &'static str, media: &'static str, body: impl ToString) -> Self {
        let path = format!("{CONFIG_MAPS}/heavy?fieldManager=m");
        let before = vec![(CONFIG_MAPS, config_map(json!({"data": {"a": "b"}})))];
        Self { name, before, method: Method::PATCH, path, media, body: body.to_string() }
    }

    fn of_widgets(self) -> Self {
        let list = |kind: &str, items: Json| json!({"type": "array", "x-kubernetes-list-type": kind, "items": items});
        let mut keyed =
            list("map", json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}));
        keyed["x-kubernetes-list-map-keys"] = json!(["k"]);
        let spec =
            json!({"type": "object", "properties": {"set": list("set", json!({"type": "string"})), "keyed": keyed}});
        Self { before: vec![(DEFINITIONS, definition(spec))], ..self }
    }

    fn yaml(self) -> Self {
        Self { media: "application/yaml", ..self }
    }
}

fn keys(count: usize) -> Json {
    members(count, "k", &json!("v"))
}

pub(crate) fn members(count: usize, name: &str, value: &Json) -> Json {
    (0..count).map(|at| (format!("{name}{at}"), value.clone())).collect::<Map>().into()
}

pub(crate) fn config_map(more: Json) -> Json {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "heavy"}});
    more.as_object().into_iter().flatten().for_each(|(key, value)| object[key] = value.clone());
    object
}

pub(crate) fn with_metadata(field: &str, value: Json) -> Json {
    let mut object = config_map(json!({}));
    object["metadata"][field] = value;
    object
}

pub(crate) fn deployment(variables: usize) -> Json {
    let env: Json = (0..variables).map(|at| json!({"name": format!("v{at}"), "value": "v"})).collect();
    let pod = json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "heavy"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod},
    })
}

pub(crate) fn definition(spec: Json) -> Json {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.e.com"},
        "spec": {
            "group": "e.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version],
        },
    })
}

pub(crate) fn widget(spec: Json) -> Json {
    json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "heavy"}, "spec": spec})
}

/// Returns all cases. Each body has `parts / 1000` of its full size.
pub(crate) fn bodies(parts: usize) -> Vec<Heavy> {
    let scaled = |full: usize| full * parts / 1000;
    let texts = |count: usize| -> Json { (0..count).map(|at| Json::from(format!("e.com/f{at}"))).collect() };
    let owners: Json = (0..scaled(10_000))
        .map(|at| json!({"apiVersion": "e.com/v1", "kind": "E", "name": format!("n{at}"), "uid": format!("u{at}")}))
        .collect();
    let operations: Json =
        (0..scaled(10_000)).map(|at| json!({"op": "add", "path": format!("/data/k{at}"), "value": "v"})).collect();
    let managed = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": members(scaled(40_000), "f:k", &json!({}))}}]);
    let items: Json = (0..scaled(10_000)).map(|at| json!({"k": format!("k{at}")})).collect();
    let long = json!({"type": "object", "properties": members(scaled(20_000), "p", &json!({"type": "string", "default": "d"}))});
    let flow_lists = format!("a: {}{}", "[".repeat(scaled(50_000)), "]".repeat(scaled(50_000)));
    let aliases = format!("a: &a {{k: v}}\nb: [{}]\n", "*a, ".repeat(scaled(50_000)));
    let order: Json = (0..scaled(60_000)).map(|at| json!({"name": at})).collect();
    let ordered = json!({"spec": {"template": {"spec":
        {"$setElementOrder/containers": order, "containers": [{"name": "n".repeat(scaled(1_000_000))}]}}}});
    let branches: Json = (0..400).map(|at| json!({"minimum": -at})).collect();
    let many = json!({"type": "array", "items": {"type": "integer", "anyOf": branches}});
    let branched = definition(json!({"type": "object", "properties": {"l": many}}));
    let allowed: Json = (0..100).map(|at| Json::from(format!("allowed{at}"))).collect();
    let limited = json!({"type": "array", "items": {"type": "string", "enum": allowed}});
    let limited = definition(json!({"type": "object", "properties": {"l": limited}}));
    vec![
        Heavy {
            before: vec![(DEFINITIONS, limited)],
            ..Heavy::post("values that are not allowed", WIDGETS, widget(json!({"l": vec!["other"; scaled(7_000)]})))
        },
        Heavy {
            before: vec![(DEFINITIONS, branched)],
            ..Heavy::post("a small body", WIDGETS, widget(json!({"l": vec![0; scaled(7_000)]})))
        },
        Heavy::post("unknown fields", CONFIG_MAPS, config_map(members(scaled(33_000), "unknown", &json!(1)))),
        Heavy::post("labels", CONFIG_MAPS, with_metadata("labels", keys(scaled(50_000)))),
        Heavy::post("more labels", CONFIG_MAPS, with_metadata("labels", keys(scaled(100_000)))),
        Heavy::post("annotations", CONFIG_MAPS, with_metadata("annotations", keys(scaled(100_000)))),
        Heavy::post("finalizers", CONFIG_MAPS, with_metadata("finalizers", texts(scaled(60_000)))),
        Heavy::post("owners", CONFIG_MAPS, with_metadata("ownerReferences", owners.clone())),
        Heavy::post("keys of data", CONFIG_MAPS, config_map(json!({"data": keys(scaled(60_000))}))),
        Heavy::post("managedFields", CONFIG_MAPS, with_metadata("managedFields", managed)),
        Heavy::post("variables", DEPLOYMENTS, deployment(scaled(20_000))),
        Heavy::post("a set", WIDGETS, widget(json!({"set": texts(scaled(10_000))}))).of_widgets(),
        Heavy::post("a keyed list", WIDGETS, widget(json!({"keyed": items}))).of_widgets(),
        Heavy::post("a definition", DEFINITIONS, definition(long)),
        Heavy::post("nested flow lists", CONFIG_MAPS, flow_lists).yaml(),
        Heavy::post("aliases", CONFIG_MAPS, aliases).yaml(),
        Heavy::post("a map in YAML", CONFIG_MAPS, config_map(json!({"data": keys(scaled(60_000))}))).yaml(),
        Heavy::patch("a JSON patch", "application/json-patch+json", operations),
        Heavy::patch("keys of a merge patch", MERGE, json!({"data": keys(scaled(60_000))})),
        Heavy::patch("nulls of a merge patch", MERGE, json!({"data": members(scaled(100_000), "k", &Json::Null)})),
        Heavy::patch("owners of a strategic patch", STRATEGIC, json!({"metadata": {"ownerReferences": owners}})),
        Heavy::patch("applied keys", APPLY, config_map(json!({"data": keys(scaled(30_000))}))),
        Heavy {
            path: format!("{DEPLOYMENTS}/heavy"),
            before: vec![(DEPLOYMENTS, deployment(scaled(10_000)))],
            ..Heavy::patch("variables of a strategic patch", STRATEGIC, deployment(scaled(20_000)))
        },
        Heavy {
            path: format!("{DEPLOYMENTS}/heavy"),
            before: vec![(DEPLOYMENTS, deployment(1))],
            ..Heavy::patch("an order of a strategic patch", STRATEGIC, ordered)
        },
        Heavy {
            before: vec![(CONFIG_MAPS, config_map(json!({"data": keys(scaled(30_000))})))],
            ..Heavy::patch("a small patch", MERGE, json!({"data": {"k": "v"}}))
        },
    ]
}

/// Starts a server and creates the objects in `before`. Also returns a future
/// that sends the expensive request and waits until the server has settled.
pub(crate) async fn begin(heavy: &Heavy, own_thread: bool) -> (Arc<ApiServer>, impl Future<Output = ()> + use<>) {
    let config = ApiServerConfig { own_thread, ..ApiServerConfig::default() };
    let server = Arc::new(ApiServer::start(config).await.expect("a server"));
    for (path, object) in &heavy.before {
        let made = call(&server, Method::POST, path, object.clone()).await;
        assert_eq!(made.code, 201, "{}: {:?}", heavy.name, made.body["message"]);
        server.settle().await;
    }
    let (target, heavy) = (server.clone(), heavy.clone());
    let work = async move {
        let Heavy { name, method, path, media, body, .. } = heavy;
        let (head, body) = send(&target, method, &path, &[("content-type", media)], &body).await.into_parts();
        // Do not parse the response, because parsing would block a server that runs on this thread.
        body.collect().await.expect("a whole body");
        // Accept failures, because some requests fail validation. Status 500 means that the object is too large for
        // etcd.
        assert!(matches!(head.status.as_u16(), 200 | 201 | 400 | 422 | 500), "{name}: {}", head.status);
        target.settle().await;
    };
    (server, work)
}
