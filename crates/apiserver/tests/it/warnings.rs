//! Tests that the server warns about objects that have no effect, and only about these objects.

use std::collections::BTreeSet;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

// The names in `docs/CONFORMANCE.md` of features that have no effect.
const BUILT_IN_VERSIONS: &str = "a CustomResourceDefinition's version that is built in";
const FLOW_CONTROL: &str = "FlowSchema, PriorityLevelConfiguration";
const IMPERSONATION: &str = "the verbs of a Role or ClusterRole that begin with impersonate: or impersonate-on:";

/// Creates an object. Returns the features that the response's warnings mention, as in `docs/CONFORMANCE.md`.
async fn warned(server: &ApiServer, path: &str, object: Json) -> Vec<&'static str> {
    let made = call(server, Method::POST, path, object).await;
    assert!(matches!(made.code, 200 | 201), "{path}: {:?}", made.body);
    let warnings = made.headers.get_all("warning").iter().map(|value| value.to_str().unwrap_or_default());
    let about = |text: &str| {
        let known = ApiServer::WITHOUT_EFFECT.iter().find(|(_, why)| text.contains(why)).map(|(what, _)| *what);
        assert!(known.is_some() || !text.contains("has no effect"), "not on the page: {text}");
        known
    };
    warnings.filter_map(about).collect()
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(group: &str, versions: &[&str]) -> Json {
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n > 3"}]});
    let schema = json!({"type": "object", "properties": {"spec": spec, "other": {"type": "string"}}});
    let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == versions[0], "schema": {"openAPIV3Schema": schema}});
    let versions: Json = versions.iter().map(version).collect();
    json!({
        "metadata": {"name": format!("gadgets.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": versions,
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://hook.example.com/x"}},
            },
        },
    })
}

fn gadget(name: &str, more: Json) -> Json {
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}});
    more.as_object().into_iter().flatten().for_each(|(key, value)| object[key] = value.clone());
    object
}

#[tokio::test]
async fn every_unsupported_feature_causes_a_warning_when_used() {
    let server = server().await;
    let flow = |name: &str, rules: Json| {
        let spec = json!({"priorityLevelConfiguration": {"name": "workload-low"}, "rules": rules});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let flow_rule = json!({
        "subjects": [{"kind": "Group", "group": {"name": "a"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    });
    let networking = "/apis/networking.k8s.io/v1";
    let service = json!({"resource": "services", "namespace": "default", "name": "s"});
    let limited = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}});
    let level = json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": limited}});
    let role = |name: &str, verb: &str, resource: &str| {
        let rule = json!({"apiGroups": ["", "authentication.k8s.io"], "resources": [resource], "verbs": ["get", verb]});
        json!({"metadata": {"name": name}, "rules": [rule]})
    };
    let cluster_roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";

    let mut seen = BTreeSet::new();
    for (path, object, expected) in [
        (
            format!("{networking}/servicecidrs"),
            json!({"metadata": {"name": "a"}, "spec": {"cidrs": ["10.9.0.0/24"]}}),
            Some("ServiceCIDR"),
        ),
        (
            format!("{networking}/ipaddresses"),
            json!({"metadata": {"name": "10.0.0.77"}, "spec": {"parentRef": service}}),
            Some("IPAddress"),
        ),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations".to_owned(), level, Some(FLOW_CONTROL)),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".to_owned(),
            flow("a", json!([flow_rule])),
            Some(FLOW_CONTROL),
        ),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".to_owned(), flow("b", json!([])), None),
        (
            "/api/v1/namespaces".to_owned(),
            json!({"metadata": {"name": "a", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
            None,
        ),
        (
            "/apis/apps/v1/namespaces/default/controllerrevisions".to_owned(),
            json!({"metadata": {"name": "a"}, "revision": 1, "data": {}}),
            None,
        ),
        (cluster_roles.to_owned(), role("a", "impersonate:user-info", "users"), Some(IMPERSONATION)),
        (cluster_roles.to_owned(), role("b", "impersonate-on:user-info:list", "pods"), Some(IMPERSONATION)),
        (cluster_roles.to_owned(), role("c", "impersonate", "users"), None),
        (cluster_roles.to_owned(), json!({"metadata": {"name": "d"}}), None),
        (roles.to_owned(), role("a", "impersonate:serviceaccount", "serviceaccounts"), Some(IMPERSONATION)),
        (roles.to_owned(), role("b", "*", "serviceaccounts"), None),
        (DEFINITIONS.to_owned(), definition("networking.k8s.io", &["v1"]), Some(BUILT_IN_VERSIONS)),
        (DEFINITIONS.to_owned(), definition("example.com", &["v1", "v2"]), None),
        (gadgets.to_owned(), gadget("a", json!({"spec": {"n": 5}})), None),
        (gadgets.to_owned(), gadget("b", json!({"other": "x"})), None),
    ] {
        assert_eq!(warned(&server, &path, object.clone()).await, Vec::from_iter(expected), "{path} {object}");
        seen.extend(expected);
        tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    }
    assert_eq!(seen, ApiServer::WITHOUT_EFFECT.iter().map(|(what, _)| *what).collect(), "all rows of the page");
}
