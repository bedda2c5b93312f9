//! What is taken and has no effect is never silent, and what has its effect brings no such warning.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

/// Creates an object; whether the answer warns that something of it has no effect.
async fn warned(server: &ApiServer, path: &str, object: Json) -> bool {
    let made = call(server, Method::POST, path, object).await;
    assert!(matches!(made.code, 200 | 201), "{path}: {:?}", made.body);
    let warnings: Vec<_> =
        made.headers.get_all("warning").iter().map(|value| value.to_str().unwrap_or_default()).collect();
    let known = |text: &&str| ApiServer::WITHOUT_EFFECT.iter().any(|(_, why)| text.contains(why));
    warnings.iter().any(known)
}

fn webhook(group: &str) -> Json {
    let rule =
        json!({"operations": ["CREATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": ["deployments/*"]});
    json!([{
        "name": "h.example.com",
        "clientConfig": {"url": "https://hook.example.com/x"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }])
}

#[tokio::test]
async fn what_would_have_an_effect_elsewhere_is_warned_of() {
    let server = server().await;
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let rules = |group: &str| json!([{"operations": ["CREATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": ["*"]}]);
    let policy = |name: &str, group: &str| {
        let constraints = json!({"resourceRules": rules(group)});
        json!({"metadata": {"name": name}, "spec": {"matchConstraints": constraints, "validations": [{"expression": "true"}]}})
    };
    let flow = |name: &str, rules: Json| {
        let spec = json!({"priorityLevelConfiguration": {"name": "workload-low"}, "rules": rules});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let flow_rule = json!({
        "subjects": [{"kind": "Group", "group": {"name": "a"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    });
    let binding =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    for (path, object, expected) in [
        (
            format!("{admission}/validatingwebhookconfigurations"),
            json!({"metadata": {"name": "a"}, "webhooks": webhook("apps")}),
            true,
        ),
        (
            format!("{admission}/mutatingwebhookconfigurations"),
            json!({"metadata": {"name": "a"}, "webhooks": webhook("*")}),
            true,
        ),
        (
            format!("{admission}/validatingwebhookconfigurations"),
            json!({"metadata": {"name": "b"}, "webhooks": webhook("none.example.com")}),
            false,
        ),
        (
            format!("{admission}/validatingwebhookconfigurations"),
            json!({"metadata": {"name": "c"}, "webhooks": []}),
            false,
        ),
        (format!("{admission}/validatingadmissionpolicies"), policy("a", "apps"), true),
        (format!("{admission}/validatingadmissionpolicies"), policy("b", "none.example.com"), false),
        (format!("{admission}/validatingadmissionpolicies?dryRun=All"), policy("c", "apps"), false),
        (format!("{admission}/validatingadmissionpolicybindings"), binding("a"), true),
        (format!("{admission}/validatingadmissionpolicybindings"), binding("b"), false),
        (format!("{admission}/validatingadmissionpolicybindings"), binding("nosuch"), false),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".to_owned(), flow("a", json!([flow_rule])), true),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".to_owned(), flow("b", json!([])), false),
        (
            "/api/v1/namespaces".to_owned(),
            json!({"metadata": {"name": "a", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
            false,
        ),
        (
            "/apis/apps/v1/namespaces/default/controllerrevisions".to_owned(),
            json!({"metadata": {"name": "a"}, "revision": 1, "data": {}}),
            false,
        ),
    ] {
        assert_eq!(warned(&server, &path, object.clone()).await, expected, "{path} {object}");
    }
}

#[tokio::test]
async fn who_writes_what_a_rule_is_about_is_warned_that_nobody_looks() {
    let server = server().await;
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n > 3"}]});
    let schema = json!({"type": "object", "properties": {"spec": spec, "other": {"type": "string"}}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://hook.example.com/x"}},
            },
        },
    });
    assert!(warned(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    let gadget = |name: &str, more: Json| {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}});
        more.as_object().into_iter().flatten().for_each(|(key, value)| object[key] = value.clone());
        object
    };
    assert!(warned(&server, gadgets, gadget("a", json!({"spec": {"n": 1}}))).await);
    assert!(!warned(&server, gadgets, gadget("b", json!({"other": "x"}))).await);
}
