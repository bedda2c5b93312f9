//! Tests of admission policies for Namespaces.

use http::Method;
use pintle_json::json;

use crate::policies::{ADMISSION, post, rules, server, validating};
use crate::support::*;

#[tokio::test]
async fn namespace_of_a_new_namespace_is_its_name() {
    let server = server().await;
    let constraints = rules(&["namespaces"], &["CREATE"]);
    validating(
        &server,
        "own",
        json!({"matchConstraints": constraints, "validations": [{"expression": "request.namespace == object.metadata.name"}]}),
    )
    .await;
    let made = call(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "fresh"}})).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
}

#[tokio::test]
async fn parameters_of_a_new_namespace_are_in_it() {
    let server = server().await;
    let path = |resource: &str| format!("{ADMISSION}/validatingadmission{resource}");
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConstraints": rules(&["namespaces"], &["CREATE"]),
        "validations": [{"expression": "true"}],
    });
    post(&server, &path("policies"), json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let reference = json!({"name": "limits", "parameterNotFoundAction": "Allow"});
    let binding = json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": reference});
    post(&server, &path("policybindings"), json!({"metadata": {"name": "p"}, "spec": binding})).await;
    let made = call(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "fresh"}})).await;
    assert_eq!(made.code, 201, "{:?}", made.body["message"]);
}
