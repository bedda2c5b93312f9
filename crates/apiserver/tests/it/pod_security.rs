//! Tests of Pod Security admission, which is configured by the labels of a namespace.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn server(labels: Json) -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    label(&server, labels).await;
    server
}

async fn label(server: &ApiServer, labels: Json) -> Vec<String> {
    let labels = labels.as_object().into_iter().flatten();
    let labels: pintle_json::Map =
        labels.map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.clone())).collect();
    let answer = call(server, Method::PATCH, NAMESPACE, json!({"metadata": {"labels": labels}})).await;
    assert_eq!(answer.code, 200, "{:?}", answer.body);
    warnings(&answer)
}

fn warnings(answer: &Answer) -> Vec<String> {
    let texts = answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
    let quoted = texts.filter_map(|text| text.strip_prefix("299 - \"")?.strip_suffix('"'));
    quoted.map(|text| text.replace("\\\"", "\"")).collect()
}

fn pod(name: &str, more: Json) -> Json {
    let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
    spec.as_object_mut().expect("a spec").extend(more.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn pod_that_violates_the_enforced_level_is_rejected() {
    let server = server(json!({"enforce": "baseline"})).await;
    for path in [PODS.to_owned(), format!("{PODS}?dryRun=All")] {
        let refused = call(&server, Method::POST, &path, pod("p", json!({"hostNetwork": true}))).await;
        let why =
            "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
        assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")));
        assert_eq!((&refused.body["message"], warnings(&refused)), (&json!(why), vec![]));
        assert_eq!(refused.body["details"], json!({"name": "p", "kind": "pods"}));
    }
    assert_eq!(call(&server, Method::POST, PODS, pod("p", json!({}))).await.code, 201);
    label(&server, json!({"enforce": "privileged"})).await;
    assert_eq!(call(&server, Method::POST, PODS, pod("q", json!({"hostNetwork": true}))).await.code, 201);
}

#[tokio::test]
async fn pod_that_violates_the_warn_level_gets_a_warning() {
    let server = server(json!({"warn": "restricted", "warn-version": "v1.18", "audit": "restricted"})).await;
    let made = call(&server, Method::POST, PODS, pod("p", json!({"securityContext": {"runAsNonRoot": true}}))).await;
    let why = "would violate PodSecurity \"restricted:v1.18\": allowPrivilegeEscalation != false (container \"c\" must set \
               securityContext.allowPrivilegeEscalation=false)";
    assert_eq!((made.code, warnings(&made)), (201, vec![why.to_owned()]));
}

#[tokio::test]
async fn violating_pod_templates_cause_warnings_only() {
    let server = server(json!({"enforce": "baseline"})).await;
    let labels = json!({"a": "b"});
    let bad = json!({"hostPID": true, "containers": [{"name": "c", "image": "x"}]});
    let template = |spec: &Json| json!({"metadata": {"labels": labels}, "spec": spec});
    let selecting = |spec: &Json| json!({"selector": {"matchLabels": labels}, "template": template(spec)});
    let mut once = bad.clone();
    once["restartPolicy"] = "Never".into();
    let job = json!({"template": template(&once)});
    let mut set = selecting(&bad);
    set["serviceName"] = "s".into();
    for (path, mut object) in [
        ("apis/apps/v1/namespaces/default/deployments", json!({"spec": selecting(&bad)})),
        ("apis/apps/v1/namespaces/default/replicasets", json!({"spec": selecting(&bad)})),
        ("apis/apps/v1/namespaces/default/daemonsets", json!({"spec": selecting(&bad)})),
        ("apis/apps/v1/namespaces/default/statefulsets", json!({"spec": set})),
        ("apis/batch/v1/namespaces/default/jobs", json!({"spec": job})),
        (
            "apis/batch/v1/namespaces/default/cronjobs",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}}),
        ),
        ("api/v1/namespaces/default/podtemplates", json!({"template": template(&bad)})),
        (
            "api/v1/namespaces/default/replicationcontrollers",
            json!({"spec": {"selector": labels, "template": template(&bad)}}),
        ),
    ] {
        object["metadata"] = json!({"name": "x"});
        let made = call(&server, Method::POST, &format!("/{path}"), object).await;
        let why = "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
        assert_eq!((made.code, warnings(&made)), (201, vec![why.to_owned()]), "{path}: {:?}", made.body);
    }
}

#[tokio::test]
async fn audit_annotations_have_enforced_policy_and_violations() {
    const PREFIX: &str = "pod-security.kubernetes.io";
    let server = server(json!({"enforce": "baseline", "audit": "restricted", "audit-version": "v1.18"})).await;
    let spec = json!({"containers": [{"name": "c", "image": "x"}], "securityContext": {"runAsNonRoot": true}});
    let violated = |more: &str| {
        format!(
            "would violate PodSecurity \"restricted:v1.18\": {more}allowPrivilegeEscalation != false (container \"c\" must set \
             securityContext.allowPrivilegeEscalation=false)"
        )
    };
    let annotations = |enforced: Option<&str>, violations: Option<String>| {
        let enforced = enforced.map(|text| (format!("{PREFIX}/enforce-policy"), text.to_owned()));
        let violations = violations.map(|text| (format!("{PREFIX}/audit-violations"), text));
        enforced.into_iter().chain(violations).collect::<std::collections::BTreeMap<_, _>>()
    };
    let recorded = || server.audit().records().last().expect("a record").annotations.clone();
    let made = call(&server, Method::POST, PODS, pod("p", spec.clone())).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    assert_eq!(recorded(), annotations(Some("baseline:latest"), Some(violated(""))));
    let mut host = spec.clone();
    host["hostPID"] = true.into();
    assert_eq!(call(&server, Method::POST, PODS, pod("q", host)).await.code, 403);
    assert_eq!(recorded(), annotations(Some("baseline:latest"), Some(violated("host namespaces (hostPID=true), "))));
    let template = json!({"metadata": {"name": "t"}, "template": {"spec": spec}});
    let templates = "/api/v1/namespaces/default/podtemplates";
    assert_eq!(call(&server, Method::POST, templates, template).await.code, 201);
    assert_eq!(recorded(), annotations(None, Some(violated(""))));
    label(&server, json!({"enforce": "privileged", "audit": "privileged"})).await;
    assert_eq!(recorded(), annotations(None, None));
    assert_eq!(call(&server, Method::POST, PODS, pod("r", json!({"hostPID": true}))).await.code, 201);
    assert_eq!(recorded(), annotations(Some("privileged:latest"), None));
}

#[tokio::test]
async fn pod_updates_are_checked_when_images_or_containers_change() {
    let server = server(json!({})).await;
    assert_eq!(call(&server, Method::POST, PODS, pod("p", json!({"hostIPC": true}))).await.code, 201);
    label(&server, json!({"enforce": "baseline"})).await;
    let patch =
        async |part: &str, patch: Json| call(&server, Method::PATCH, &format!("{PODS}/p{part}"), patch).await.code;
    assert_eq!(patch("", json!({"metadata": {"labels": {"a": "b"}}})).await, 200);
    assert_eq!(patch("/status", json!({"status": {"phase": "Running"}})).await, 200);
    let image = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
    assert_eq!(patch("", image("x")).await, 200);
    assert_eq!(patch("", image("y")).await, 403);
    let container = json!({"name": "e", "image": "x", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"});
    assert_eq!(patch("/ephemeralcontainers", json!({"spec": {"ephemeralContainers": [container]}})).await, 403);
}

#[tokio::test]
async fn stricter_enforce_label_warns_about_existing_pods() {
    let server = server(json!({})).await;
    for (name, more) in [
        ("c", json!({"hostPID": true})),
        ("a", json!({"hostPID": true})),
        ("b", json!({"hostPID": true})),
        ("d", json!({"hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/x"}}]})),
        ("good", json!({})),
    ] {
        assert_eq!(call(&server, Method::POST, PODS, pod(name, more)).await.code, 201);
    }
    let expected = [
        "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:v1.30\"",
        "a (and 2 other pods): host namespaces",
        "d: host namespaces, hostPath volumes",
    ];
    let stricter = json!({"enforce": "baseline", "enforce-version": "v1.30"});
    assert_eq!(label(&server, stricter.clone()).await, expected);
    assert_eq!(label(&server, stricter).await, [""; 0]);
    assert_eq!(label(&server, json!({"enforce": "privileged"})).await, [""; 0]);
}

#[tokio::test]
async fn invalid_pod_security_labels_are_rejected() {
    let server = server(json!({})).await;
    let try_label = async |name: &str, value: &str| {
        let labels = json!({"metadata": {"labels": {(format!("pod-security.kubernetes.io/{name}")): value}}});
        let answer = call(&server, Method::PATCH, NAMESPACE, labels).await;
        let cause = &answer.body["details"]["causes"][0];
        (answer.code, json!([cause["field"], cause["message"]]))
    };
    for (name, value, why) in [
        ("enforce", "strict", "Invalid value: \"strict\": must be one of privileged, baseline, restricted"),
        ("warn-version", "v1", "Invalid value: \"v1\": must be \"latest\" or \"v1.x\""),
        ("audit-version", "v1.01", "Invalid value: \"v1.01\": must be \"latest\" or \"v1.x\""),
    ] {
        let field = format!("metadata.labels[pod-security.kubernetes.io/{name}]");
        assert_eq!(try_label(name, value).await, (422, json!([field, why])));
    }
    for (name, value) in
        [("enforce", "baseline"), ("warn-version", "latest"), ("audit-version", "v1.30"), ("other", "x")]
    {
        assert_eq!(try_label(name, value).await.0, 200, "{name}: {value}");
    }
}
