//! Tests of the owners of fields after updates and applies.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod mismatch;

use std::sync::Arc;

use pintle_fieldmanager::*;
use pintle_json::{Json, json};
use pintle_schema::Schema;

const RESET: &[&[&str]] = &[&["status"]];

fn context<'a>(schema: &'a Schema, version: &'a str, manager: &'a str) -> WriteContext<'a> {
    WriteContext {
        manager,
        api_version: version,
        subresource: "",
        now: "2024-01-01T00:00:00Z",
        schema,
        reset: RESET,
        served: &[],
        schemas: None,
        conversion: None,
    }
}

fn config_map(data: Json) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn owners(object: &Json) -> Vec<(String, Json)> {
    let entries = object.at("/metadata/managedFields").and_then(Json::as_array).cloned().unwrap_or_default();
    let mut all: Vec<_> = entries
        .iter()
        .map(|entry| (entry["manager"].as_str().unwrap().to_owned(), entry["fieldsV1"].clone()))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn creator_owns_its_fields_and_each_new_map() {
    let schema = Schema::builtin("apps/v1", "Deployment").unwrap();
    let sent = json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"replicas": 2, "selector": {"matchLabels": {"x": "y"}},
        "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}}});
    let mut new = schema.normalised(sent);
    track_update(None, &mut new, &context(&schema, "apps/v1", "u1"));
    assert_eq!(
        new["metadata"]["managedFields"],
        json!([{"manager": "u1", "operation": "Update", "apiVersion": "apps/v1", "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {},
                        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                            {".": {}, "f:containerPort": {}, "f:protocol": {}}}}}}}}}}])
    );
}

#[test]
fn update_takes_changed_fields_from_others() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let mut one = config_map(json!({"a": "1", "b": "1"}));
    track_update(None, &mut one, &context(&schema, "v1", "u1"));
    let mut two = config_map(json!({"a": "2", "c": "1"}));
    track_update(Some(&one), &mut two, &WriteContext { now: "2024-01-02T00:00:00Z", ..context(&schema, "v1", "u2") });
    assert_eq!(
        owners(&two),
        [("u1".into(), json!({"f:data": {}})), ("u2".into(), json!({"f:data": {"f:a": {}, "f:c": {}}}))]
    );
    assert_eq!(two.at("/metadata/managedFields/0/time"), Some(&json!("2024-01-01T00:00:00Z")));
    assert_eq!(two.at("/metadata/managedFields/1/time"), Some(&json!("2024-01-02T00:00:00Z")));
}

#[test]
fn created_object_keeps_the_entries_that_it_contains() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let entry = json!({"manager": "other", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}, "f:gone": {}}}});
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "managedFields": [entry]}, "data": {"k": "v"}});
    track_update(None, &mut object, &context(&schema, "v1", "u1"));
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let found: Vec<_> = entries.iter().map(|entry| (entry["manager"].as_str().unwrap(), &entry["fieldsV1"])).collect();
    let own = json!({"f:data": {".": {}, "f:k": {}}});
    assert_eq!(found, [("other", &json!({"f:data": {"f:gone": {}}})), ("u1", &own)]);
}

#[test]
fn item_without_its_key_clears_all_entries() {
    let schema = Schema::builtin("v1", "ServiceAccount").unwrap();
    let account = |secret: Json| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [secret]});
    let mut good = account(json!({"name": "s"}));
    track_update(None, &mut good, &context(&schema, "v1", "u1"));
    assert_eq!(good["metadata"]["managedFields"][0]["manager"], "u1");
    let mut bad = account(json!({"kind": "Secret"}));
    track_update(None, &mut bad, &context(&schema, "v1", "u1"));
    assert_eq!(bad["metadata"]["managedFields"], Json::Null);
    let mut bad = account(json!({"kind": "Secret"}));
    track_update(Some(&good), &mut bad, &context(&schema, "v1", "u1"));
    assert_eq!(bad["metadata"]["managedFields"], Json::Null);
}

#[test]
fn untracked_object_stays_untracked() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let mut one = bare.clone();
    track_update(None, &mut one, &context(&schema, "v1", "u1"));
    assert_eq!(one, bare);
    let mut two = config_map(json!({"a": "1"}));
    track_update(Some(&one), &mut two, &context(&schema, "v1", "u1"));
    assert_eq!(owners(&two), []);
    let applied = apply(Some(&two), &config_map(json!({"a": "2"})), false, &context(&schema, "v1", "m1"));
    let Err(ApplyError::Conflicts(conflicts)) = applied else { panic!("{applied:?}") };
    assert_eq!(
        conflicts.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
}

#[test]
fn client_can_clear_entries_except_through_a_subresource() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let mut one = config_map(json!({"a": "1"}));
    track_update(None, &mut one, &context(&schema, "v1", "u1"));
    for (sent, subresource, kept) in [
        (json!([]), "", false),
        (json!([{}]), "", false),
        (json!([{}]), "status", true),
        (json!([{"operation": "x"}]), "", true),
    ] {
        let mut two = one.clone();
        two["metadata"]["managedFields"] = sent.clone();
        track_update(Some(&one), &mut two, &WriteContext { subresource, ..context(&schema, "v1", "u1") });
        assert_eq!(!owners(&two).is_empty(), kept, "{sent} {subresource}");
    }
}

#[test]
fn eleventh_updater_folds_the_oldest() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let mut object = config_map(json!({"k0": "1"}));
    track_update(None, &mut object, &context(&schema, "v1", "u00"));
    for at in 1..12 {
        let old = object.clone();
        object["data"][format!("k{at}")] = "1".into();
        track_update(Some(&old), &mut object, &context(&schema, "v1", &format!("u{at:02}")));
    }
    let owners = owners(&object);
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], ("ancient-changes".into(), json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}})));
}

#[test]
fn conflicts_list_applied_fields_before_updated_fields() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let by = |manager| context(&schema, "v1", manager);
    let one = apply(None, &config_map(json!({"k": "1"})), false, &by("m1")).unwrap().object;
    let mut two = one.clone();
    two["data"]["j"] = "1".into();
    track_update(Some(&one), &mut two, &by("m1"));
    let error = apply(Some(&two), &config_map(json!({"j": "2", "k": "2"})), false, &by("m2")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.k\nconflicts with \"m1\" using v1:\n- .data.j"
    );
}

#[test]
fn appliers_share_conflict_force_and_drop_fields() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let by = |manager| context(&schema, "v1", manager);
    let one = apply(None, &config_map(json!({"k": "1", "j": "1"})), false, &by("m1")).unwrap().object;
    assert_eq!(owners(&one), [("m1".into(), json!({"f:data": {"f:j": {}, "f:k": {}}}))]);
    let same = apply(Some(&one), &config_map(json!({"k": "1", "j": "1"})), false, &by("m1")).unwrap();
    assert!(!same.changed);
    assert_eq!(same.object, one);
    let error = apply(Some(&one), &config_map(json!({"k": "2"})), false, &by("m2")).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"m1\": .data.k");
    let shared = apply(Some(&one), &config_map(json!({"k": "1"})), false, &by("m2")).unwrap();
    assert!(!shared.changed);
    assert_eq!(owners(&shared.object)[1], ("m2".into(), json!({"f:data": {"f:k": {}}})));
    let dropped = apply(Some(&shared.object), &config_map(json!({})), false, &by("m1")).unwrap().object;
    assert_eq!(dropped["data"], json!({"k": "1"}));
    let forced = apply(Some(&one), &config_map(json!({"k": "2"})), true, &by("m2")).unwrap().object;
    assert_eq!(
        owners(&forced),
        [("m1".into(), json!({"f:data": {"f:j": {}}})), ("m2".into(), json!({"f:data": {"f:k": {}}}))]
    );
}

#[test]
fn applying_an_undeclared_field_is_an_error() {
    let schema = Schema::builtin("apps/v1", "Deployment").unwrap();
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"foo": 1}});
    let error = apply(None, &applied, true, &context(&schema, "apps/v1", "m1")).unwrap_err();
    let message =
        "failed to create typed patch object (/a; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema";
    assert_eq!(error, ApplyError::Typed(message.into()));
}

#[test]
fn managed_fields_cannot_be_applied() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let error = |fields: Json| {
        let mut applied = config_map(json!({"k": "v"}));
        applied["metadata"]["managedFields"] = fields;
        apply(None, &applied, true, &context(&schema, "v1", "m1")).unwrap_err()
    };
    for entries in [json!([]), json!([{}]), json!([{"manager": "m", "time": null}]), json!([{"unknown": 1}])] {
        assert_eq!(error(entries), ApplyError::BadRequest("metadata.managedFields must be nil".into()));
    }
    for (fields, message) in [
        (json!("x"), ": expected list, got &{x}"),
        (json!({"a": 1}), ": expected list, got &{map[a:1]}"),
        (json!([1]), "[0]: expected map, got &{1}"),
        (json!([{"manager": 1}]), "[0].manager: expected string, got &value.valueUnstructured{Value:1}"),
    ] {
        let ApplyError::Typed(why) = error(fields.clone()) else { panic!("{fields}") };
        assert!(why.ends_with(&format!("): .metadata.managedFields{message}")), "{why}");
    }
}

#[test]
fn merged_list_keeps_live_order_unless_applied_order_differs() {
    let schema = Schema::builtin("v1", "Pod").unwrap();
    let pod = |names: &[&str]| {
        let containers: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}})
    };
    let live = apply(None, &pod(&["a", "b", "c"]), false, &context(&schema, "v1", "m1")).unwrap().object;
    for (manager, applied, merged) in
        [("m2", ["x", "b", "y"], &["a", "x", "b", "c", "y"][..]), ("m1", ["c", "b", "a"], &["c", "b", "a"])]
    {
        let object = apply(Some(&live), &pod(&applied), false, &context(&schema, "v1", manager)).unwrap().object;
        let names: Vec<_> = object["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, merged);
    }
}

mod laws {
    use proptest::prelude::*;

    use super::*;

    fn data() -> impl Strategy<Value = Json> {
        proptest::collection::btree_map("[a-d]", "[xy]", 0..4).prop_map(|map| json!(map))
    }

    fn managers_of(object: &Json) -> Vec<Set> {
        owners(object).iter().map(|(_, fields)| Set::from_fields(fields).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn updaters_own_disjoint_existing_paths(
            writes in proptest::collection::vec((data(), 0..4_u8), 1..8),
        ) {
            let schema = Schema::builtin("v1", "ConfigMap").unwrap();
            let mut live: Option<Json> = None;
            for (data, manager) in writes {
                let mut new = schema.normalised(config_map(data));
                track_update(live.as_ref(), &mut new, &context(&schema, "v1", &format!("u{manager}")));
                let sets = managers_of(&new);
                for (at, one) in sets.iter().enumerate() {
                    for other in &sets[at + 1..] {
                        prop_assert!(one.intersection(other).is_empty());
                    }
                    for path in one.paths(&mut { usize::MAX }) {
                        let pointer: String = path.iter().map(|step| match step {
                            PathElement::Field(name) => format!("/{name}"),
                            other => panic!("{other:?}"),
                        }).collect();
                        prop_assert!(new.at(&pointer).is_some(), "{}", pointer);
                    }
                }
                live = Some(new);
            }
        }

        #[test]
        fn second_apply_changes_nothing(first in data(), second in data()) {
            let schema = Schema::builtin("v1", "ConfigMap").unwrap();
            let one = apply(None, &config_map(first), false, &context(&schema, "v1", "m1")).unwrap().object;
            let two = apply(Some(&one), &config_map(second.clone()), true, &context(&schema, "v1", "m2")).unwrap().object;
            let again = apply(Some(&two), &config_map(second), false, &context(&schema, "v1", "m2")).unwrap();
            prop_assert!(!again.changed);
            prop_assert_eq!(again.object, two);
        }

        #[test]
        fn field_set_round_trips(paths in proptest::collection::vec(proptest::collection::vec("[a-c]", 1..4), 0..8)) {
            let mut set = Set::default();
            for path in paths {
                set.insert(&path.into_iter().map(|name| PathElement::Field(name.into())).collect::<Vec<_>>());
            }
            prop_assert_eq!(Set::from_fields(&set.to_fields()), Some(set));
        }
    }
}

#[test]
fn version_with_other_field_names_tracks_its_own_fields() {
    #[derive(Debug)]
    struct Autoscaler;
    impl pintle_fieldmanager::Conversion for Autoscaler {
        fn convert(&self, object: &Json, from: &str, to: &str) -> Result<Option<Json>, String> {
            let (old, new) = match (from, to) {
                ("autoscaling/v1", "autoscaling/v2") => ("targetCPUUtilizationPercentage", "minReplicas"),
                ("autoscaling/v2", "autoscaling/v1") => ("minReplicas", "targetCPUUtilizationPercentage"),
                _ => return Ok(None),
            };
            let mut object = object.clone();
            if let Some(spec) = object.get_mut("spec").and_then(Json::as_object_mut)
                && let Some(value) = spec.remove(old)
            {
                spec.insert(new, value);
            }
            Ok(Some(object))
        }
    }
    let schema = |version| Schema::builtin(version, "HorizontalPodAutoscaler").unwrap();
    let (old_schema, new_schema) = (schema("autoscaling/v1"), schema("autoscaling/v2"));
    let object = |version: &str, field: &str, value: i64| json!({"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {}, "spec": {"maxReplicas": 9, field: value}});
    let with =
        |schema, version, manager| WriteContext { conversion: Some(&Autoscaler), ..context(schema, version, manager) };
    let mut first = object("autoscaling/v1", "targetCPUUtilizationPercentage", 1);
    track_update(None, &mut first, &with(&old_schema, "autoscaling/v1", "u1"));
    let mut live = pintle_fieldmanager::Conversion::convert(&Autoscaler, &first, "autoscaling/v1", "autoscaling/v2")
        .unwrap()
        .unwrap();
    live["metadata"] = first["metadata"].clone();
    let applied = object("autoscaling/v2", "minReplicas", 2);
    let conflict = apply(Some(&live), &applied, false, &with(&new_schema, "autoscaling/v2", "m1")).unwrap_err();
    let words = "Apply failed with 1 conflict: conflict with \"u1\" using autoscaling/v1: \
                 .spec.targetCPUUtilizationPercentage";
    assert_eq!(conflict.to_string(), words);
    let done = apply(Some(&live), &applied, true, &with(&new_schema, "autoscaling/v2", "m1")).unwrap();
    let expected = [
        ("m1".to_owned(), json!({"f:spec": {"f:maxReplicas": {}, "f:minReplicas": {}}})),
        ("u1".to_owned(), json!({"f:spec": {"f:maxReplicas": {}}})),
    ];
    assert_eq!(owners(&done.object), expected);
}

#[test]
fn kubectl_takes_over_only_its_own_fields() {
    let schema = Schema::builtin("v1", "ConfigMap").unwrap();
    let by = |manager| context(&schema, "v1", manager);
    // Use paths that exceed the size limit for the conflicts in one error, and that sort before the path of the other
    // manager.
    let own =
        |value: &str| (0..6).map(|at| (format!("{at}{}", "k".repeat(1 << 20)), value)).collect::<pintle_json::Map>();
    let mut sent = config_map(own("1").into());
    sent["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": sent.to_string()});
    track_update(None, &mut sent, &by("a"));
    let mut live = sent.clone();
    live["data"]["z"] = "1".into();
    track_update(Some(&sent), &mut live, &by("b"));
    let applied = |z: &str| {
        let mut data = own("2");
        data.insert("z", z.into());
        config_map(data.into())
    };
    let error = apply(Some(&live), &applied("2"), false, &by("kubectl")).unwrap_err();
    assert!(error.to_string().starts_with("Apply failed with 1 conflict: conflict with \"b\" using v1: .data.z"));
    let done = apply(Some(&live), &applied("1"), false, &by("kubectl")).unwrap();
    assert_eq!(done.object.at("/data"), applied("1").at("/data"));
}

/// Creates a schema with a list whose items have many key fields. All key fields but one have a long default value.
fn many_keys() -> Schema {
    let keys: Vec<_> = (0..100).map(|at| format!("k{at}")).collect();
    let long = |name: &String| (name.clone(), json!({"type": "string", "default": "x".repeat(1_000)}));
    let mut properties: pintle_json::Map = keys.iter().map(long).collect();
    properties.insert("k0", json!({"type": "integer"}));
    let list = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "properties": properties},
    });
    Schema::custom("Widget", &json!({"type": "object", "properties": {"l": list}}))
}

fn widget(items: usize) -> Json {
    let items: Vec<_> = (0..items).map(|at| json!({"k0": at})).collect();
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "l": items})
}

#[test]
fn items_with_too_many_key_defaults_have_no_owner() {
    let schema = many_keys();
    let ctx = context(&schema, "example.com/v1", "m");
    for (items, owned) in [(10, 1), (1_000, 0)] {
        let mut new = widget(items);
        track_update(None, &mut new, &ctx);
        assert_eq!(owners(&new).len(), owned, "{items}");
        let applied = apply(None, &widget(items), false, &ctx);
        assert_eq!(applied.is_ok(), owned == 1, "{items}");
        let mut old = widget(items);
        old["metadata"]["managedFields"] = json!([{"manager": "a", "operation": "Apply", "apiVersion": "example.com/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:l": {}}}]);
        let applied = apply(Some(&old), &widget(1), false, &ctx);
        assert_eq!(applied.is_ok(), owned == 1, "{items}");
        track_update(Some(&old), &mut new, &ctx);
        assert_eq!(owners(&new).len(), owned, "{items}");
    }
}

/// Returns the schema of a kind whose lists and maps are either granular or atomic.
fn widget_schema(is_atomic: bool) -> Schema {
    let (list, map) = if is_atomic { ("atomic", "atomic") } else { ("map", "granular") };
    let text = json!({"type": "string"});
    let item = json!({"type": "object", "properties": {"k": text}, "required": ["k"]});
    let mut items = json!({"type": "array", "items": item, "x-kubernetes-list-type": list});
    if !is_atomic {
        items.set("x-kubernetes-list-map-keys", json!(["k"]));
    }
    let members = json!({"type": "object", "additionalProperties": text, "x-kubernetes-map-type": map});
    let fields = json!({"type": "object", "properties": {"a": text}, "x-kubernetes-map-type": map});
    let spec = json!({"type": "object", "properties": {"l": items, "m": members, "s": fields}});
    Schema::custom("Widget", &json!({"type": "object", "properties": {"spec": spec}}))
}

fn widget_with(value: &str) -> Json {
    json!({
        "apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"l": [{"k": value}], "m": {value: "1"}, "s": {"a": value}},
    })
}

#[derive(Debug)]
struct WidgetVersions;

impl VersionSchemas for WidgetVersions {
    fn schema(&self, api_version: &str) -> Option<Arc<Schema>> {
        Some(Arc::new(widget_schema(api_version == "e.com/v2")))
    }
}

#[test]
fn owned_paths_are_adapted_to_their_own_version() {
    let (v1, v2) = (widget_schema(false), widget_schema(true));
    let first = apply(None, &widget_with("x"), false, &context(&v1, "e.com/v1", "a")).unwrap().object;
    let mut updated = first.clone();
    updated["metadata"].set("labels", json!({"l": "1"}));
    let by_v2 = WriteContext { schemas: Some(&WidgetVersions), ..context(&v2, "e.com/v2", "b") };
    track_update(Some(&first), &mut updated, &by_v2);
    assert_eq!(owners(&updated)[0], owners(&first)[0]);

    // The comparison of changes uses the version of each manager.
    let other = json!({
        "apiVersion": "e.com/v2", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"m": {"x": "2"}},
    });
    let conflict = apply(Some(&first), &other, false, &by_v2).unwrap_err().to_string();
    assert_eq!(conflict, "Apply failed with 1 conflict: conflict with \"a\": .spec.m.x");
    let forced = apply(Some(&first), &other, true, &by_v2).unwrap().object;
    let left = owners(&forced).remove(0).1;
    assert_eq!((left["f:spec"].get("f:m"), left["f:spec"].get("f:s").is_some()), (None, true));
}

/// A real server resets the fields of a custom resource only in the version of the request.
#[test]
fn reset_fields_of_other_versions_conflict() {
    let schema = widget_schema(false);
    let first = apply(None, &widget_with("x"), false, &context(&schema, "e.com/v1", "a")).unwrap().object;
    for (version, conflicts) in [("e.com/v2", true), ("e.com/v1", false)] {
        let write =
            WriteContext { schemas: Some(&WidgetVersions), reset: &[&["spec"]], ..context(&schema, version, "b") };
        let other = json!({
            "apiVersion": version, "kind": "Widget", "metadata": {"name": "a"}, "spec": {"m": {"x": "2"}},
        });
        let error = apply(Some(&first), &other, false, &write).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), conflicts, "{version}: {error:?}");
    }
}

#[test]
fn owners_of_parts_own_values_that_become_atomic() {
    let (granular, atomic) = (widget_schema(false), widget_schema(true));
    let widget = widget_with;
    let first = apply(None, &widget("x"), false, &context(&granular, "e.com/v1", "a")).unwrap().object;
    let second = |force| apply(Some(&first), &widget("y"), force, &context(&atomic, "e.com/v1", "b"));
    let conflicts = second(false).unwrap_err().to_string();
    assert_eq!(conflicts, "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.l\n- .spec.m\n- .spec.s");
    let owned = json!({"f:spec": {"f:l": {}, "f:m": {}, "f:s": {}}});
    let same = apply(Some(&first), &widget("x"), false, &context(&atomic, "e.com/v1", "b")).unwrap().object;
    assert_eq!(owners(&same), [("a".into(), owned.clone()), ("b".into(), owned.clone())]);
    assert_eq!(owners(&second(true).unwrap().object), [("b".into(), owned)]);

    let mut updated = first.clone();
    updated["metadata"].set("labels", json!({"l": "1"}));
    track_update(Some(&first), &mut updated, &context(&atomic, "e.com/v1", "c"));
    assert_eq!(owners(&updated)[0], owners(&same)[0]);
}
