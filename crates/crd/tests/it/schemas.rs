//! Tests the structural schemas of Rust types.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle_crd::{CustomResource, Resource};
use pintle_meta::{Conditions, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::derived::{Derived, derived};
use crate::shapes::{
    Collections, Described, Enums, Extended, External, Flattened, Internal, More, Number, Plain, Scalars, Untagged,
};

macro_rules! spec_of {
    ($spec:ty) => {{
        #[derive(Resource, Deserialize, Serialize, JsonSchema)]
        #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
        struct Thing {
            metadata: ObjectMeta,
            spec: $spec,
        }
        spec(&Thing::crd().spec)
    }};
}

fn spec(definition: &Value) -> Value {
    definition["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

pub(crate) fn derived() -> Vec<Derived> {
    let scalars = Scalars {
        text: String::new(),
        flag: false,
        small: u8::MAX,
        count: u32::MAX,
        long: i64::MIN,
        ratio: 0.5,
        letter: Some('é'),
        bounded: 1,
        absent: None,
        at: Some("2026-01-02T03:04:05Z".parse::<jiff::Timestamp>().unwrap().into()),
    };
    let collections = Collections {
        list: vec!["a".into(), "a".into()],
        set: ["a".into(), "b".into()].into(),
        map: [("a".into(), 1)].into(),
        numbered: [(1, "a".into())].into(),
        any: json!([1, {"a": null}]),
        anything: [("a".into(), json!(1)), ("b".into(), json!([]))].into(),
        port: IntOrString::Int(80),
        pair: (1, 2),
        holes: vec![Some("a".into()), None],
        conditions: Conditions::default(),
        list_or_none: Some(vec![1]),
    };
    let enums = Enums {
        plain: Plain::One,
        optional: Some(Plain::Two),
        described: Some(Described::External),
        external: External::Disk { size: 1 },
        internal: Internal::B { y: "y".into() },
        untagged: Untagged::ById { id: 1 },
        number: Number::Text("1".into()),
    };
    let flattened = Flattened {
        name: "a".into(),
        source: External::Secret { name: "b".into() },
        other: Internal::A { x: 1 },
        more: More { extra: Some("c".into()) },
    };
    vec![
        derived!("scalars", Scalars, scalars),
        derived!("collections", Collections, collections),
        derived!("enums", Enums, enums),
        derived!("flattened", Flattened, flattened),
        derived!("extended", Extended, Extended { checked: 1, free: json!({"a": [1]}), with_default: 6 }),
    ]
}

#[test]
fn scalars_keep_bounds_and_known_formats() {
    assert_eq!(
        spec_of!(Scalars),
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "flag": {"type": "boolean"},
                "small": {"type": "integer", "minimum": 0, "maximum": 255},
                "count": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                "long": {"type": "integer", "format": "int64"},
                "ratio": {"type": "number", "format": "double"},
                "letter": {"type": "string", "minLength": 1, "maxLength": 1},
                "bounded": {"type": "integer", "format": "int32", "minimum": 0, "exclusiveMinimum": true, "maximum": 9},
                "absent": {"type": "integer", "minimum": 0, "maximum": 65535},
                "at": {"type": "string", "format": "date-time"},
            },
            "required": ["text", "flag", "small", "count", "long", "ratio", "bounded"],
        })
    );
}

#[test]
fn collections_become_lists_maps_and_sets() {
    let mut spec = spec_of!(Collections);
    let number = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
    spec["properties"]["port"].as_object_mut().unwrap().remove("description");
    let expected = [
        ("list", json!({"type": "array", "items": {"type": "string"}})),
        ("set", json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})),
        ("map", json!({"type": "object", "additionalProperties": number})),
        ("numbered", json!({"type": "object", "additionalProperties": {"type": "string"}})),
        ("any", json!({"x-kubernetes-preserve-unknown-fields": true})),
        ("anything", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        ("port", json!({"x-kubernetes-int-or-string": true})),
        ("pair", json!({"type": "array", "items": number, "minItems": 2, "maxItems": 2})),
        ("holes", json!({"type": "array", "items": {"type": "string", "nullable": true}})),
        ("maybe", json!({"type": "array", "items": number})),
    ];
    for (name, expected) in expected {
        assert_eq!(spec["properties"][name], expected, "{name}");
    }
    let conditions = &spec["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(conditions["items"]["required"], json!(["type", "status"]));
}

#[test]
fn enums_become_one_type_with_rules() {
    let spec = spec_of!(Enums);
    let number = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
    let expected = [
        ("plain", json!({"type": "string", "enum": ["One", "Two"]})),
        ("optional", json!({"type": "string", "enum": ["One", "Two"]})),
        (
            "external",
            json!({
                "type": "object",
                "properties": {
                    "disk": {"type": "object", "properties": {"size": number}, "required": ["size"]},
                    "secret": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
                },
                "oneOf": [{"required": ["disk"]}, {"required": ["secret"]}],
            }),
        ),
        (
            "internal",
            json!({
                "type": "object",
                "properties": {"type": {"type": "string", "enum": ["A", "B"]}, "x": number, "y": {"type": "string"}},
                "required": ["type"],
                "oneOf": [
                    {"required": ["x"], "properties": {"type": {"enum": ["A"]}}},
                    {"required": ["y"], "properties": {"type": {"enum": ["B"]}}},
                ],
            }),
        ),
        (
            "untagged",
            json!({
                "type": "object",
                "properties": {"name": {"type": "string"}, "id": number},
                "anyOf": [{"required": ["name"]}, {"required": ["id"]}],
            }),
        ),
        ("number", json!({"x-kubernetes-int-or-string": true})),
    ];
    for (name, expected) in expected {
        assert_eq!(spec["properties"][name], expected, "{name}");
    }
    let described = &spec["properties"]["described"];
    assert_eq!((&described["enum"], described.get("nullable")), (&json!(["Internal", "External"]), None));
    let text = described["description"].as_str().unwrap();
    assert!(text.starts_with("How it is exposed.\n\nPossible enum values:\n- `\"Internal\"`: Inside"), "{text}");
}

#[test]
fn flattened_enums_keep_separate_rules() {
    let spec = spec_of!(Flattened);
    let names: Vec<&String> = spec["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["disk", "extra", "name", "secret", "type", "x", "y"]);
    assert_eq!(spec["required"], json!(["name", "type"]));
    let rules = spec["allOf"].as_array().unwrap();
    assert_eq!(rules[0]["oneOf"].as_array().unwrap().len(), 2);
    assert_eq!(rules[1]["oneOf"][1]["properties"]["type"]["enum"], json!(["B"]));
}

#[test]
fn extensions_and_defaults_are_kept() {
    let spec = spec_of!(Extended);
    assert_eq!(spec["properties"]["checked"]["x-kubernetes-validations"], json!([{"rule": "self > 0"}]));
    assert_eq!(spec["properties"]["free"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(spec["properties"]["with_default"], json!({"type": "integer", "format": "int32", "default": 5}));
}
