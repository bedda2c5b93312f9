//! Tests of the conditions of deleted namespaces.

use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, eventually};
use pintle_json::{Json, json};

use crate::policies::{ADMISSION, post, rules, server, validating};
use crate::support::*;

/// Returns the status, the reason and the message of a namespace's condition.
pub(super) async fn condition(server: &ApiServer, namespace: &str, kind: &str) -> [String; 3] {
    let namespace = get(server, &format!("/api/v1/namespaces/{namespace}")).await.body;
    let found = namespace.list("/status/conditions").find(|condition| condition.text("/type") == kind);
    let found = found.cloned().unwrap_or_default();
    ["/status", "/reason", "/message"].map(|field| found.text(field).to_owned())
}

/// Creates a namespace with one object of each given resource of the core group.
pub(super) async fn create_namespace(server: &ApiServer, name: &str, resources: &[&str]) {
    post(server, "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    for resource in resources {
        post(server, &format!("/api/v1/namespaces/{name}/{resource}"), json!({"metadata": {"name": "a"}})).await;
    }
}

async fn protect(server: &ApiServer, resources: &[&str]) {
    let denied = json!([{"expression": "request.namespace != 'kept'", "message": "no"}]);
    validating(server, "nd", json!({"matchConstraints": rules(resources, &["DELETE"]), "validations": denied})).await;
}

const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";

#[tokio::test(start_paused = true)]
async fn denied_deletions_are_conditions_until_they_are_allowed() {
    let why = |resource: &str| {
        format!(
            "{resource} \"Unknown\" is forbidden: ValidatingAdmissionPolicy 'nd' with binding 'nd' denied request: no"
        )
    };
    let cases: [(&[&str], String); 3] = [
        (&["configmaps"], format!("1 remaining: {}", why("configmaps"))),
        (&["secrets", "configmaps"], format!("2 remaining: {}, {}", why("configmaps"), why("secrets"))),
        // Both API groups of events contain the Event.
        (&["events"], format!("2 remaining: {}, {}", why("events"), why("events.events.k8s.io"))),
    ];
    for (resources, message) in cases {
        let server = server().await;
        protect(&server, resources).await;
        create_namespace(&server, "kept", &["serviceaccounts", "configmaps", "secrets"]).await;
        let event = json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "kept"}});
        post(&server, "/api/v1/namespaces/kept/events", event).await;
        assert_eq!(delete(&server, "/api/v1/namespaces/kept").await.code, 200);
        server.settle().await;
        let message = format!("Failed to delete all resource types, {message}");
        let expected = ["True".to_owned(), "ContentDeletionFailed".into(), message];
        assert_eq!(condition(&server, "kept", CONTENT_FAILURE).await, expected);
        let [status, reason, _] = condition(&server, "kept", "NamespaceContentRemaining").await;
        assert_eq!((status.as_str(), reason.as_str()), ("False", "ContentRemoved"));
        let left =
            async |resource: &str| get(&server, &format!("/api/v1/namespaces/kept/{resource}/a")).await.code == 200;
        for resource in ["serviceaccounts", "configmaps", "secrets", "events"] {
            assert_eq!(left(resource).await, resources.contains(&resource), "{resource}");
        }
        let binding = format!("{ADMISSION}/validatingadmissionpolicybindings/nd");
        assert_eq!(delete(&server, &binding).await.code, 200);
        let is_gone = async || get(&server, "/api/v1/namespaces/kept").await.code == 404;
        assert!(eventually(Duration::from_secs(60), is_gone).await, "the deletion is retried");
    }
}

#[tokio::test(start_paused = true)]
async fn remaining_content_is_reported_next_to_a_failure() {
    let server = server().await;
    protect(&server, &["configmaps"]).await;
    create_namespace(&server, "kept", &["configmaps"]).await;
    let secret = json!({"metadata": {"name": "a", "finalizers": ["x.io/f"]}});
    post(&server, "/api/v1/namespaces/kept/secrets", secret).await;
    assert_eq!(delete(&server, "/api/v1/namespaces/kept").await.code, 200);
    server.settle().await;
    assert_eq!(condition(&server, "kept", CONTENT_FAILURE).await[0], "True");
    let [status, _, message] = condition(&server, "kept", "NamespaceContentRemaining").await;
    assert_eq!(
        (status.as_str(), &*message),
        ("True", "Some resources are remaining: secrets. has 1 resource instances")
    );
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(call(&server, Method::PATCH, "/api/v1/namespaces/kept/secrets/a", free).await.code, 200);
    let changed = async || condition(&server, "kept", "NamespaceContentRemaining").await[0] == "False";
    assert!(eventually(Duration::from_secs(60), changed).await);
    let left: Json = get(&server, "/api/v1/namespaces/kept/configmaps/a").await.body;
    assert_eq!(left.text("/metadata/name"), "a");
}
