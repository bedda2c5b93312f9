//! Tests of the defaults, rounding and generated fields of built-in kinds.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

fn named(spec: Json) -> Json {
    json!({"metadata": {"name": "a"}, "spec": spec})
}

fn pod_template(resources: Json) -> Json {
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": containers}})
}

#[tokio::test]
async fn resource_lists_are_rounded_up_to_milli_units() {
    let server = server().await;
    let in_default = |group: &str, plural: &str| format!("/{group}/namespaces/default/{plural}");
    let limits = json!({"limits": {"cpu": "1500u"}});
    let storage = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500u"}}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let template = pod_template(limits.clone());
    for (collection, spec, rounded) in [
        (in_default("api/v1", "pods"), template["spec"].clone(), "/spec/containers/0/resources/limits/cpu"),
        (
            in_default("apis/apps/v1", "deployments"),
            json!({"selector": selector, "template": template}),
            "/spec/template/spec/containers/0/resources/limits/cpu",
        ),
        (
            in_default("api/v1", "limitranges"),
            json!({"limits": [{"type": "Container", "max": {"cpu": "1500u"}}]}),
            "/spec/limits/0/max/cpu",
        ),
        (in_default("api/v1", "resourcequotas"), json!({"hard": {"cpu": "1500u"}}), "/spec/hard/cpu"),
        (in_default("api/v1", "persistentvolumeclaims"), storage.clone(), "/spec/resources/requests/storage"),
        (
            in_default("apis/apps/v1", "statefulsets"),
            json!({
                "selector": selector, "template": template, "serviceName": "x",
                "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": storage}],
            }),
            "/spec/volumeClaimTemplates/0/spec/resources/requests/storage",
        ),
        (
            "/api/v1/persistentvolumes".into(),
            json!({"capacity": {"storage": "1500u"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}),
            "/spec/capacity/storage",
        ),
    ] {
        let made = create(&server, &collection, named(spec)).await;
        assert_eq!(made.text(rounded), "2m", "{collection}");
    }
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1500u"}}});
    assert_eq!(create(&server, "/api/v1/nodes", node).await.text("/status/capacity/cpu"), "2m");
    // Quantities are rounded only in resource lists.
    let class = json!({"metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1500u"}}});
    let made = create(&server, "/apis/node.k8s.io/v1/runtimeclasses", class).await;
    assert_eq!(made.text("/overhead/podFixed/cpu"), "1500u");
}

#[tokio::test]
async fn device_requests_default_to_exactly_one() {
    let server = server().await;
    let exactly = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}});
    let first = json!({"name": "any", "firstAvailable": [{"name": "x", "deviceClassName": "gpu.example.com"}]});
    let spec = json!({"devices": {"requests": [exactly, first]}});
    let all = "/apis/resource.k8s.io/v1/namespaces/default";
    let template = create(&server, &format!("{all}/resourceclaimtemplates"), named(json!({"spec": spec}))).await;
    let claim = create(&server, &format!("{all}/resourceclaims"), named(spec)).await;
    for requests in [&template["spec"]["spec"]["devices"]["requests"], &claim["spec"]["devices"]["requests"]] {
        for request in [&requests[0]["exactly"], &requests[1]["firstAvailable"][0]] {
            assert_eq!((request.text("/allocationMode"), request.integer("/count")), ("ExactCount", Some(1)));
        }
    }
}

#[tokio::test]
async fn stateful_set_with_an_explicit_strategy_gets_no_partition() {
    let server = server().await;
    let spec = |strategy: Json| {
        let selector = json!({"matchLabels": {"a": "b"}});
        let template = pod_template(json!({}));
        json!({"selector": selector, "template": template, "serviceName": "x", "updateStrategy": strategy})
    };
    for (name, sent, stored) in [
        ("a", json!({"type": "RollingUpdate"}), json!({"type": "RollingUpdate"})),
        ("b", json!({}), json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
        (
            "c",
            json!({"type": "RollingUpdate", "rollingUpdate": {}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ),
    ] {
        let set = json!({"metadata": {"name": name}, "spec": spec(sent)});
        let made = create(&server, "/apis/apps/v1/namespaces/default/statefulsets", set).await;
        assert_eq!(made["spec"]["updateStrategy"], stored, "{name}");
    }
}

#[tokio::test]
async fn job_labels_default_to_those_of_its_template() {
    let server = server().await;
    let job = |name: &str, labels: Json| {
        let template = json!({
            "metadata": {"labels": {"app": "mine"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        });
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"template": template}})
    };
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let own = create(&server, jobs, job("a", json!({"app": "mine"}))).await;
    assert_eq!(own["metadata"]["labels"], json!({"app": "mine"}));
    let borrowed = create(&server, jobs, job("b", json!({}))).await;
    assert_eq!(borrowed["metadata"]["labels"], borrowed["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(borrowed["metadata"]["labels"]["job-name"], "b");
}

#[tokio::test]
async fn conversion_webhook_port_defaults_to_443() {
    let server = server().await;
    let client = json!({"service": {"namespace": "default", "name": "hooks"}});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "ports.probe.io"},
        "spec": {
            "group": "probe.io", "scope": "Namespaced", "names": {"plural": "ports", "kind": "Port"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let made = create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.integer("/spec/conversion/webhook/clientConfig/service/port"), Some(443));
}

#[tokio::test]
async fn priority_level_gets_default_shares_and_queues() {
    let server = server().await;
    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let queued = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}});
    let made = create(&server, levels, named(queued)).await;
    let queuing = json!({"handSize": 8, "queues": 64, "queueLengthLimit": 50});
    let limited = json!({
        "nominalConcurrencyShares": 30, "lendablePercent": 0, "limitResponse": {"type": "Queue", "queuing": queuing},
    });
    assert_eq!(made["spec"]["limited"], limited);
}

#[tokio::test]
async fn flow_schema_condition_follows_its_priority_level() {
    let server = server().await;
    let all = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let schema = json!({"metadata": {"name": "f"}, "spec": {"priorityLevelConfiguration": {"name": "late"}}});
    create(&server, &format!("{all}/flowschemas"), schema).await;
    let condition = async || {
        server.settle().await;
        let schema = get(&server, &format!("{all}/flowschemas/f")).await.body;
        let condition = schema["status"]["conditions"][0].clone();
        let fields: Vec<_> =
            ["type", "status", "reason"].map(|field| condition.text(&format!("/{field}")).to_owned()).into();
        (fields, schema)
    };
    let (fields, schema) = condition().await;
    assert_eq!(fields, ["Dangling", "True", "NotFound"]);
    let owner = schema.list("/metadata/managedFields").find(|entry| entry["subresource"] == "status").cloned();
    let owner = owner.expect("a manager owns the status");
    assert_eq!(
        (owner.text("/operation"), owner.text("/manager")),
        ("Apply", "api-priority-and-fairness-config-consumer-v1")
    );
    let level = json!({"metadata": {"name": "late"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}});
    create(&server, &format!("{all}/prioritylevelconfigurations"), level).await;
    assert_eq!(condition().await.0, ["Dangling", "False", "Found"]);
    delete(&server, &format!("{all}/prioritylevelconfigurations/late")).await;
    assert_eq!(condition().await.0, ["Dangling", "True", "NotFound"]);
}

#[tokio::test]
async fn empty_lists_are_not_defaulted() {
    let server = server().await;
    let limits = create(&server, "/api/v1/namespaces/default/limitranges", named(json!({"limits": []}))).await;
    assert_eq!(limits["spec"], json!({"limits": null}));
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
    let behavior = json!({"scaleUp": {"policies": []}});
    let autoscaler = named(json!({"maxReplicas": 1, "scaleTargetRef": target, "behavior": behavior}));
    let refused = call(&server, Method::POST, autoscalers, autoscaler).await;
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!((refused.code, &cause["field"]), (422, &json!("spec.behavior.scaleUp.policies")), "{:?}", refused.body);
}
