//! Tests that the work for a pod grows linearly with the lists that refer to each other.

use pintle_apimachinery::effort::is_linear;
use pintle_apimachinery::request::Subresource;
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
