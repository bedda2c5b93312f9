//! Tests of admission webhooks that review the writes of the server's own controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, eventually};
use pintle_json::{Json, json};
use tokio::sync::Semaphore;

use crate::namespaces::{condition, create_namespace};
use crate::policies::{post, server};
use crate::support::*;
use crate::webhooks::{VALIDATING, Webhook, define_widgets, register, renamed, widgets};

/// The maximum delay before a retry, with a margin.
const LONGEST_RETRY: Duration = Duration::from_secs(65);

const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
const AGGREGATOR: &str = "system:serviceaccount:kube-system:clusterrole-aggregation-controller";

/// Starts a webhook that denies all requests until the flag is set.
async fn denying_webhook() -> (Webhook, Arc<AtomicBool>) {
    denying_webhook_with(json!({"message": "protected"})).await
}

/// Starts a webhook that denies all requests with this status until the flag is set.
async fn denying_webhook_with(status: Json) -> (Webhook, Arc<AtomicBool>) {
    let is_allowed = Arc::new(AtomicBool::new(false));
    let flag = is_allowed.clone();
    let respond = move |_: &Json| json!({"allowed": flag.load(Ordering::SeqCst), "status": status});
    (Webhook::start(&["127.0.0.1"], respond).await, is_allowed)
}

/// The statuses of denials. The reasons mean something else if the server itself returns them.
fn denials() -> [Json; 3] {
    [
        json!({"message": "protected"}),
        json!({"message": "protected", "code": 409, "reason": "Conflict"}),
        json!({"message": "protected", "code": 404, "reason": "NotFound"}),
    ]
}

/// Registers a webhook that reviews only requests of controllers.
async fn review(server: &ApiServer, webhook: &Webhook, group: &str, resources: &[&str], operation: &str) {
    let rule = json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": resources});
    let is_controller = "request.userInfo.username.startsWith('system:serviceaccount:')";
    let conditions = json!([{"name": "controller", "expression": is_controller}]);
    let extra = json!({"rules": [rule], "matchConditions": conditions, "timeoutSeconds": 30});
    register(server, VALIDATING, webhook.client_config(), extra).await;
}

/// Creates an owner and a dependent ConfigMap with a dependent of the given resource.
async fn create_owned(server: &ApiServer, owner: &str, resource: &str) {
    let made = post(server, CONFIG_MAPS, json!({"metadata": {"name": owner}})).await;
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "blockOwnerDeletion": true});
    reference.set("uid", made["metadata"]["uid"].clone());
    let dependent = json!({"metadata": {"name": format!("{owner}-dependent"), "ownerReferences": [reference]}});
    post(server, &format!("/api/v1/namespaces/default/{resource}"), dependent).await;
}

fn calls_of(webhook: &Webhook, user: &str) -> Vec<Json> {
    webhook.requests().into_iter().filter(|request| request.text("/userInfo/username") == user).collect()
}

async fn exists(server: &ApiServer, path: &str) -> bool {
    get(server, path).await.code == 200
}

#[tokio::test(start_paused = true)]
async fn webhook_keeps_dependents_from_the_garbage_collector() {
    for status in denials() {
        let (server, (webhook, is_allowed)) = (server().await, denying_webhook_with(status).await);
        create_owned(&server, "owner", "secrets").await;
        review(&server, &webhook, "", &["secrets"], "DELETE").await;
        assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/owner")).await.code, 200);
        server.settle().await;
        let dependent = "/api/v1/namespaces/default/secrets/owner-dependent";
        assert!(exists(&server, dependent).await);
        let calls = calls_of(&webhook, COLLECTOR);
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].text("/name"), "owner-dependent");
        assert_eq!(calls[0].text("/oldObject/metadata/name"), "owner-dependent");
        assert_eq!(calls[0].text("/options/propagationPolicy"), "Background");
        tokio::time::sleep(LONGEST_RETRY).await;
        let retries = calls_of(&webhook, COLLECTOR).len();
        assert!((5..=8).contains(&retries), "the delay doubles with each of {retries} calls");
        is_allowed.store(true, Ordering::SeqCst);
        tokio::time::sleep(LONGEST_RETRY).await;
        server.settle().await;
        assert!(!exists(&server, dependent).await);
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_keeps_finalizers_and_owner_references() {
    for status in denials() {
        for policy in ["Orphan", "Foreground"] {
            let (server, (webhook, is_allowed)) = (server().await, denying_webhook_with(status.clone()).await);
            create_owned(&server, "owner", "configmaps").await;
            review(&server, &webhook, "", &["configmaps"], "UPDATE").await;
            let owner = format!("{CONFIG_MAPS}/owner");
            assert_eq!(delete(&server, &format!("{owner}?propagationPolicy={policy}")).await.code, 200);
            server.settle().await;
            assert!(exists(&server, &owner).await, "{policy}");
            let calls = calls_of(&webhook, COLLECTOR);
            assert_eq!((calls.len(), calls[0].text("/operation")), (1, "UPDATE"), "{policy}");
            is_allowed.store(true, Ordering::SeqCst);
            let is_gone = async || !exists(&server, &owner).await;
            assert!(eventually(Duration::from_secs(60), is_gone).await, "{policy}");
            let dependent = get(&server, &format!("{CONFIG_MAPS}/owner-dependent")).await;
            assert_eq!(dependent.code == 200, policy == "Orphan");
            assert!(!dependent.body.has("/metadata/ownerReferences"), "{policy}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_keeps_a_deleted_namespace() {
    for status in denials() {
        let (server, (webhook, is_allowed)) = (server().await, denying_webhook_with(status).await);
        create_namespace(&server, "kept", &["configmaps", "secrets"]).await;
        post(&server, "/api/v1/namespaces/kept/configmaps", json!({"metadata": {"name": "b"}})).await;
        review(&server, &webhook, "", &["configmaps"], "DELETE").await;
        assert_eq!(delete(&server, "/api/v1/namespaces/kept").await.code, 200);
        server.settle().await;
        let message = "Failed to delete all resource types, 1 remaining: admission webhook \"maps.example.com\" denied the \
                       request: protected";
        let expected = ["True", "ContentDeletionFailed", message];
        assert_eq!(condition(&server, "kept", "NamespaceDeletionContentFailure").await, expected);
        assert!(exists(&server, "/api/v1/namespaces/kept/configmaps/a").await);
        assert!(!exists(&server, "/api/v1/namespaces/kept/secrets/a").await);
        // The first denial ends the deletion of the collection.
        assert_eq!(calls_of(&webhook, NAMESPACE_CONTROLLER).len(), 1);
        tokio::time::sleep(LONGEST_RETRY).await;
        let retries = calls_of(&webhook, NAMESPACE_CONTROLLER).len();
        assert!((5..=9).contains(&retries), "the delay doubles with each of {retries} calls");
        is_allowed.store(true, Ordering::SeqCst);
        tokio::time::sleep(LONGEST_RETRY).await;
        server.settle().await;
        assert!(!exists(&server, "/api/v1/namespaces/kept").await);
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_prevents_the_finalization_of_a_namespace() {
    let (server, (webhook, is_allowed)) = (server().await, denying_webhook().await);
    create_namespace(&server, "kept", &["configmaps"]).await;
    review(&server, &webhook, "", &["namespaces/finalize", "namespaces/status"], "UPDATE").await;
    assert_eq!(delete(&server, "/api/v1/namespaces/kept").await.code, 200);
    server.settle().await;
    assert!(exists(&server, "/api/v1/namespaces/kept").await);
    let subresources = calls_of(&webhook, NAMESPACE_CONTROLLER);
    let subresources: Vec<_> = subresources.iter().map(|request| request.text("/subResource")).collect();
    assert_eq!(subresources, ["status", "finalize"]);
    is_allowed.store(true, Ordering::SeqCst);
    let is_gone = async || !exists(&server, "/api/v1/namespaces/kept").await;
    assert!(eventually(Duration::from_secs(60), is_gone).await);
}

#[tokio::test]
async fn slow_webhook_does_not_delay_other_deletions() {
    let gate = Arc::new(Semaphore::new(0));
    let webhook = Webhook::start_with_gate(&["127.0.0.1"], gate.clone(), |_| json!({"allowed": true})).await;
    let server = server().await;
    for number in 0..30 {
        create_owned(&server, &format!("slow{number}"), "configmaps").await;
    }
    create_owned(&server, "fast", "secrets").await;
    create_namespace(&server, "slow", &["configmaps"]).await;
    create_namespace(&server, "fast", &["secrets"]).await;
    review(&server, &webhook, "", &["configmaps"], "DELETE").await;
    for number in 0..30 {
        assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/slow{number}")).await.code, 200);
    }
    assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/fast")).await.code, 200);
    for namespace in ["slow", "fast"] {
        assert_eq!(delete(&server, &format!("/api/v1/namespaces/{namespace}")).await.code, 200);
    }
    for path in ["/api/v1/namespaces/default/secrets/fast-dependent", "/api/v1/namespaces/fast"] {
        assert!(eventually(PATIENCE, async || !exists(&server, path).await).await, "{path}");
    }
    assert!(exists(&server, &format!("{CONFIG_MAPS}/slow29-dependent")).await);
    assert!(exists(&server, "/api/v1/namespaces/slow/configmaps/a").await);
    gate.add_permits(Semaphore::MAX_PERMITS / 2);
    for path in [format!("{CONFIG_MAPS}/slow29-dependent"), "/api/v1/namespaces/slow".into()] {
        assert!(eventually(PATIENCE, async || !exists(&server, &path).await).await, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_reviews_aggregated_rules() {
    for status in denials() {
        let (server, (webhook, is_allowed)) = (server().await, denying_webhook_with(status).await);
        review(&server, &webhook, "rbac.authorization.k8s.io", &["clusterroles"], "UPDATE").await;
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"of": "all"}}]});
        post(&server, roles, json!({"metadata": {"name": "all"}, "aggregationRule": selectors})).await;
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        post(&server, roles, json!({"metadata": {"name": "part", "labels": {"of": "all"}}, "rules": [rule]})).await;
        server.settle().await;
        let rules = async || get(&server, &format!("{roles}/all")).await.body.list("/rules").count();
        assert_eq!((rules().await, calls_of(&webhook, AGGREGATOR).len()), (0, 1));
        is_allowed.store(true, Ordering::SeqCst);
        assert!(eventually(Duration::from_secs(60), async || rules().await == 1).await, "the write is retried");
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_webhook_fails_the_deletion() {
    let server = server().await;
    create_namespace(&server, "kept", &["configmaps"]).await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]});
    let client = json!({"url": "https://127.0.0.1:1/"});
    register(&server, VALIDATING, client, json!({"rules": [rule]})).await;
    assert_eq!(call(&server, Method::DELETE, "/api/v1/namespaces/kept", Json::Null).await.code, 200);
    server.settle().await;
    let [status, _, message] = condition(&server, "kept", "NamespaceDeletionContentFailure").await;
    let start = "Failed to delete all resource types, 1 remaining: Internal error occurred: failed calling webhook";
    assert!(status == "True" && message.starts_with(start), "{message}");
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_denied_dependent_keep_the_delay() {
    let (server, (webhook, _)) = (server().await, denying_webhook().await);
    create_owned(&server, "owner", "secrets").await;
    review(&server, &webhook, "", &["secrets"], "DELETE").await;
    assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/owner")).await.code, 200);
    let path = "/api/v1/namespaces/default/secrets/owner-dependent";
    // The changes and the retries are at different times.
    for number in 0..LONGEST_RETRY.as_secs() {
        let change = json!({"metadata": {"labels": {"number": number.to_string()}}});
        assert_eq!(call(&server, Method::PATCH, path, change).await.code, 200);
        tokio::time::sleep(Duration::from_millis(970)).await;
    }
    let calls = calls_of(&webhook, COLLECTOR).len();
    assert!((5..=9).contains(&calls), "the delay doubles with each of {calls} calls");
}

/// The stored version of the widget is v1, and the controllers delete objects in version v2.
#[tokio::test]
async fn webhook_reviews_converted_objects_of_controllers() {
    let conversion = Webhook::start(&["127.0.0.1"], renamed).await;
    let (server, (webhook, is_allowed)) = (server().await, denying_webhook().await);
    define_widgets(&server, &conversion).await;
    let owner = post(&server, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await;
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"});
    reference.set("uid", owner["metadata"]["uid"].clone());
    let metadata = json!({"name": "w", "ownerReferences": [reference]});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 7}});
    post(&server, &widgets("v1"), widget).await;
    let rule = json!({
        "apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["widgets"],
    });
    register(&server, VALIDATING, webhook.client_config(), json!({"rules": [rule]})).await;
    assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/owner")).await.code, 200);
    server.settle().await;
    let calls = calls_of(&webhook, COLLECTOR);
    let old = &calls.first().expect("a review")["oldObject"];
    let field = if old.text("/apiVersion") == "example.com/v2" { "count" } else { "size" };
    assert_eq!(old["spec"], json!({field: 7}), "{old}");
    is_allowed.store(true, Ordering::SeqCst);
    let widget = format!("{}/w", widgets("v1"));
    assert!(
        eventually(Duration::from_secs(60), async || !exists(&server, &widget).await).await,
        "the deletion is retried"
    );
}

#[tokio::test]
async fn webhook_registered_during_a_deletion_reviews_the_rest() {
    const OBJECTS: usize = 1_000;
    let (server, (webhook, _)) = (server().await, denying_webhook().await);
    create_namespace(&server, "large", &[]).await;
    let maps = "/api/v1/namespaces/large/configmaps";
    for number in 0..OBJECTS {
        post(&server, maps, json!({"metadata": {"name": format!("map-{number}")}})).await;
    }
    assert_eq!(delete(&server, "/api/v1/namespaces/large").await.code, 200);
    let count = async || get(&server, maps).await.body.list("/items").count();
    assert!(eventually(PATIENCE, async || count().await < OBJECTS).await);
    review(&server, &webhook, "", &["configmaps"], "DELETE").await;
    server.settle().await;
    assert!(count().await > 0);
}

#[tokio::test]
async fn webhooks_review_several_dependents_at_the_same_time() {
    let gate = Arc::new(Semaphore::new(0));
    let webhook = Webhook::start_with_gate(&["127.0.0.1"], gate.clone(), |_| json!({"allowed": true})).await;
    let server = server().await;
    let owner = post(&server, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await;
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"});
    reference.set("uid", owner["metadata"]["uid"].clone());
    for number in 0..30 {
        let metadata = json!({"name": format!("secret-{number}"), "ownerReferences": [reference.clone()]});
        post(&server, "/api/v1/namespaces/default/secrets", json!({"metadata": metadata})).await;
    }
    review(&server, &webhook, "", &["secrets"], "UPDATE").await;
    let path = format!("{CONFIG_MAPS}/owner");
    assert_eq!(delete(&server, &format!("{path}?propagationPolicy=Orphan")).await.code, 200);
    assert!(eventually(PATIENCE, async || webhook.requests().len() == 20).await, "{}", webhook.requests().len());
    gate.add_permits(Semaphore::MAX_PERMITS / 2);
    assert!(eventually(PATIENCE, async || !exists(&server, &path).await).await);
    assert_eq!(webhook.requests().len(), 30);
}
