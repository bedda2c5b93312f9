//! Tests of the built-in kinds' discovery documents.

use pintle_json::{Json, json};
use pintle_kinds::compare_versions;

use super::legacy::group_list;
use super::{aggregated, etag, group, resource_list};

#[track_caller]
fn check_resource(group: &str, version: &str, name: &str, expected: Json) {
    let list = resource_list(&pintle_builtin::kinds(), group, version).expect("a known version");
    let found = list.list("/resources").find(|resource| resource["name"] == name);
    assert_eq!(found, Some(&expected), "{group}/{version} {name}");
}

#[test]
fn resource_list_has_names_verbs_and_storage_version_hash() {
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    for (group, version, name, expected) in [
        (
            "",
            "v1",
            "configmaps",
            json!({"name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap", "verbs": all,
                   "shortNames": ["cm"], "storageVersionHash": "qFsyl6wFWjQ="}),
        ),
        (
            "autoscaling",
            "v1",
            "horizontalpodautoscalers",
            json!({"name": "horizontalpodautoscalers", "singularName": "horizontalpodautoscaler", "namespaced": true,
                   "kind": "HorizontalPodAutoscaler", "verbs": all, "shortNames": ["hpa"], "categories": ["all"],
                   "storageVersionHash": "qwQve8ut294="}),
        ),
        (
            "",
            "v1",
            "pods/eviction",
            json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
                   "kind": "Eviction", "verbs": ["create"]}),
        ),
        (
            "",
            "v1",
            "pods/binding",
            json!({"name": "pods/binding", "singularName": "", "namespaced": true, "kind": "Binding", "verbs": ["create"]}),
        ),
        (
            "",
            "v1",
            "namespaces/finalize",
            json!({"name": "namespaces/finalize", "singularName": "", "namespaced": false, "kind": "Namespace", "verbs": ["update"]}),
        ),
    ] {
        check_resource(group, version, name, expected);
    }
}

#[test]
fn only_the_core_resource_list_has_no_api_version() {
    let kinds = pintle_builtin::kinds();
    assert_eq!(resource_list(&kinds, "", "v1").expect("core").get("apiVersion"), None);
    assert_eq!(resource_list(&kinds, "apps", "v1").expect("apps")["apiVersion"], "v1");
    assert_eq!(resource_list(&kinds, "apps", "v9"), None);
}

#[test]
fn groups_have_kube_apiserver_order_and_a_preferred_version() {
    let kinds = pintle_builtin::kinds();
    let groups = group_list(&kinds);
    let names: Vec<_> = groups.list("/groups").filter_map(|group| group["name"].as_str()).collect();
    assert_eq!(&names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    let autoscaling = group(&kinds, "autoscaling").expect("a known group");
    assert_eq!(autoscaling["preferredVersion"]["version"], "v2");
    assert_eq!(group(&kinds, ""), None);
}

#[test]
fn aggregated_discovery_omits_versions_of_built_in_kinds() {
    let core = aggregated(&pintle_builtin::kinds(), true);
    assert_eq!(core["items"][0]["metadata"], json!({}));
    let resources = core["items"][0]["versions"][0]["resources"].as_array().expect("resources");
    let pods = resources.iter().find(|resource| resource["resource"] == "pods").expect("pods");
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
    let eviction =
        pods["subresources"].as_array().and_then(|all| all.iter().find(|sub| sub["subresource"] == "eviction"));
    assert_eq!(
        eviction.expect("eviction")["responseKind"],
        json!({"group": "policy", "version": "v1", "kind": "Eviction"})
    );
}

#[test]
fn versions_are_ordered_by_stability_then_number_then_name() {
    let mut versions =
        vec!["v1alpha1", "foo1", "v10", "v1beta1", "v11alpha2", "v2", "v1", "v2beta1", "v1beta10", "foo10", "v01"];
    versions.sort_by(|a, b| compare_versions(a, b));
    assert_eq!(
        versions,
        ["v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta1", "v11alpha2", "v1alpha1", "foo1", "foo10", "v01"]
    );
}

#[test]
fn etag_is_an_upper_case_sha_512() {
    assert_eq!(&etag(b"")[..16], "CF83E1357EEFB8BD");
    assert_eq!(etag(b"x").len(), 128);
}
