//! Tests of quota usage and its changes by writes.

use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, json};
use pintle_meta::GroupResource;

use super::*;

fn quota(hard: &[(&str, &str, &str)], spec: Json) -> Json {
    let side =
        |amount: fn(&(&str, &str, &str)) -> String| -> Json { hard.iter().map(|one| (one.0, amount(one))).collect() };
    json!({
        "metadata": {"name": "q"}, "spec": spec,
        "status": {"hard": side(|one| one.1.into()), "used": side(|one| one.2.into())},
    })
}

fn charged(quota: &Json, resource: &str, object: &Json, old: Option<&Json>) -> Result<String, String> {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let resource = GroupResource::new(group, resource);
    let attempt = Attempt { resource: &resource, subresource: Subresource::None, object, old };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    check(quota, &attempt)
        .and_then(|()| charge(quota, &attempt, now))
        .map(|used| used.map_or("unchanged".into(), |used| used.text()))
}

#[test]
fn object_counts_by_its_resource_name() {
    let count = quota(&[("count/widgets.example.com", "2", "1"), ("secrets", "5", "5")], json!({}));
    let charged = |resource| charged(&count, resource, &json!({}), None);
    assert_eq!(charged("widgets.example.com"), Ok("count/widgets.example.com=2,secrets=5".into()));
    assert_eq!(charged("configmaps"), Ok("unchanged".into()));
    assert_eq!(
        charged("secrets"),
        Err("exceeded quota: q, requested: secrets=1, used: secrets=5, limited: secrets=5".into())
    );
}

#[test]
fn service_update_charges_the_difference_in_ports() {
    let quota = quota(
        &[("services", "9", "1"), ("services.nodeports", "2", "0"), ("services.loadbalancers", "1", "0")],
        json!({}),
    );
    let service = |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({"port": 1}); ports]}});
    let charged = |new: Json, old: Option<&Json>| charged(&quota, "services", &new, old);
    assert_eq!(
        charged(service("NodePort", 2), None),
        Ok("services=2,services.loadbalancers=0,services.nodeports=2".into())
    );
    assert_eq!(
        charged(service("LoadBalancer", 1), Some(&service("ClusterIP", 1))),
        Ok("services=1,services.loadbalancers=1,services.nodeports=1".into())
    );
    assert_eq!(charged(service("ClusterIP", 1), Some(&service("NodePort", 1))), Ok("unchanged".into()));
    let too_many = "exceeded quota: q, requested: services.nodeports=3, used: services.nodeports=0, limited: \
                    services.nodeports=2";
    assert_eq!(charged(service("NodePort", 3), None), Err(too_many.into()));
    let mut own = service("LoadBalancer", 2);
    own["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    assert_eq!(charged(own, None), Ok("services=2,services.loadbalancers=1,services.nodeports=0".into()));
}

#[test]
fn claim_counts_the_storage_of_its_class() {
    let quota = quota(
        &[("requests.storage", "10Gi", "1Gi"), ("gold.storageclass.storage.k8s.io/requests.storage", "2Gi", "0")],
        json!({}),
    );
    let claim =
        |class: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": "3Gi"}}}});
    assert_eq!(
        charged(&quota, "persistentvolumeclaims", &claim("iron"), None),
        Ok("gold.storageclass.storage.k8s.io/requests.storage=0,requests.storage=4Gi".into())
    );
    assert!(charged(&quota, "persistentvolumeclaims", &claim("gold"), None).is_err());
}

#[test]
fn pod_counts_its_resources_and_must_specify_them() {
    let quota = quota(
        &[
            ("pods", "2", "0"),
            ("requests.cpu", "4", "1"),
            ("limits.memory", "1Gi", "0"),
            ("requests.example.com/gpu", "1", "0"),
        ],
        json!({}),
    );
    let container = |name: &str, requests: Json, limits: Json| json!({"name": name, "resources": {"requests": requests, "limits": limits}});
    let asks = json!({"cpu": "500m", "example.com/gpu": "1"});
    let one = container("a", asks.clone(), json!({"memory": "1Gi"}));
    let pod = |containers: Json| json!({"spec": {"containers": containers, "overhead": {"cpu": "250m"}}});
    assert_eq!(
        charged(&quota, "pods", &pod(json!([one])), None),
        Ok("limits.memory=1Gi,pods=1,requests.cpu=1750m,requests.example.com/gpu=1".into())
    );
    let unspecified = container("b", json!({}), json!({}));
    let words = "failed quota: q: must specify limits.memory for: b; requests.cpu for: b";
    assert_eq!(charged(&quota, "pods", &pod(json!([one, unspecified])), None), Err(words.into()));
    let mut over = pod(json!([one]));
    over["status"] = json!({"phase": "Succeeded"});
    assert_eq!(charged(&quota, "pods", &over, None), Ok("unchanged".into()));
}

#[test]
fn quota_applies_only_if_all_scopes_match() {
    let selector = |operator: &str| {
        let requirement = json!({"scopeName": "PriorityClass", "operator": operator, "values": ["high"]});
        json!({"scopes": ["NotBestEffort"], "scopeSelector": {"matchExpressions": [requirement]}})
    };
    let pod =
        |class: &str, quality: &str| json!({"spec": {"priorityClassName": class}, "status": {"qosClass": quality}});
    for (operator, class, quality, covered) in [
        ("In", "high", "Burstable", true),
        ("In", "low", "Burstable", false),
        ("In", "high", "BestEffort", false),
        ("NotIn", "low", "Burstable", true),
        ("NotIn", "", "Burstable", true),
        ("Exists", "", "Burstable", false),
        ("DoesNotExist", "", "Burstable", true),
    ] {
        let quota = quota(&[("pods", "1", "0")], selector(operator));
        let outcome = charged(&quota, "pods", &pod(class, quality), None);
        assert_eq!(outcome, Ok(if covered { "pods=1" } else { "unchanged" }.into()), "{operator} {class} {quality}");
    }
}
