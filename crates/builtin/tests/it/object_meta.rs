//! Tests of metadata validation.

use std::sync::Arc;

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::{Json, json};

use pintle_kinds::object_meta::{errors, update_errors, warnings};
use pintle_kinds::{Kind, PlainFinalizers, Strategy};

fn kind(group: &str, version: &str, plural: &str) -> Kind {
    Kind::clone(pintle_builtin::kinds().resource(group, version, plural).expect("a built-in kind"))
}

/// Formats errors as `reason field`.
fn listed(errors: &FieldErrors) -> Vec<String> {
    errors
        .clone()
        .into_iter()
        .map(|error| format!("{} {}", &error.reason.as_str()["FieldValue".len()..], error.field))
        .collect()
}

#[track_caller]
fn check_new(value: Json, expected: &[&str]) {
    let object = json!({"metadata": value});
    assert_eq!(listed(&errors(&kind("", "v1", "configmaps"), &object)), expected, "{value}");
}

#[test]
fn metadata_of_a_new_object_is_validated_once() {
    for (value, expected) in [
        (json!({"name": "a"}), vec![]),
        (json!({}), vec!["Required metadata.name"]),
        (json!({"name": "A", "generateName": "p."}), vec!["Invalid metadata.generateName", "Invalid metadata.name"]),
        (json!({"name": "a", "labels": {"k": "-"}}), vec!["Invalid metadata.labels"]),
        (json!({"name": "a", "annotations": {"k": "x".repeat(262_144)}}), vec!["TooLong metadata.annotations"]),
        (
            json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
            vec!["Invalid metadata.ownerReferences.uid"],
        ),
        (
            json!({"name": "a", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "v", "controller": true},
            ]}),
            vec!["Invalid metadata.ownerReferences"],
        ),
        (json!({"name": "a", "finalizers": ["plain"]}), vec!["Invalid metadata.finalizers[0]"]),
        (json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}), vec!["Invalid metadata.finalizers"]),
        (
            json!({"name": "a", "managedFields": [{"manager": "m".repeat(129)}]}),
            vec!["TooLong metadata.managedFields[0].manager"],
        ),
    ] {
        check_new(value, &expected);
    }
}

#[track_caller]
fn check_changed(plural: &str, new: Json, old: Json, expected: &[(usize, &str)]) {
    let (group, version) = if plural == "deployments" { ("apps", "v1") } else { ("", "v1") };
    let (after, before) = (json!({"metadata": new}), json!({"metadata": old}));
    let errors = listed(&update_errors(&kind(group, version, plural), &after, &before, Subresource::None));
    let wanted: Vec<String> = expected.iter().flat_map(|(times, error)| vec![(*error).to_owned(); *times]).collect();
    let sorted = |mut errors: Vec<String>| {
        errors.sort();
        errors
    };
    assert_eq!(sorted(errors), sorted(wanted), "{plural} {new}");
}

#[test]
fn metadata_of_an_updated_object_is_validated_several_times() {
    let old = json!({"name": "a", "uid": "u", "finalizers": ["x.io/y"]});
    let with = |key: &str, value: Json| {
        let mut new = old.clone();
        new[key] = value;
        new
    };
    let deleting = {
        let mut deleting = old.clone();
        deleting["deletionTimestamp"] = "2024-01-02T03:04:05Z".into();
        deleting
    };
    let mut more = deleting.clone();
    more["finalizers"] = json!(["x.io/y", "x.io/z"]);
    for (plural, new, old, expected) in [
        ("configmaps", old.clone(), old.clone(), vec![]),
        ("configmaps", with("uid", "v".into()), old.clone(), vec![(2, "Invalid metadata.uid")]),
        ("configmaps", with("labels", json!({"k": "-"})), old.clone(), vec![(4, "Invalid metadata.labels")]),
        ("deployments", with("labels", json!({"k": "-"})), old.clone(), vec![(3, "Invalid metadata.labels")]),
        ("services", with("labels", json!({"k": "-"})), old.clone(), vec![(3, "Invalid metadata.labels")]),
        ("nodes", with("labels", json!({"k": "-"})), old.clone(), vec![(4, "Invalid metadata.labels")]),
        (
            "persistentvolumes",
            with("finalizers", json!(["Bad!"])),
            old.clone(),
            vec![(3, "Invalid metadata.finalizers"), (2, "Invalid metadata.finalizers[0]")],
        ),
        (
            "limitranges",
            with("finalizers", json!(["Bad!"])),
            old.clone(),
            vec![(2, "Invalid metadata.finalizers"), (1, "Invalid metadata.finalizers[0]")],
        ),
        ("configmaps", with("finalizers", json!(["plain"])), old.clone(), vec![(2, "Invalid metadata.finalizers[0]")]),
        ("configmaps", more, deleting, vec![(2, "Forbidden metadata.finalizers")]),
    ] {
        check_changed(plural, new, old, &expected);
    }
}

/// A test strategy with the finalizer rule of custom resources.
struct Custom;

impl Strategy for Custom {
    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Warned
    }
}

#[test]
fn unqualified_custom_resource_finalizer_only_warns() {
    let object = json!({"metadata": {"name": "a", "finalizers": ["plain", "x.io/y"]}});
    let custom = Kind { strategy: Arc::new(Custom), ..kind("", "v1", "configmaps") };
    assert_eq!(errors(&custom, &object), FieldErrors::default());
    assert_eq!(warnings(&custom, &object, None).len(), 1);
    assert_eq!(warnings(&custom, &object, Some(&object)), Vec::<String>::new());
    assert_eq!(warnings(&kind("", "v1", "configmaps"), &object, None), Vec::<String>::new());
}
