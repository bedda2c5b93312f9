//! Tests of custom resource definitions and custom resources: pruning, defaults, validation, names and versions.

use std::sync::Arc;

use pintle_apimachinery::object::condition;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::{Json, json};
use pintle_kinds::{Kind, Strategy as _};
use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::pattern::Patterns;
use super::structural::Structural;
use super::{Taken, default, is_established, json_path, kinds, prune, ratchet, settle, validator};

fn definition(spec: Json) -> Json {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
        "status": {"storedVersions": ["v1"]},
    })
}

fn established(definition: &Json) -> Json {
    settle(definition, &Taken::default(), "2024-01-02T03:04:05Z").expect("a new definition changes")
}

fn kind(spec: Json) -> Kind {
    kinds(&established(&definition(spec))).pop().expect("one version")
}

#[test]
fn repeated_patterns_of_a_definition_are_shared() {
    let mut patterns = Patterns::default();
    let property = |at: usize| (format!("p{at}"), json!({"type": "string", "pattern": r"\pL{99}"}));
    let schema = json!({"type": "object", "properties": (0..200).map(property).collect::<pintle_json::Map>()});
    let [one, other] = [&schema, &schema].map(|schema| Structural::read(schema, &mut patterns));
    let first = one.properties["p0"].limits.pattern.as_ref().expect("it has one");
    for property in one.properties.values().chain(other.properties.values()) {
        let pattern = property.limits.pattern.as_ref().expect("each has one");
        assert!(Arc::ptr_eq(first, pattern), "shared by all versions");
    }
}

#[track_caller]
fn check_pruned_and_defaulted(schema: Json, spec: Json, expected: Json, unknown: &[&str]) {
    let kind = kind(schema);
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let removed = kind.strategy.prune(&mut object);
    kind.strategy.drop_nulls(&mut object);
    kind.strategy.defaults(&mut object);
    assert_eq!(object["spec"], expected, "{spec}");
    assert_eq!(removed, unknown, "{spec}");
}

#[test]
fn unknown_fields_are_pruned_and_missing_fields_defaulted() {
    let o =
        json!({"type": "object", "properties": {"a": {"type": "string", "default": "in"}, "c": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "integer", "default": 3},
        "o": o,
        "d": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "deep"}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "integer", "default": 7}}}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": o}},
        "z": {"type": "string", "nullable": true},
        "e": {"type": "object", "x-kubernetes-embedded-resource": true},
        "kept": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object", "properties": {"known": o}}},
    }});
    let bare = json!({"n": 3, "d": {"a": "deep"}});
    let with = |more: Json| {
        let mut all = bare.clone();
        more.members("").for_each(|(key, value)| all[key] = value.clone());
        all
    };
    for (spec, expected, unknown) in [
        (json!({}), bare.clone(), vec![]),
        (json!({"n": null, "o": null, "z": null}), with(json!({"z": null})), vec![]),
        (json!({"o": {}}), with(json!({"o": {"a": "in"}})), vec![]),
        (json!({"l": [{"zz": 1}, {"v": null}]}), with(json!({"l": [{"v": 7}, {"v": 7}]})), vec!["spec.l[0].zz"]),
        (json!({"m": {"x": null, "y": 1}}), with(json!({"m": {"y": 1}})), vec![]),
        (
            json!({"free": {"x": {"y": 1}, "known": {"a": "x", "zz": 1}}, "zz": {}}),
            with(json!({"free": {"x": {"y": 1}, "known": {"a": "x"}}})),
            vec!["spec.free.known.zz", "spec.zz"],
        ),
        (json!({"n": 4.0}), with(json!({"n": 4.0})), vec![]),
        (
            json!({"o": [{"a": "x"}, [{"c": "x"}]]}),
            with(json!({"o": [{}, [{}]]})),
            vec!["spec.o[0].a", "spec.o[1][0].c"],
        ),
        (
            json!({"e": {"metadata": {"name": null, "labels": {"a": null}, "annotations": {}, "uid": ""}}}),
            with(json!({"e": {"metadata": {"labels": {"a": ""}}}})),
            vec![],
        ),
        (
            json!({"kept": [{"x": {"y": 1}, "known": {"a": "x", "zz": 1}}]}),
            with(json!({"kept": [{"x": {"y": 1}, "known": {"a": "x"}}]})),
            vec!["spec.kept[0].known.zz"],
        ),
        (json!({"e": {"metadata": null}}), with(json!({"e": {"metadata": {}}})), vec![]),
    ] {
        check_pruned_and_defaulted(schema.clone(), spec, expected, &unknown);
    }
}

/// Checks the errors of a spec. Each expected error has the form `reason field`.
#[track_caller]
fn check_errors(schema: Json, spec: Json, expected: &[&str]) {
    let kind = kind(schema);
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let errors = kind.strategy.validate_create(&object);
    let found: Vec<_> = errors
        .iter()
        .map(|error| format!("{} {}", &error.reason.as_str()["FieldValue".len()..], error.field))
        .collect();
    assert_eq!(found, expected, "{spec}: {errors:?}");
}

#[test]
fn values_are_validated_against_their_schema() {
    let with_field = |field: Json| json!({"type": "object", "properties": {"x": field}});
    let list = json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
                      "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]});
    for (schema, x, expected) in [
        (json!({"type": "integer"}), json!("1"), vec!["TypeInvalid spec.x"]),
        (json!({"type": "integer"}), json!(1.5), vec!["TypeInvalid spec.x", "Invalid <nil>"]),
        (json!({"type": "integer"}), json!(3), vec![]),
        (json!({"type": "integer", "format": "int32"}), json!(2_147_483_648_u32), vec!["Invalid <nil>"]),
        (json!({"type": "number", "format": "float"}), json!(1e300), vec!["Invalid <nil>"]),
        (json!({"x-kubernetes-int-or-string": true}), json!("80%"), vec![]),
        (json!({"x-kubernetes-int-or-string": true}), json!(true), vec!["TypeInvalid spec.x"]),
        (json!({"type": "string", "enum": ["a", "b"]}), json!("c"), vec!["NotSupported spec.x"]),
        (json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}), json!(1), vec!["Invalid spec.x"]),
        (json!({"type": "integer", "maximum": 5, "multipleOf": 2}), json!(7), vec!["Invalid spec.x", "Invalid spec.x"]),
        (json!({"type": "string", "maxLength": 3}), json!("äöü"), vec![]),
        (json!({"type": "string", "maxLength": 3}), json!("xxxx"), vec!["TooLong spec.x"]),
        (json!({"type": "string", "pattern": "^a"}), json!("b"), vec!["Invalid spec.x"]),
        (
            json!({"type": "string", "maxLength": 3, "minLength": 2, "pattern": "^a"}),
            json!("bbbb"),
            vec!["TooLong spec.x"],
        ),
        (json!({"type": "string", "minLength": 2, "pattern": "^a"}), json!("b"), vec!["Invalid spec.x"]),
        (json!({"type": "string", "enum": ["a"]}), json!(["a"]), vec!["TypeInvalid spec.x", "NotSupported spec.x"]),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!("x"),
            vec!["TypeInvalid spec.x", "Invalid <nil>"],
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(7.5),
            vec!["TypeInvalid spec.x", "Invalid <nil>", "Invalid spec.x"],
        ),
        (json!({"type": "string", "format": "byte"}), json!(""), vec!["TypeInvalid spec.x"]),
        (json!({"type": "string", "format": "uuid"}), json!("x"), vec!["TypeInvalid spec.x"]),
        (json!({"type": "string", "format": "no-such"}), json!("x"), vec![]),
        (json!({"type": "string", "format": "no-such"}), json!(["x"]), vec!["TypeInvalid spec.x"]),
        (json!({"type": "string", "format": "uuid"}), json!(["x"]), vec![]),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            vec!["TooMany spec.x"],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "b", "a"]),
            vec!["Duplicate spec.x[2]"],
        ),
        (list.clone(), json!([{"k": "a"}, {"k": "a"}]), vec!["Duplicate spec.x[1]"]),
        (list.clone(), json!(["a", "a"]), vec!["TypeInvalid spec.x[0]", "TypeInvalid spec.x[1]", "Invalid spec.x[0]"]),
        (list, json!([{}]), vec!["Required spec.x[0].k"]),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"a.b": "x"}),
            vec!["TypeInvalid spec.x.a.b"],
        ),
        (json!({"type": "string", "not": {"enum": ["bad"]}}), json!("bad"), vec!["Invalid <nil>"]),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            vec!["Invalid <nil>", "Required spec.x.a"],
        ),
        (
            json!({"type": "string", "allOf": [{"minLength": 3}, {"pattern": "^a"}]}),
            json!("b"),
            vec!["Invalid spec.x", "Invalid spec.x", "Invalid <nil>"],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"kind": ""}),
            vec!["Required spec.x.apiVersion", "Invalid spec.x.kind"],
        ),
    ] {
        check_errors(with_field(schema), json!({"x": x}), &expected);
    }
}

#[test]
fn invalid_field_may_stay_unchanged_in_an_update() {
    let kind = kind(
        json!({"type": "object", "properties": {"s": {"type": "string", "maxLength": 1}, "n": {"type": "integer"}}}),
    );
    let object = |s: &str, n: i64| json!({"metadata": {"name": "a"}, "spec": {"s": s, "n": n}});
    assert_eq!(
        kind.strategy.validate_update(&object("long", 2), &object("long", 1), Subresource::None),
        FieldErrors::default()
    );
    assert_eq!(
        kind.strategy.validate_update(&object("longer", 1), &object("long", 1), Subresource::None).into_iter().len(),
        1
    );
}

#[test]
fn name_conflict_resolves_when_the_other_definition_is_deleted() {
    let first = established(&definition(json!({"type": "object"})));
    let mut taken = Taken::default();
    taken.add(&first);
    let mut second = definition(json!({"type": "object"}));
    second["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget", "listKind": "WidgetList"});
    let refused = settle(&second, &taken, "t").expect("the second changes");
    assert!(!is_established(&refused));
    assert_eq!(condition(&refused, "NamesAccepted").map(|it| it["reason"].clone()), Some(json!("ListKindConflict")));
    assert_eq!(refused["status"]["acceptedNames"], json!({"plural": "gadgets", "singular": "gadget", "kind": ""}));
    assert!(settle(&refused, &taken, "later").is_none());
    taken.remove(&first);
    let resolved = settle(&refused, &taken, "t").expect("it changes again");
    assert!(is_established(&resolved));
    assert!(settle(&resolved, &taken, "later").is_none());
}

#[test]
fn other_versions_contain_only_fields_known_to_both() {
    let mut definition =
        definition(json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}));
    let other = json!({
        "name": "v2", "served": true, "storage": false,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string"}, "c": {"type": "string", "default": "x"},
        }}}}},
    });
    definition["spec"]["versions"].as_array_mut().expect("versions").push(other);
    let kinds = kinds(&established(&definition));
    let stored = Arc::new(json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"a": "1", "b": "2"}}));
    assert!(Arc::ptr_eq(&kinds[0].to_version(&stored), &stored));
    assert_eq!(
        *kinds[1].to_version(&stored),
        json!({"apiVersion": "example.com/v2", "kind": "Widget", "spec": {"a": "1"}})
    );
}

#[test]
fn defaults_come_from_the_version_of_the_last_write() {
    let mut definition = definition(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let spec =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "c": {"type": "string", "default": "x"}}});
    definition["spec"]["versions"][0]["storage"] = false.into();
    let stored = json!({
        "name": "v2", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    });
    definition["spec"]["versions"].as_array_mut().expect("versions").push(stored);
    let kinds = kinds(&established(&definition));
    let object = Arc::new(json!({"spec": {"a": "1"}}));
    let spec = |written: &str| kinds[1].strategy.to_version(&object, written)["spec"].clone();
    assert_eq!(spec("example.com/v1"), json!({"a": "1"}));
    for written in ["example.com/v2", "example.com/gone", ""] {
        assert_eq!(spec(written), json!({"a": "1", "c": "x"}), "{written:?}");
    }
}

#[test]
fn changed_schema_converts_stored_objects_again() {
    let served = |properties: Json| {
        let definition = definition(json!({"type": "object", "properties": properties}));
        kinds(&established(&definition)).swap_remove(0)
    };
    let (old, new) = (served(json!({"a": {"type": "string"}})), served(json!({"b": {"type": "string"}})));
    let stored = pintle_kinds::stored_for_tests(&json!({"metadata": {}, "spec": {"a": "1"}}));
    for _ in 0..2 {
        assert_eq!(old.convert_if_needed(&stored), None);
        assert_eq!(new.decode_in_version(&stored)["spec"], json!({}));
    }
}

/// Checks the errors of a definition. Each expected error has the form `reason field`.
#[track_caller]
fn check_definition(spec: Json, expected: &[&str]) {
    let errors = super::Definition.validate_create(&definition(spec.clone()));
    let field = |field: &str| field.replace("spec.validation.openAPIV3Schema.properties[spec]", "~");
    let found: Vec<_> = errors
        .iter()
        .map(|error| format!("{} {}", &error.reason.as_str()["FieldValue".len()..], field(&error.field)))
        .collect();
    assert_eq!(found, expected, "{spec}");
}

#[test]
fn definition_schemas_must_be_valid_and_structural() {
    let with_field = |field: Json| json!({"type": "object", "properties": {"x": field}});
    for (schema, expected) in [
        (with_field(json!({"type": "string"})), vec![]),
        (json!({}), vec!["Required ~.type"]),
        (with_field(json!({"minimum": 1})), vec!["Required ~.properties[x].type"]),
        (with_field(json!({"type": "int"})), vec!["NotSupported ~.properties[x].type"]),
        (with_field(json!({"type": "array"})), vec!["Required ~.properties[x].items"]),
        (with_field(json!({"type": "array", "items": {}})), vec!["Required ~.properties[x].items.type"]),
        (with_field(json!({"$ref": "#/a", "type": "string"})), vec!["Forbidden ~.properties[x].$ref"]),
        (with_field(json!({"type": "string", "pattern": "["})), vec!["Invalid ~.properties[x].pattern"]),
        (
            with_field(json!({"type": "string", "anyOf": [{"type": "string", "default": "x"}]})),
            vec!["Forbidden ~.properties[x].anyOf[0].default", "Forbidden ~.properties[x].anyOf[0].type"],
        ),
        (with_field(json!({"type": "integer", "default": "one"})), vec!["TypeInvalid ~.properties[x].default"]),
        (
            with_field(
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "default": {}}),
            ),
            vec!["Required ~.properties[x].default.a"],
        ),
        (with_field(json!({"type": "object", "default": {"b": 1}})), vec!["Invalid ~.properties[x].default"]),
        (
            with_field(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"})),
            vec!["NotSupported ~.properties[x].x-kubernetes-list-type"],
        ),
        (
            with_field(json!({"type": "string", "x-kubernetes-list-type": "bag"})),
            vec!["Invalid ~.properties[x].type", "NotSupported ~.properties[x].x-kubernetes-list-type"],
        ),
        (
            with_field(json!({"type": "object", "not": {"x-kubernetes-map-type": "atomic"}})),
            vec!["Forbidden ~.properties[x].not.x-kubernetes-map-type", "Required ~.properties[x].not.type"],
        ),
        (with_field(json!({"type": "string", "$schema": "s"})), vec!["Invalid spec.validation.openAPIV3Schema"]),
        (
            with_field(json!({"type": "string", "default": "bad", "not": {"enum": ["bad"]}})),
            vec!["Invalid ~.properties[x].default"],
        ),
        (
            with_field(json!({"type": "string", "x-kubernetes-embedded-resource": true})),
            vec!["Required ~.properties[x].properties", "Invalid ~.properties[x].type"],
        ),
    ] {
        check_definition(schema, &expected);
    }
}

#[track_caller]
fn check_path(text: &str, expected: Json) {
    let object = json!({
        "a": {"b": 1, "x.y": 2}, "l": [{"t": "A", "v": 1}, {"t": "B", "v": 2}], "s": ["p", "q"],
    });
    let found =
        json_path::parse(text).map(|steps| json_path::find(&steps, &object).into_iter().cloned().collect::<Vec<_>>());
    assert_eq!(found.map(Json::from), Ok(expected), "{text}");
}

#[test]
fn json_paths_find_members_items_slices_and_filtered_items() {
    for (text, expected) in [
        (".a.b", json!([1])),
        (".a['x.y']", json!([2])),
        (".a.x\\.y", json!([2])),
        (".s[0]", json!(["p"])),
        (".s[-1]", json!(["q"])),
        (".s[*]", json!(["p", "q"])),
        (".s[-1:]", json!(["q"])),
        (".s[:1]", json!(["p"])),
        (".s[2:1]", json!([])),
        (".l[?(@.t==\"B\")].v", json!([2])),
        (".l[?(@.t!='B')].v", json!([1])),
        (".l[9].v", json!([])),
        (".none.of.it", json!([])),
    ] {
        check_path(text, expected);
    }
    assert!(json_path::parse(".spec[").is_err());
    check_path(".l[?(@.t==\"B\")][?(@)]", json!(["B", 2]));
    for nested in [".l[?(@.t[?(@.b)])]", ".l[?(@.t[?(@.b==1)]==2)]", ".l[?(@[0][?(@.b)])]"] {
        assert!(json_path::parse(nested).is_err(), "{nested}");
    }
}

fn any_json() -> impl Generator<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-3_i64..3).prop_map(Json::from),
        prop_oneof![Just(1.0), Just(1.5)].prop_map(|number: f64| json!(number)),
        "[abx]{0,2}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            proptest::collection::btree_map(
                prop_oneof![
                    Just("type"),
                    Just("properties"),
                    Just("items"),
                    Just("default"),
                    Just("additionalProperties"),
                    Just("nullable"),
                    Just("a"),
                    Just("b"),
                    Just("metadata"),
                    Just("anyOf"),
                    Just("x-kubernetes-preserve-unknown-fields"),
                ],
                inner,
                0..4
            )
            .prop_map(|members| Json::Object(
                members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

use proptest::strategy::Strategy as Generator;

proptest! {
    #[test]
    fn pruning_and_defaulting_are_idempotent(schema in any_json(), value in any_json()) {
        let schema = Structural::read(&schema, &mut Patterns::default());
        let mut once = value;
        prune::prune(&schema, &mut once);
        prop_assert!(prune::is_pruned(&schema, &once));
        let mut twice = once.clone();
        prop_assert_eq!(prune::prune(&schema, &mut twice), Vec::<String>::new());
        prop_assert_eq!(&twice, &once);
        default::drop_nulls(&schema, &mut once);
        default::default(&schema, &mut once);
        let mut again = once.clone();
        default::drop_nulls(&schema, &mut again);
        default::default(&schema, &mut again);
        prop_assert_eq!(again, once);
    }

    #[test]
    fn arbitrary_schemas_and_values_do_not_panic(schema in any_json(), value in any_json()) {
        let definition = definition(schema.clone());
        let errors = super::Definition.validate_create(&definition);
        prop_assert!(errors.iter().all(|error| !error.message.is_empty()));
        let structural = Structural::read(&schema, &mut Patterns::default());
        let unchanged = validator::validate(&structural, &value, Some(&value), "");
        if ratchet::is_unchanged(&structural, &value, &value) {
            prop_assert_eq!(unchanged, FieldErrors::default());
        }
        for kind in kinds(&established(&definition)) {
            let mut object = value.clone();
            kind.strategy.prune(&mut object);
            kind.strategy.defaults(&mut object);
            kind.strategy.validate_create(&object);
            kind.cells(&object, jiff::Timestamp::UNIX_EPOCH);
        }
    }

    #[test]
    fn arbitrary_json_paths_do_not_panic(text in "[.a\\[\\]'?(@)=\\\\0-9*:\"]{0,12}") {
        let _ = json_path::parse(&text).is_ok();
    }
}

#[test]
fn schema_weight_is_the_maximum_cost_of_one_value() {
    let weight = |field: Json| kind(json!({"type": "object", "properties": {"x": field}})).strategy.schema_weight();
    let words = |count: usize| -> Json { (0..count).map(|at| Json::from(format!("w{at}"))).collect() };
    let plain = |at: usize| (format!("p{at}"), json!({"type": "string", "enum": ["a", "b"], "description": "d"}));
    let many = json!({"type": "object", "properties": (0..1_000).map(plain).collect::<pintle_json::Map>()});
    const LIGHT: usize = 4 << 10;
    assert!(weight(many) < LIGHT, "a value has only one place");
    let branches: Json = (0..20).map(|at| json!({"minimum": at})).collect();
    for heavy in [
        json!({"type": "array", "items": {"type": "integer", "anyOf": branches}}),
        json!({"type": "object", "additionalProperties": {"type": "integer", "not": {"oneOf": branches}}}),
        json!({"type": "string", "enum": words(200)}),
        json!({"type": "object", "required": words(200)}),
        json!({"type": "array", "items": {"type": "object", "properties": {
            "d": {"type": "string", "default": "x".repeat(500)},
        }}}),
        json!({"type": "string", "pattern": r"\pL{99}"}),
    ] {
        assert!(weight(heavy.clone()) > 8 * LIGHT, "{heavy}");
    }
}
