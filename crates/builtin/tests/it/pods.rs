//! Tests that the work for a pod grows linearly with the lists that refer to each other, and tests of resizes.

use pintle_apimachinery::request::Subresource;
use pintle_effort::is_linear;
use pintle_json::{Json, json};

use super::strategies::kind;

#[test]
fn distinct_huge_pages_are_defaulted_in_linear_time() {
    let pods = kind("", "v1", "pods");
    assert!(is_linear(4_000, |count| {
        let container = |at: usize| {
            let pages = format!("hugepages-{at}");
            json!({"name": format!("c{at}"), "resources": {"limits": {pages: "1"}}})
        };
        let containers: Vec<_> = (0..count).map(container).collect();
        let mut pod = json!({"spec": {"resources": {"requests": {"cpu": "1"}}, "containers": containers}});
        pods.strategy.defaults(&mut pod);
        assert_eq!(pod["spec"]["resources"]["limits"].as_object().map(|limits| limits.len()), Some(count));
    }));
}

fn status_is_linear(status: impl Fn(usize) -> Json, claims: usize) -> bool {
    let pods = kind("", "v1", "pods");
    is_linear(4_000, |count| {
        let container = |at: usize| json!({"name": format!("c{at}"), "image": "i"});
        let mut containers: Vec<_> = (0..count).map(container).collect();
        let claims: Vec<_> = (0..count * claims).map(|at| json!({"name": format!("r{at}")})).collect();
        containers[0].set("resources", json!({"claims": claims}));
        let old = json!({"metadata": {"name": "a"}, "spec": {"containers": containers}});
        let mut new = old.clone();
        new.set("status", status(count));
        pods.strategy.validate_update(&new, &old, Subresource::Status);
    })
}

#[test]
fn pod_statuses_are_validated_in_linear_time() {
    let mapping = |at: usize| json!({"containerName": format!("c{at}"), "resourceName": "a.b/c", "requestName": "r"});
    let mappings = |count| json!({"requestMappings": (0..count).map(mapping).collect::<Vec<_>>()});
    assert!(status_is_linear(|count| json!({"extendedResourceClaimStatus": mappings(count)}), 0));
    let allocated = json!([{"name": "claim:r0"}]);
    let status = |at| json!({"name": format!("c{at}"), "allocatedResourcesStatus": allocated});
    assert!(status_is_linear(|count| json!({"containerStatuses": (0..count).map(status).collect::<Vec<_>>()}), 0));
    let claims = |count| (0..count).map(|at| json!({"name": format!("claim:x{at}")})).collect::<Vec<_>>();
    let of_first = |count| json!({"containerStatuses": [{"name": "c0", "allocatedResourcesStatus": claims(count)}]});
    assert!(status_is_linear(of_first, 1));
}

fn resize_error_fields(new: &Json, old: &Json) -> Vec<String> {
    kind("", "v1", "pods").strategy.validate_update(new, old, Subresource::Resize).fields()
}

#[test]
fn resize_changes_only_cpu_and_memory() {
    // The expected errors are from kube-apiserver 1.36.1.
    let pod = |containers: Json| json!({"metadata": {"name": "a"}, "spec": {"containers": containers}, "status": {"qosClass": "Burstable"}});
    let container = |resources: Json| json!({"name": "c", "image": "i", "resources": resources});
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}});
    let old = pod(json!([container(resources.clone())]));
    for (member, value, expected) in [
        ("requests", json!({"cpu": "2", "memory": "1Gi"}), ""),
        ("limits", json!({"memory": "2Gi"}), "spec.containers[0].resources.limits"),
        ("requests", json!({"memory": "1Gi"}), "spec.containers[0].resources.requests"),
        ("requests", json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"}), "spec"),
    ] {
        let mut changed = resources.clone();
        changed.set(member, value);
        let fields = resize_error_fields(&pod(json!([container(changed)])), &old);
        let found: Vec<_> = fields.iter().filter(|field| *field == "spec" || field.contains("resources")).collect();
        assert_eq!(found, if expected.is_empty() { Vec::new() } else { vec![expected] }, "{member}: {fields:?}");
    }
    let two = pod(json!([container(json!({})), {"name": "d", "image": "i"}]));
    assert!(resize_error_fields(&two, &old).iter().any(|field| field == "spec.containers"));
}

#[test]
fn resize_does_not_rename_or_move_containers() {
    let container = |name: &str| json!({"name": name, "image": "i", "resources": {"requests": {"cpu": "1"}}});
    let pod =
        |names: [&str; 2]| json!({"spec": {"containers": names.map(container)}, "status": {"qosClass": "Burstable"}});
    let old = pod(["a", "b"]);
    for (names, is_accepted) in [(["a", "b"], true), (["a", "c"], false), (["b", "a"], false)] {
        let fields = resize_error_fields(&pod(names), &old);
        let is_moved = fields.iter().any(|field| field == "spec.containers[1].name");
        assert_eq!(!is_moved, is_accepted, "{names:?}: {fields:?}");
    }
}
