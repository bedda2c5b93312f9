//! Tests of field selectors for built-in and custom kinds.

use pintle_meta::{ApiResource, DynamicObject, ListOptions, ListPart, ListWatch, Scope};
use pintle_testing::{Collection, CollectionConfig};
use serde_json::{Value, json};

use crate::support::now;

fn selected(objects: &Collection<DynamicObject>, selector: &str) -> String {
    let options = ListOptions { field_selector: selector.parse().unwrap(), ..ListOptions::default() };
    let mut page = match now(objects.list(&options)) {
        Ok(page) => page,
        Err(error) => return error.to_string(),
    };
    let mut names = String::new();
    while let Some(part) = now(page.next()) {
        let ListPart::Item(pintle_meta::RawObject::Json(json)) = part.unwrap() else { continue };
        let object: Value = serde_json::from_slice(&json).unwrap();
        names.push_str(object["metadata"]["name"].as_str().unwrap());
    }
    names
}

fn of(
    api_version: &str,
    kind: &str,
    plural: &str,
    selectable: &[&str],
    objects: &[Value],
) -> Collection<DynamicObject> {
    let selectable_fields = selectable.iter().map(|&field| field.to_owned()).collect();
    let config = CollectionConfig { selectable_fields, ..CollectionConfig::default() };
    let collection = Collection::dynamic(ApiResource::new(api_version, kind, plural, Scope::Namespaced), config);
    objects.iter().for_each(|object| collection.put_raw(object.clone()));
    collection
}

#[test]
fn pods_support_the_servers_selectable_fields() {
    let pod = |name: &str, spec: Value, phase: &str| json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": {"phase": phase}});
    let pods = of(
        "v1",
        "Pod",
        "pods",
        &[],
        &[
            pod("a", json!({"nodeName": "n1"}), "Running"),
            pod("b", json!({"nodeName": "n2", "hostNetwork": true}), "Running"),
            pod("c", json!({}), "Pending"),
        ],
    );
    for (selector, expected) in [
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName=", "c"),
        ("spec.nodeName!=,status.phase=Running", "ab"),
        ("spec.hostNetwork=false", "ac"),
        ("metadata.name=b,metadata.namespace=ns", "b"),
    ] {
        assert_eq!(selected(&pods, selector), expected, "{selector}");
    }
    assert!(selected(&pods, "spec.color=red").contains("field label not supported: spec.color"));
}

#[test]
fn custom_resources_support_their_selectable_fields() {
    let shirt =
        |name: &str, color: Value| json!({"metadata": {"namespace": "ns", "name": name}, "spec": {"color": color}});
    let objects = [shirt("a", "red".into()), shirt("b", 7.into())];
    let shirts = of("example.com/v1", "Shirt", "shirts", &["spec.color"], &objects);
    assert_eq!((selected(&shirts, "spec.color=red"), selected(&shirts, "spec.color=7")), ("a".into(), "b".into()));
    assert!(selected(&shirts, "spec.nodeName=n1").contains("field label not supported"));
}
