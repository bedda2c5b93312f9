//! Test kinds and helper functions that send reviews.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use pintle_meta::ObjectMeta;
use pintle_webhook::Webhooks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower_service::Service;

#[derive(pintle_crd::Resource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1")]
pub(crate) struct Website {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Spec {
    pub(crate) domain: String,
    #[serde(default)]
    pub(crate) replicas: u32,
}

pub(crate) async fn post(webhooks: &Webhooks, path: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let request = Request::post(path).body(Full::new(body.into())).unwrap();
    webhooks.clone().call(request).await.unwrap()
}

pub(crate) async fn text(response: Response<Full<Bytes>>) -> (StatusCode, String) {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) async fn ask(webhooks: &Webhooks, path: &str, review: &Value) -> Value {
    let (status, body) = text(post(webhooks, path, review.to_string()).await).await;
    assert_eq!(status, 200, "{body}");
    let mut answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["apiVersion"], review["apiVersion"]);
    assert_eq!(answer["kind"], review["kind"]);
    answer["response"].take()
}

/// Returns a review in kube-apiserver's form.
pub(crate) fn review(operation: &str, object: Value, old: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "example.com", "version": "v1", "kind": "Website"},
            "resource": {"group": "example.com", "version": "v1", "resource": "websites"},
            "requestKind": {"group": "example.com", "version": "v1", "kind": "Website"},
            "requestResource": {"group": "example.com", "version": "v1", "resource": "websites"},
            "name": "blog",
            "namespace": "team-a",
            "operation": operation,
            "userInfo": {"username": "anna", "uid": "7", "groups": ["dev"], "extra": {"scopes": ["all"]}},
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "kubectl"},
        },
    })
}

pub(crate) fn site(domain: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "blog", "namespace": "team-a", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"domain": domain, "later": {"deep": [1, 2]}},
        "extra": true,
    })
}
