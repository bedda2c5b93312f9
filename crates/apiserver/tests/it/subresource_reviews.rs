//! Tests of the objects that webhooks receive for connect requests and for POST requests that store no object.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;
use crate::webhooks::{MUTATING, VALIDATING, Webhook, patched, register};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Starts a server with a pod, a node, a service and a service account.
async fn server() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let address = json!({"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]});
    create(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}, "status": address})).await;
    let container = json!({"name": "c", "image": "x"});
    let spec = json!({"nodeName": "n", "containers": [container]});
    create(&server, PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let spec = json!({"ports": [{"port": 80}]});
    create(&server, "/api/v1/namespaces/default/services", json!({"metadata": {"name": "s"}, "spec": spec})).await;
    create(&server, ACCOUNTS, json!({"metadata": {"name": "a"}})).await;
    server
}

async fn review_all(server: &ApiServer, kind: &str, webhook: &Webhook) {
    let rule = json!({
        "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["*/*"], "operations": ["CREATE", "CONNECT"],
    });
    register(server, kind, webhook.client_config(), json!({"rules": [rule]})).await;
}

#[tokio::test]
async fn webhook_patches_the_options_of_connect_requests() {
    let pod = |rest: &str| format!("{PODS}/p/{rest}");
    let unknown = "container z is not valid for pod p";
    let refused = "error dialing backend: dial tcp 192.0.2.1:10250: connect: connection refused";
    let unreachable = "error trying to reach service: dial tcp 192.0.2.1:10250: connect: connection refused";
    let cases = [
        (pod("exec?command=ls&stdout=1"), "PodExecOptions", "/container", json!("z"), unknown),
        (pod("exec"), "PodExecOptions", "/container", json!("c"), refused),
        (pod("attach?stdout=1"), "PodAttachOptions", "/container", json!("z"), unknown),
        (pod("portforward?ports=80"), "PodPortForwardOptions", "/ports", json!([7]), refused),
        (pod("proxy/x"), "PodProxyOptions", "/path", json!("/y"), "address not allowed"),
        (
            "/api/v1/namespaces/default/services/s/proxy/x".to_owned(),
            "ServiceProxyOptions",
            "/path",
            json!("/y"),
            "services \"s\" not found",
        ),
        ("/api/v1/nodes/n/proxy/x".to_owned(), "NodeProxyOptions", "/path", json!("/y"), unreachable),
    ];
    for (path, kind, field, value, message) in cases {
        let add = json!([{"op": "add", "path": field, "value": value}, {"op": "add", "path": "/unknown", "value": 1}]);
        let mutating = Webhook::start(&["127.0.0.1"], move |_| patched(&add)).await;
        let validating = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
        let server = server().await;
        review_all(&server, MUTATING, &mutating).await;
        review_all(&server, VALIDATING, &validating).await;
        let answer = get(&server, &path).await;
        assert_eq!(answer.body.text("/message"), message, "{path}");
        let reviewed = &validating.requests()[0]["object"];
        assert_eq!((reviewed.text("/kind"), reviewed.at(field)), (kind, Some(&value)), "{path}");
        assert_eq!(reviewed.get("unknown"), None, "{path}");
    }
}

#[tokio::test]
async fn patch_with_a_wrong_type_of_option_fails() {
    let add = json!([{"op": "add", "path": "/stdin", "value": "yes"}]);
    let webhook = Webhook::start(&["127.0.0.1"], move |_| patched(&add)).await;
    let server = server().await;
    review_all(&server, MUTATING, &webhook).await;
    let answer = get(&server, &format!("{PODS}/p/exec?command=ls")).await;
    let expected =
        "Internal error occurred: json: cannot unmarshal string into Go struct field PodExecOptions.stdin of type bool";
    assert_eq!((answer.code, answer.body.text("/message")), (500, expected));
}
