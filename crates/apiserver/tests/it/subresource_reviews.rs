//! Tests of the objects that webhooks receive for connect requests and for POST requests that store no object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;
use crate::webhooks::{MUTATING, VALIDATING, Webhook, patched, register};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

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

#[tokio::test]
async fn webhook_sees_namespace_and_empty_status_of_posted_objects() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = server().await;
    review_all(&server, MUTATING, &webhook).await;
    let local = json!({"namespace": "default", "verb": "get", "resource": "pods"});
    let resource = json!({"verb": "get", "resource": "pods"});
    let of_user = |attributes: &Json| json!({"spec": {"user": "u", "resourceAttributes": attributes}});
    let named = json!({"metadata": {"name": "p"}});
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    let access = json!({"allowed": false});
    let rules = json!({"resourceRules": null, "nonResourceRules": null, "incomplete": false});
    let token = json!({"token": "", "expirationTimestamp": null});
    let (space, none) = (json!("default"), Json::Null);
    let post = async |path: String, object: Json| call(&server, Method::POST, &path, object).await.code;
    for (path, object, code, namespace, status) in [
        (format!("{PODS}/p/eviction?dryRun=All"), named, 201, &space, &none),
        (format!("{PODS}/p/binding"), binding.clone(), 409, &space, &none),
        ("/api/v1/namespaces/default/bindings".to_owned(), binding, 409, &space, &none),
        (format!("{ACCOUNTS}/a/token"), json!({"spec": {}}), 201, &space, &token),
        (
            format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"),
            of_user(&local),
            201,
            &space,
            &access,
        ),
        (format!("{AUTHORIZATION}/subjectaccessreviews"), of_user(&resource), 201, &none, &access),
        (
            format!("{AUTHORIZATION}/selfsubjectaccessreviews"),
            json!({"spec": {"resourceAttributes": resource}}),
            201,
            &none,
            &access,
        ),
        (
            format!("{AUTHORIZATION}/selfsubjectrulesreviews"),
            json!({"spec": {"namespace": "default"}}),
            201,
            &none,
            &rules,
        ),
        (format!("{AUTHENTICATION}/tokenreviews"), json!({"spec": {"token": "x"}}), 201, &none, &json!({"user": {}})),
        (format!("{AUTHENTICATION}/selfsubjectreviews"), json!({}), 201, &none, &json!({"userInfo": {}})),
    ] {
        assert_eq!(post(path.clone(), object).await, code, "{path}");
        let requests = webhook.requests();
        let seen = &requests.last().expect("a review")["object"];
        let found = (&seen["metadata"]["namespace"], seen.get("status").unwrap_or(&Json::Null));
        assert_eq!(found, (namespace, status), "{path}");
    }
}

#[tokio::test]
async fn posted_object_of_another_namespace_is_refused_before_webhooks() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = server().await;
    review_all(&server, MUTATING, &webhook).await;
    let metadata = json!({"name": "p", "namespace": "other"});
    for (path, object) in [
        (format!("{PODS}/p/eviction"), json!({"metadata": metadata})),
        (format!("{PODS}/p/binding"), json!({"metadata": metadata, "target": {"name": "n"}})),
        (format!("{ACCOUNTS}/a/token"), json!({"metadata": {"namespace": "other"}, "spec": {}})),
    ] {
        let answer = call(&server, Method::POST, &path, object).await;
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        assert_eq!((answer.code, answer.body.text("/message")), (400, message), "{path}");
    }
    assert_eq!(webhook.requests().len(), 0);
}

/// The namespace in an object after mutating admission only matters for kinds whose validation reads the namespace.
#[tokio::test]
async fn webhook_that_moves_a_posted_object_has_limited_effect() {
    let set = json!([{"op": "add", "path": "/metadata/namespace", "value": "other"}]);
    let webhook = Webhook::start(&["127.0.0.1"], move |_| patched(&set)).await;
    let server = server().await;
    review_all(&server, MUTATING, &webhook).await;
    let attributes = json!({"namespace": "default", "verb": "get", "resource": "pods"});
    let access = json!({"spec": {"user": "u", "resourceAttributes": attributes}});
    let moved = "metadata.namespace: Invalid value: \"other\": must match the service account namespace if specified";
    let differs = "spec.resourceAttributes.namespace: Invalid value: \"default\": must match metadata.namespace";
    for (path, object, code, message) in [
        (format!("{PODS}/p/eviction?dryRun=All"), json!({"metadata": {"name": "p"}}), 201, ""),
        (format!("{ACCOUNTS}/a/token"), json!({"spec": {}}), 422, moved),
        (format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"), access.clone(), 422, differs),
        (format!("{AUTHORIZATION}/subjectaccessreviews"), access, 422, "must be empty"),
        (format!("{AUTHENTICATION}/tokenreviews"), json!({"spec": {"token": "x"}}), 201, ""),
    ] {
        let answer = call(&server, Method::POST, &path, object).await;
        assert!(answer.code == code && answer.body.text("/message").ends_with(message), "{path}: {:?}", answer.body);
    }
}

#[tokio::test]
async fn validating_webhook_sees_the_completed_token_request() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = server().await;
    review_all(&server, VALIDATING, &webhook).await;
    let request = json!({"spec": {}, "status": {"token": "x", "expirationTimestamp": null}});
    let made = create(&server, &format!("{ACCOUNTS}/a/token"), request).await;
    let seen = &webhook.requests()[0]["object"];
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        assert_eq!(seen["metadata"][field], made["metadata"][field], "{field}");
    }
    assert_eq!((&seen["spec"], seen["metadata"].text("/name")), (&made["spec"], "a"));
    assert_eq!(seen["spec"]["audiences"], json!(["https://kubernetes.default.svc"]));
    assert_eq!(seen["status"], json!({"token": "", "expirationTimestamp": null}));
}

/// The clock advances during each review, so the time of a later attempt differs.
#[tokio::test]
async fn slow_webhook_reviews_a_token_request_once() {
    let server = Arc::new(server().await);
    let (clock, calls) = (Arc::downgrade(&server), AtomicU64::new(0));
    let respond = move |_: &Json| {
        let seconds = 2 * calls.fetch_add(1, Ordering::SeqCst) + 2;
        if let Some(server) = clock.upgrade() {
            server.set_clock_ahead(Duration::from_secs(seconds));
        }
        json!({"allowed": true})
    };
    let webhook = Webhook::start(&["127.0.0.1"], respond).await;
    review_all(&server, VALIDATING, &webhook).await;
    create(&server, &format!("{ACCOUNTS}/a/token"), json!({"spec": {}})).await;
    assert_eq!(webhook.requests().len(), 1);
}

#[tokio::test]
async fn webhook_cannot_move_a_local_access_review() {
    let set = ["/metadata/namespace", "/spec/resourceAttributes/namespace"]
        .map(|path| json!({"op": "add", "path": path, "value": "other"}));
    let set: Json = set.into_iter().collect();
    let webhook = Webhook::start(&["127.0.0.1"], move |_| patched(&set)).await;
    let server = server().await;
    review_all(&server, MUTATING, &webhook).await;
    let attributes = json!({"namespace": "default", "verb": "get", "resource": "pods"});
    let path = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let review = json!({"spec": {"user": "u", "resourceAttributes": attributes}});
    let answer = call(&server, Method::POST, &path, review).await;
    let message = "spec.resourceAttributes.namespace must match namespace: default";
    assert_eq!((answer.code, answer.body.text("/message")), (400, message));
}
