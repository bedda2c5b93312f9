//! Tests of evictions, and of POST requests to subresources in terminating namespaces.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

#[tokio::test]
async fn eviction_respects_resource_version_preconditions() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = call(&server, Method::POST, pods, pod).await.body;
    let evict = async |version: &str| {
        let preconditions = json!({"resourceVersion": version});
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
            "deleteOptions": {"preconditions": preconditions},
        });
        call(&server, Method::POST, &format!("{pods}/p/eviction"), eviction).await.code
    };
    assert_eq!(evict("1").await, 409);
    let version = made["metadata"]["resourceVersion"].as_str().expect("a version");
    assert_eq!(evict(version).await, 201);
    assert_eq!(get(&server, &format!("{pods}/p")).await.code, 404);
}

#[tokio::test]
async fn disruption_budget_is_checked_before_the_delete_options() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let pods = "/api/v1/namespaces/default/pods";
    let labels = json!({"app": "a"});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    create(&server, pods, json!({"metadata": {"name": "p", "labels": labels}, "spec": spec})).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(call(&server, Method::PATCH, &format!("{pods}/p/status"), status).await.code, 200);
    let evict = async |options: Json| {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options,
        });
        call(&server, Method::POST, &format!("{pods}/p/eviction?dryRun=All"), eviction).await
    };
    assert_eq!(evict(json!({"propagationPolicy": "Some"})).await.code, 422);
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}});
    create(&server, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await;
    assert_eq!(evict(json!({"propagationPolicy": "Some"})).await.code, 429);
    let refused = evict(json!({"dryRun": ["Some"]})).await;
    let why = "Non-matching dry-run options in request and content: [All] and [Some]";
    assert_eq!((refused.code, refused.body.text("/message")), (500, why));
}

#[tokio::test]
async fn subresource_posts_in_a_terminating_namespace_are_rejected() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let within = "/api/v1/namespaces/n";
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "p", "finalizers": ["example.com/stay"]}, "spec": spec});
    for (path, object) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": "n"}})),
        ("/api/v1/namespaces/n/pods", pod),
        ("/api/v1/namespaces/n/serviceaccounts", json!({"metadata": {"name": "s"}})),
    ] {
        assert_eq!(call(&server, Method::POST, path, object).await.code, 201);
    }
    assert_eq!(delete(&server, within).await.code, 200);
    for (path, body) in [
        ("pods/p/eviction", json!({"metadata": {"name": "p"}})),
        ("pods/p/binding", json!({"metadata": {"name": "p"}, "target": {"name": "m"}})),
        ("serviceaccounts/s/token", json!({})),
    ] {
        let refused = call(&server, Method::POST, &format!("{within}/{path}"), body.clone()).await;
        let cause = &refused.body["details"]["causes"][0]["reason"];
        assert_eq!((refused.code, cause), (403, &json!("NamespaceTerminating")), "{path}: {:?}", refused.body);
        let missing = call(&server, Method::POST, &format!("/api/v1/namespaces/none/{path}"), body).await;
        assert_eq!((missing.code, &missing.body["details"]["kind"]), (404, &json!("namespaces")), "{path}");
    }
    let review =
        json!({"spec": {"user": "u", "resourceAttributes": {"namespace": "n", "verb": "get", "resource": "pods"}}});
    let reviews = "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews";
    assert_eq!(call(&server, Method::POST, reviews, review).await.code, 201);
}
