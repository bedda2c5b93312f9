//! Measures writes of a custom resource with validation rules. The embedded server runs in the same process,
//! without sockets.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use pintle::apiserver::{ApiServer, ApiServerConfig, InProcess};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{OBJECT, RULES};
use crate::answer::Setting;
use crate::meter::{Sample, Tally, measure};

const SCHEMA: &str = include_str!("schema.json");
const WRITES: usize = 5_000;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ROUTES: &str = "/apis/bench.example.com/v1/routes";

/// Updates one field of the same object in each operation.
pub(super) fn writes(setting: &Setting, has_rules: bool) -> Sample {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("cannot start a runtime");
    let server = runtime.block_on(ApiServer::start(ApiServerConfig::default())).expect("cannot start the server");
    let mut service = server.in_process();
    let n = setting.size(WRITES);
    let mut route = runtime.block_on(async {
        call(&mut service, Method::POST, DEFINITIONS, &definition(has_rules)).await;
        server.settle().await;
        let spec: Value = serde_json::from_str(OBJECT).expect("JSON");
        let route =
            json!({"apiVersion": "bench.example.com/v1", "kind": "Route", "metadata": {"name": "a"}, "spec": spec});
        call(&mut service, Method::POST, ROUTES, &route).await
    });
    let path = format!("{ROUTES}/a");
    measure(|| {
        runtime.block_on(async {
            for number in 0..n {
                route["spec"]["replicas"] = (1 + number % 10).into();
                route = call(&mut service, Method::PUT, &path, &route).await;
            }
        });
        Tally::operations(n)
    })
}

fn definition(has_rules: bool) -> Value {
    let mut spec: Value = serde_json::from_str(SCHEMA).expect("JSON");
    if has_rules {
        spec["x-kubernetes-validations"] = RULES.lines().map(|rule| json!({"rule": rule})).collect();
    }
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "routes.bench.example.com"},
        "spec": {
            "group": "bench.example.com",
            "scope": "Cluster",
            "names": {"plural": "routes", "kind": "Route"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

async fn call(service: &mut InProcess, method: Method, path: &str, body: &Value) -> Value {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).expect("a valid request");
    let answer = service.call(request).await.expect("the server answers");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a complete body").to_bytes();
    assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).expect("JSON")
}
