//! Tests of the message tables and the encoder.

use pintle_effort::is_linear;
use pintle_json::json;

use super::*;
use crate::{openapi, openapi_v2};

/// Collects the JSON members without a field of the same type in the protobuf message.
fn unencoded_members(shape: ProtoShape, value: &Json, place: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (ProtoShape::One(message), Json::Object(members)) => {
            for (name, value) in members.iter() {
                let place = format!("{place}/{name}");
                match message.field(name) {
                    Some((_, shape, _)) => unencoded_members(shape, value, &place, found),
                    None => found.push(place),
                }
            }
        }
        (ProtoShape::Each(shape), Json::Array(items)) => {
            items.iter().for_each(|item| unencoded_members(*shape, item, place, found));
        }
        (ProtoShape::Either(choose), value) => unencoded_members(choose(value).1, value, place, found),
        (ProtoShape::Text, Json::String(_)) | (ProtoShape::Flag, Json::Bool(_)) | (ProtoShape::Any, _) => (),
        (ProtoShape::Integer | ProtoShape::Double, Json::Number(_)) => (),
        _ => found.push(format!("{place}: {value}")),
    }
}

#[test]
fn documents_of_built_in_kinds_are_encoded_completely() {
    let served = pintle_builtin::kinds();
    let versions = || served.versions().map(|(_, kinds)| kinds.kinds().cloned().collect::<Vec<_>>());
    let mut found = Vec::new();
    for kinds in versions() {
        let document = openapi::document(&kinds);
        assert!(document["paths"].as_object().is_some_and(|paths| !paths.is_empty()));
        unencoded_members(ProtoShape::One(&v3::DOCUMENT), &document, "", &mut found);
    }
    let mut parts = 0;
    openapi_v2::parts(versions(), |part, name, value| {
        let message = match part {
            DocumentPart::Path => &v2::PATHS,
            DocumentPart::Definition => &v2::DEFINITIONS,
        };
        let (_, shape, named) = message.field(name).expect("a field");
        assert!(named, "{name}");
        unencoded_members(shape, value, name, &mut found);
        parts += 1;
    });
    unencoded_members(ProtoShape::One(&v2::DOCUMENT), &openapi_v2::head().into(), "", &mut found);
    assert!(parts > 500, "{parts}");
    assert_eq!(found, Vec::<String>::new());
}

#[track_caller]
fn check(message: &'static ProtoMessage, value: &Json, expected: &[&[u8]]) {
    let mut out = Backwards::default();
    members(message, value.as_object().expect("members"), &mut out);
    assert_eq!(out.finish(), expected.concat(), "{value}");
}

#[test]
fn schemas_are_encoded_as_in_their_openapi_version() {
    check(&v2::SCHEMA, &json!({"type": "string"}), &[&[0xb2, 1, 8, 0x0a, 6], b"string"]);
    check(&v2::SCHEMA, &json!({"type": ["a", "b"]}), &[&[0xb2, 1, 6, 0x0a, 1], b"a", &[0x0a, 1], b"b"]);
    check(&v3::SCHEMA, &json!({"type": "string"}), &[&[0xca, 1, 6], b"string"]);
    check(&v2::SCHEMA, &json!({"items": {"$ref": "#/a"}}), &[&[0xba, 1, 7, 0x0a, 5, 0x0a, 3], b"#/a"]);
    check(&v3::SCHEMA, &json!({"items": {"$ref": "#/a"}}), &[&[0xf2, 1, 9, 0x0a, 7, 0x12, 5, 0x0a, 3], b"#/a"]);
    check(&v3::SCHEMA, &json!({"additionalProperties": false}), &[&[0x82, 2, 2, 0x10, 0]]);
    check(&v3::SCHEMA, &json!({"additionalProperties": {}}), &[&[0x82, 2, 4, 0x0a, 2, 0x0a, 0]]);
    check(&v2::SCHEMA, &json!({"additionalProperties": true}), &[&[0xaa, 1, 2, 0x10, 1]]);
    check(&v2::SCHEMA, &json!({"default": "yes"}), &[&[0x2a, 8, 0x12, 6], b"\"yes\"\n"]);
    check(&v3::SCHEMA, &json!({"default": "yes"}), &[&[0x8a, 2, 5, 0x1a, 3], b"yes"]);
    check(&v3::SCHEMA, &json!({"default": 2}), &[&[0x8a, 2, 9, 9], &2f64.to_le_bytes()]);
    check(&v3::SCHEMA, &json!({"default": {"a": 1}}), &[&[0x8a, 2, 0]]);
    check(&v3::SCHEMA, &json!({"maxLength": -1}), &[&[0x78], &[0xff; 9], &[1]]);
    check(&v3::SCHEMA, &json!({"maxLength": "1"}), &[]);
    check(&v3::SCHEMA, &json!({"unknown": 1}), &[]);
    let kinds = json!({"x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod"}]});
    let yaml = b"- group: \"\"\n  kind: Pod\n";
    check(
        &v3::SCHEMA,
        &kinds,
        &[&[0xa2, 2, 61, 0x0a, 31], b"x-kubernetes-group-version-kind", &[0x12, 26, 0x12, 24], yaml],
    );
}

#[test]
fn properties_may_have_any_name() {
    for name in ["$ref", "x-y", "default", "/a", "*", ""] {
        let schema = json!({"properties": {name: {}}});
        let length = u8::try_from(name.len()).expect("a short name");
        let expected = [&[0xfa, 1, 8 + length, 0x0a, 6 + length, 0x0a, length], name.as_bytes(), &[0x12, 2, 0x0a, 0]];
        check(&v3::SCHEMA, &schema, &expected);
    }
}

#[test]
fn message_of_a_parameter_depends_on_its_location() {
    let parameter = |place: &str| json!({"parameters": [{"in": place}]});
    check(&v2::PATH_ITEM, &parameter("body"), &[&[0x4a, 10, 0x0a, 8, 0x0a, 6, 0x1a, 4], b"body"]);
    check(&v2::PATH_ITEM, &parameter("query"), &[&[0x4a, 13, 0x0a, 11, 0x12, 9, 0x1a, 7, 0x12, 5], b"query"]);
    check(&v2::PATH_ITEM, &parameter("path"), &[&[0x4a, 12, 0x0a, 10, 0x12, 8, 0x22, 6, 0x12, 4], b"path"]);
    check(&v3::PATH_ITEM, &parameter("path"), &[&[0x6a, 8, 0x0a, 6, 0x12, 4], b"path"]);
}

fn nested(depth: usize) -> Json {
    (0..depth).fold(json!(1), |value, _| json!([value]))
}

#[test]
fn deeply_nested_values_are_written_on_one_line() {
    assert_eq!(yaml(&nested(MAX_BLOCK_DEPTH)), format!("{}1\n", "- ".repeat(MAX_BLOCK_DEPTH)));
    let deeper = MAX_BLOCK_DEPTH + 1;
    assert_eq!(yaml(&nested(deeper)), format!("{}1{}", "[".repeat(deeper), "]".repeat(deeper)));
}

#[test]
fn encoding_takes_linear_time_and_little_space_when_nested() {
    let schema = |depth: usize, leaf: Json| {
        let schema = (0..depth).fold(leaf, |schema, _| json!({"properties": {"a": schema}}));
        json!({"components": {"schemas": {"a": schema}}})
    };
    let write = |parts: usize| {
        let leaf = json!({"enum": vec![nested(20); parts], "description": "a".repeat(100 * parts)});
        assert!(v3(&schema(100, leaf)).len() > 100 * parts);
    };
    assert!(is_linear(50, write));
    let length = |depth: usize| v3(&schema(depth, json!({"description": "a".repeat(100_000)}))).len();
    assert!(length(100) < 100_000 + 100 * 40, "{}", length(100));
}
