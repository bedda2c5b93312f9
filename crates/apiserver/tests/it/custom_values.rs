//! Tests of values in custom resources. The expected messages are from kube-apiserver 1.36.1.

use pintle_apiserver::CrdChecker;
use pintle_json::{Json, json};

fn definition(spec: Json) -> Json {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec},
            }}}],
        },
    })
}

fn rejection(property: Json, value: Json) -> String {
    let crd = CrdChecker::new(definition(json!({"type": "object", "properties": {"x": property}})))
        .expect("a valid definition");
    crd.create(json!({"spec": {"x": value}})).expect_err("a rejection").to_string()
}

#[test]
fn one_byte_is_singular() {
    let found = rejection(json!({"type": "string", "maxLength": 1}), json!("ab"));
    assert!(found.ends_with("spec.x: Too long: may not be more than 1 byte"), "{found}");
}

#[test]
fn messages_of_wrong_types_name_the_format() {
    let mut wrong = Vec::new();
    for (kind, format, value, why) in [
        ("string", "date-time", json!(5), "\"int64\": spec.x in body must be of type date-time: \"int64\""),
        ("string", "email", json!(2.5), "\"float64\": spec.x in body must be of type email: \"float64\""),
        ("string", "byte", json!(true), "\"\": spec.x in body must be of type byte: \"\""),
        ("string", "duration", json!({}), "\"\": spec.x in body must be of type duration: \"\""),
        ("integer", "int32", json!(true), "\"\": spec.x in body must be of type int32: \"\""),
        ("integer", "int64", json!({}), "\"\": spec.x in body must be of type int64: \"\""),
        ("number", "float", json!(false), "\"\": spec.x in body must be of type float: \"\""),
        ("integer", "date-time", json!("a"), "\"string\": spec.x in body must be of type integer: \"string\""),
    ] {
        let found = rejection(json!({"type": kind, "format": format}), value);
        let expected = format!("invalid: spec.x: Invalid value: {why}");
        if !found.ends_with(&expected) {
            wrong.push(format!("{found}\n   expected …{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn defaults_of_any_metadata_field_are_forbidden() {
    let metadata = json!({"type": "object", "additionalProperties": {"type": "string", "default": "a"}});
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"metadata": metadata},
    });
    let found = CrdChecker::new(definition(embedded)).expect_err("a rejection").to_string();
    assert!(found.contains("must not be set inside additionalProperties applying to object metadata"), "{found}");
}

#[test]
fn large_pattern_with_an_empty_class_is_checked() {
    let property = json!({"type": "string", "pattern": r"^(\pL{200}\pN{200}|[^\s\S]|a)$"});
    let crd = CrdChecker::new(definition(json!({"type": "object", "properties": {"x": property}})))
        .expect("a valid definition");
    crd.assert_accepts(json!({"spec": {"x": "a"}}));
    assert!(crd.create(json!({"spec": {"x": "b"}})).is_err());
}

#[test]
fn null_items_and_values_get_the_default() {
    let crd = CrdChecker::new(definition(json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "number", "default": 1}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "default": "q"}},
    }})))
    .expect("a valid definition");
    let mut wrong = Vec::new();
    for (given, expected) in [
        (json!({"list": [2, null]}), json!({"list": [2, 1]})),
        (json!({"map": {"k": null}}), json!({"map": {"k": "q"}})),
    ] {
        match crd.create(json!({"spec": given})) {
            Ok(made) if Json::from(made.object["spec"].clone()) == expected => {}
            other => wrong.push(format!("{other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn closed_maps_keep_and_reject_members() {
    let closed = json!({"type": "object", "additionalProperties": false, "x-kubernetes-preserve-unknown-fields": true});
    for (property, value, expected) in [
        (
            closed.clone(),
            json!({"a": 1, "b": "c"}),
            "invalid: [spec.x: Invalid value: \"a\": spec.x.a in body is a forbidden property, \
             spec.x: Invalid value: \"b\": spec.x.b in body is a forbidden property]",
        ),
        (
            json!({"type": "array", "items": {"type": "object", "additionalProperties": false}}),
            json!([{}, {"m": [1]}]),
            "invalid: spec.x[1]: Invalid value: \"m\": spec.x[1].m in body is a forbidden property",
        ),
        (closed, json!({"b": {"c": 2}}), "strict decoding error: unknown field \"spec.x.b.c\""),
    ] {
        let found = rejection(property, value);
        assert!(found.ends_with(expected), "{found}");
    }
}
