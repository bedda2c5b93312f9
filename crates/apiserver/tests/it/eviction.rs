//! Evictions.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;

use crate::support::*;

#[tokio::test]
async fn an_eviction_may_ask_for_the_version_of_the_pod() {
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
