//! Tests the structural schemas of unusual Rust types.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::marker::PhantomData;
use std::num::NonZeroI32;
use std::time::Duration;

use pintle_crd::{CustomResource, CustomResourceDefinition, Resource};
use pintle_meta::{Conditions, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::derived::{Derived, derived};

/// Returns the schema of the `spec` property of a resource with the given spec type.
macro_rules! spec_of {
    ($spec:ty) => {{
        #[derive(Resource, Deserialize, Serialize, JsonSchema)]
        #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
        struct Site {
            metadata: ObjectMeta,
            spec: $spec,
        }
        Site::crd().spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
    }};
}

macro_rules! types {
    ($($item:item)*) => {$(
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        $item
    )*};
}

types! {
    struct Numbers { signed: NonZeroI32, wide: i128, size: usize, span: Duration }
    struct Nested { twice: Option<Option<u32>>, lists: Vec<Vec<Option<String>>>, boxed: Option<Box<Numbers>> }
    #[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
    enum Key { A, B }
    struct Maps { keys: HashMap<Key, u32>, values: BTreeMap<String, Option<Key>>, list: Vec<Option<Key>> }
    struct Null { unit: (), phantom: PhantomData<u32>, number: u32 }
    struct FlatMap { name: String, #[serde(flatten)] rest: BTreeMap<String, u32> }
    struct Arrays { three: [u8; 3], none: [u8; 0], pair: (String, u32) }
    #[serde(rename_all = "camelCase")]
    enum Source { Disk { size: u32 }, Secret { name: String } }
    struct FlatOption { name: String, #[serde(flatten)] source: Option<Source> }
    #[serde(tag = "type")]
    enum Newtypes { Disk(FlatMap), Secret(Arrays), None }
    #[serde(untagged)]
    enum OneOrMap { One { a: u32 }, Many(BTreeMap<String, String>) }
    #[serde(untagged)]
    enum KnownOrOther { Known(Key), Other(String) }
    #[serde(untagged)]
    enum WholeOrPart { Whole(i64), Part(f64) }
    struct Generic<T> { item: T, list: Vec<T> }
    #[schemars(extend("oneOf" = [{"required": ["a"]}, {"required": ["b"]}], "not" = {"required": ["a", "b"]}))]
    struct Conditional { a: Option<u32>, b: Option<u32> }
    #[serde(rename_all = "SCREAMING-KEBAB-CASE")]
    struct Renamed { some_field: u32, #[serde(rename = "$other")] other: u32, #[serde(skip)] _hidden: u32 }
    struct Sets { options: BTreeSet<Option<String>> }
    struct Template { metadata: ObjectMeta, conditions: Conditions }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct Inner {
    absent: Option<u32>,
    number: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Defaults {
    #[serde(default)]
    inner: Inner,
    #[serde(default = "some_five")]
    five: Option<i32>,
}

fn some_five() -> Option<i32> {
    Some(5)
}

pub(crate) fn derived() -> Vec<Derived> {
    let numbers = || Numbers { signed: NonZeroI32::MIN, wide: 1, size: 2, span: Duration::from_millis(1_500) };
    let flat_map = || FlatMap { name: "a".into(), rest: [("b".to_owned(), 1)].into() };
    let key = || Some(Key::A);
    vec![
        derived!("numbers", Numbers, numbers()),
        derived!(
            "nested",
            Nested,
            Nested { twice: Some(Some(1)), lists: vec![vec![Some("a".into())], vec![]], boxed: Some(numbers().into()) }
        ),
        derived!(
            "maps",
            Maps,
            Maps { keys: [(Key::A, 1)].into(), values: [("a".into(), key())].into(), list: vec![key(), None] }
        ),
        derived!("null", Null, Null { unit: (), phantom: PhantomData, number: 1 }),
        derived!("flat-map", FlatMap, flat_map()),
        derived!("arrays", Arrays, Arrays { three: [1, 2, 3], none: [], pair: ("a".into(), 1) }),
        derived!("flat-option", FlatOption, FlatOption { name: "a".into(), source: None }),
        derived!(
            "flat-option-set",
            FlatOption,
            FlatOption { name: "a".into(), source: Some(Source::Disk { size: 1 }) }
        ),
        derived!("newtypes", Newtypes, Newtypes::Disk(flat_map())),
        derived!("one-or-map", OneOrMap, OneOrMap::Many([("b".into(), "c".into())].into())),
        derived!("known-or-other", KnownOrOther, KnownOrOther::Other("c".into())),
        derived!("whole-or-part", WholeOrPart, WholeOrPart::Part(0.5)),
        derived!(
            "generic",
            Generic<Generic<Option<Key>>>,
            Generic { item: Generic { item: key(), list: vec![None] }, list: vec![] }
        ),
        derived!("conditional", Conditional, Conditional { a: Some(1), b: None }),
        derived!("renamed", Renamed, Renamed { some_field: 1, other: 2, _hidden: 0 }),
        derived!("sets", Sets, Sets { options: [Some("a".into())].into() }),
        derived!(
            "template",
            Template,
            Template { metadata: ObjectMeta::new("", "a"), conditions: Conditions::default() }
        ),
        derived!("defaults", Defaults, Defaults { inner: Inner { absent: None, number: 0 }, five: None }),
    ]
}

/// Panics if a schema contains a keyword or structure that kube-apiserver rejects.
fn check(schema: &Value, path: &str) {
    let members = schema.as_object().unwrap_or_else(|| panic!("{path}: {schema}"));
    const UNKNOWN: [&str; 6] = ["const", "$ref", "prefixItems", "patternProperties", "uniqueItems", "examples"];
    assert!(UNKNOWN.iter().all(|key| !members.contains_key(*key)), "{path}: {schema}");
    let is_free =
        schema["x-kubernetes-preserve-unknown-fields"] == true || schema["x-kubernetes-int-or-string"] == true;
    assert!(schema["type"].is_string() || is_free, "{path}: {schema}");
    let has_both = members.contains_key("properties") && members.contains_key("additionalProperties");
    assert!(!has_both, "{path}: {schema}");
    assert!(!schema["default"].to_string().contains(":null"), "{path}: {schema}");
    assert_ne!(schema.get("not"), Some(&json!({})), "{path}");
    let is_set = schema["x-kubernetes-list-type"] == "set";
    assert!(!is_set || schema["items"].get("nullable").is_none(), "{path}: {schema}");
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check(property, &format!("{path}.{name}"));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(key) {
            check(below, &format!("{path}.{key}"));
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for part in schema[key].as_array().into_iter().flatten() {
            const TYPED: [&str; 4] = ["type", "description", "default", "nullable"];
            assert!(TYPED.iter().all(|key| part.get(key).is_none()), "{path}.{key}: {part}");
        }
    }
}

#[test]
fn unusual_types_have_structural_schemas() {
    for schema in [
        spec_of!(Numbers),
        spec_of!(Nested),
        spec_of!(Maps),
        spec_of!(Null),
        spec_of!(FlatMap),
        spec_of!(Arrays),
        spec_of!(FlatOption),
        spec_of!(Newtypes),
        spec_of!(OneOrMap),
        spec_of!(KnownOrOther),
        spec_of!(WholeOrPart),
        spec_of!(Generic<Generic<Option<Key>>>),
        spec_of!(Conditional),
        spec_of!(Renamed),
        spec_of!(Sets),
        spec_of!(Template),
        spec_of!(Defaults),
    ] {
        check(&schema, "spec");
    }
}

#[test]
fn values_that_rust_writes_match_the_schema() {
    assert_eq!(spec_of!(Numbers)["properties"]["signed"]["not"], json!({"enum": [0]}));
    let null = &spec_of!(Null)["properties"]["unit"];
    assert_eq!(null, &json!({"nullable": true, "x-kubernetes-preserve-unknown-fields": true}));
    // The fields of the enum must be optional, because serde omits all fields of a flattened `Option` that is
    // `None`.
    let flat = spec_of!(FlatOption);
    assert!(flat.get("oneOf").is_none() && flat.get("anyOf").is_none(), "{flat}");
    assert_eq!(spec_of!(KnownOrOther), json!({"type": "string"}));
    assert_eq!(spec_of!(WholeOrPart), json!({"type": "number"}));
    assert_eq!(spec_of!(Conditional)["oneOf"], json!([{"required": ["a"]}, {"required": ["b"]}]));
    // The property must be nullable, because kube-apiserver would otherwise replace null with the default.
    let five = &spec_of!(Defaults)["properties"]["five"];
    assert_eq!((&five["default"], &five["nullable"]), (&json!(5), &json!(true)));
    assert_eq!(spec_of!(Template)["properties"]["metadata"]["x-kubernetes-preserve-unknown-fields"], true);
}

#[test]
fn variant_keeps_the_rules_of_its_inner_enum() {
    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(tag = "type")]
    enum Backend {
        #[schemars(extend("x-kubernetes-validations" = [{"rule": "has(self.disk)", "message": "no disk"}]))]
        Volume(Source),
        Memory {
            size: u32,
        },
    }
    let schema = spec_of!(Backend);
    check(&schema, "spec");
    let volume = json!({
        "properties": {"type": {"enum": ["Volume"]}},
        "oneOf": [{"required": ["disk"]}, {"required": ["secret"]}],
    });
    let memory = json!({"properties": {"type": {"enum": ["Memory"]}}, "required": ["size"]});
    assert_eq!((&schema["oneOf"], &schema["required"]), (&json!([volume, memory]), &json!(["type"])));
    let applies = "self.type == \"Volume\" && (has(self.disk) || has(self.secret))";
    let rule = json!({"rule": format!("!({applies}) ? true : has(self.disk)"), "message": "no disk"});
    assert_eq!(schema["x-kubernetes-validations"], json!([rule]));
}

#[test]
fn required_status_can_be_absent_from_a_create() {
    #[derive(Resource, Deserialize, Serialize, JsonSchema)]
    #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
    struct r#Match {
        metadata: ObjectMeta,
        spec: Conditional,
        #[schemars(required)]
        status: Option<Conditional>,
    }
    let crd = Match::crd();
    assert_eq!(crd.spec["names"]["kind"], "Match");
    assert_eq!(crd.spec["versions"][0]["schema"]["openAPIV3Schema"]["required"], json!(["spec"]));
}

#[test]
#[should_panic(expected = "the field `metadata` has another name in JSON")]
fn renamed_metadata_is_rejected() {
    #[derive(Resource, Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "PascalCase")]
    #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
    struct Site {
        metadata: ObjectMeta,
    }
    Site::crd();
}

#[test]
fn null_lists_in_a_status_are_empty() {
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}, "spec": {},
        "status": {"acceptedNames": {}, "conditions": null, "storedVersions": null},
    });
    let definition: CustomResourceDefinition = serde_json::from_value(object).unwrap();
    assert!(!definition.is_established() && definition.status.unwrap().stored_versions.is_empty());
}
