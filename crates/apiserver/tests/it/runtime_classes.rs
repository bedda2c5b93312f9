//! Tests of the validation of RuntimeClasses, and of their effects on pods.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn server() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    for class in [
        json!({"metadata": {"name": "heavy"}, "handler": "h", "overhead": {"podFixed": {"cpu": "250m"}}}),
        json!({"metadata": {"name": "placed"}, "handler": "h", "scheduling": {
            "nodeSelector": {"a": "1"}, "tolerations": [{"key": "k", "operator": "Exists"}],
        }}),
    ] {
        assert_eq!(call(&server, Method::POST, CLASSES, class).await.code, 201);
    }
    server
}

async fn pod(server: &ApiServer, class: Json, more: Json) -> Answer {
    let mut spec = json!({"containers": [{"name": "c", "image": "x"}], "runtimeClassName": class});
    spec.as_object_mut().expect("a spec").extend(more.as_object().cloned().unwrap_or_default());
    call(server, Method::POST, &format!("{PODS}?dryRun=All"), json!({"metadata": {"name": "p"}, "spec": spec})).await
}

#[tokio::test]
async fn runtime_class_adds_overhead_node_selector_and_tolerations() {
    let server = server().await;
    for overhead in [json!({}), json!({"overhead": {"cpu": "0.25"}}), json!({"overhead": {}})] {
        let made = pod(&server, json!("heavy"), overhead).await;
        assert_eq!((made.code, &made.body["spec"]["overhead"]), (201, &json!({"cpu": "250m"})));
    }
    let own = json!({"key": "own", "operator": "Exists"});
    let made = pod(&server, json!("placed"), json!({"nodeSelector": {"b": "2"}, "tolerations": [own]})).await;
    assert_eq!(made.body["spec"]["nodeSelector"], json!({"a": "1", "b": "2"}));
    let keys = made.body["spec"]["tolerations"].as_array().into_iter().flatten().map(|toleration| &toleration["key"]);
    let expected = ["own", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "k"];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    assert_eq!(made.body["spec"]["tolerations"][3], json!({"key": "k", "operator": "Exists"}));
    let same = pod(&server, json!("placed"), json!({"nodeSelector": {"a": "1"}})).await;
    assert_eq!((same.code, &same.body["spec"]["nodeSelector"]), (201, &json!({"a": "1"})));
    assert_eq!(pod(&server, Json::Null, json!({})).await.code, 201);
}

#[tokio::test]
async fn pods_in_conflict_with_their_runtime_class_are_rejected() {
    let server = server().await;
    for (class, more, code, why) in [
        (json!("none"), json!({}), 403, "pods \"p\" is forbidden: pod rejected: RuntimeClass \"none\" not found"),
        (json!(""), json!({}), 500, "resource name may not be empty"),
        (json!("a/b"), json!({}), 500, "invalid resource name \"a/b\": [may not contain '/']"),
        (
            json!("heavy"),
            json!({"overhead": {"cpu": "1"}}),
            403,
            "pods \"p\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            Json::Null,
            json!({"overhead": {"cpu": "1"}}),
            403,
            "pods \"p\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            Json::Null,
            json!({"overhead": {"cpu": "1"}, "restartPolicy": "x"}),
            422,
            "Pod \"p\" is invalid: spec.restartPolicy: Unsupported value: \"x\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            json!("placed"),
            json!({"nodeSelector": {"a": "2"}}),
            403,
            "pods \"p\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = 1; pod.spec.nodeSelector[a] = 2",
        ),
    ] {
        let refused = pod(&server, class, more).await;
        assert_eq!((refused.code, refused.body["message"].as_str()), (code, Some(why)));
    }
}

#[tokio::test]
async fn invalid_runtime_classes_are_rejected() {
    let server = server().await;
    let class = json!({
        "metadata": {"name": "wrong"},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "-1", "coffee": "1"}},
        "scheduling": {
            "nodeSelector": {"a b": "1"},
            "tolerations": [
                {"operator": "Wrong"},
                {"key": "k", "operator": "Exists", "value": "v"},
                {"key": "k", "operator": "Gt", "value": "1"},
                {"key": "k", "tolerationSeconds": 1, "effect": "NoSchedule"},
                {"key": "k", "effect": "Sometimes", "value": "-"},
                {"key": "k", "operator": "Exists", "value": "v"},
            ],
        },
    });
    let refused = call(&server, Method::POST, CLASSES, class).await;
    assert_eq!(refused.code, 422);
    let causes = refused.body["details"]["causes"].as_array().expect("causes");
    let found: Vec<_> = causes
        .iter()
        .map(|cause| [&cause["field"], &cause["reason"]].map(|text| text.as_str().unwrap_or_default()))
        .collect();
    let at = |at: usize, member: &str| format!("scheduling.tolerations[{at}]{member}");
    let expected = [
        ("overhead.limits[coffee]".to_owned(), "FieldValueInvalid"),
        ("overhead.limits[coffee]".to_owned(), "FieldValueInvalid"),
        ("overhead.limits[cpu]".to_owned(), "FieldValueInvalid"),
        ("scheduling.nodeSelector".to_owned(), "FieldValueInvalid"),
        (at(0, ".operator"), "FieldValueInvalid"),
        (at(0, ".operator"), "FieldValueNotSupported"),
        (at(1, ".operator"), "FieldValueInvalid"),
        (at(2, ".operator"), "FieldValueNotSupported"),
        (at(3, ".effect"), "FieldValueInvalid"),
        (at(4, ".operator"), "FieldValueInvalid"),
        (at(4, ".effect"), "FieldValueNotSupported"),
        (at(5, ".operator"), "FieldValueInvalid"),
        (at(5, ""), "FieldValueDuplicate"),
    ];
    assert_eq!(found, expected.each_ref().map(|(field, reason)| [field.as_str(), *reason]));
}
