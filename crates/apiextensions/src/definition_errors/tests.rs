//! Tests that the errors for invalid schemas match kube-apiserver's.

use pintle_apimachinery::validate::FieldError;
use pintle_json::{Json, json};

use super::structure;
use crate::pattern::Patterns;
use crate::validator::MAX_STEPS;

#[track_caller]
fn check(schema: Json, expected: &[&str]) {
    let errors = structure::all(&schema, "s", &mut Patterns::default(), &mut { MAX_STEPS });
    let mut messages: Vec<_> = errors.into_iter().map(|error| error.to_string()).collect();
    messages.sort();
    assert_eq!(messages, expected, "{schema}");
}

fn with(a: Json) -> Json {
    json!({"type": "object", "properties": {"a": a}})
}

const E: &str = "x-kubernetes-embedded-resource";
const I: &str = "x-kubernetes-int-or-string";
const P: &str = "x-kubernetes-preserve-unknown-fields";

fn flagged(flags: &[&str], mut more: Json) -> Json {
    flags.iter().for_each(|flag| more.set(flag, true));
    more
}

#[test]
fn additional_properties_exclude_properties_unless_true() {
    let with_additional = |more: Json| {
        with(json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": more}))
    };
    let exclusive =
        "s.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive";
    check(with_additional(json!(true)), &[]);
    check(with_additional(Json::Null), &[]);
    check(with_additional(json!(false)), &[exclusive]);
    check(with_additional(json!({"type": "string"})), &[exclusive]);
    for more in [json!(true), json!(false), json!({"type": "string"})] {
        let root = json!({"type": "object", "additionalProperties": more});
        check(root, &["s.additionalProperties: Forbidden: must not be used at the root"]);
    }
}

#[test]
fn contradictory_extensions_are_rejected() {
    let no_flag = |path: &str, flag: &str| {
        format!("s{path}.{flag}: Invalid value: true: must be false if x-kubernetes-int-or-string is true")
    };
    check(flagged(&[I, P], json!({})), &[&no_flag("", P)]);
    check(
        with(flagged(&[I, E, P], json!({"type": "object"}))),
        &[&no_flag(".properties[a]", E), &no_flag(".properties[a]", P)],
    );
    let empty = "s.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
    let no_type = "s.type: Required value: must be object if x-kubernetes-embedded-resource is true";
    check(flagged(&[E], json!({})), &[empty, no_type]);
    check(
        flagged(&[E], json!({"type": "array", "items": {"type": "string"}})),
        &[
            empty,
            "s.type: Invalid value: \"array\": must be object at the root",
            "s.type: Invalid value: \"array\": must be object if x-kubernetes-embedded-resource is true",
        ],
    );
    check(
        with(flagged(&[E, P], json!({"type": "object", "additionalProperties": {"type": "string"}}))),
        &["s.properties[a].additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set"],
    );
}

#[test]
fn types_of_kind_api_version_and_metadata_are_fixed() {
    let members =
        json!({"kind": {"type": "integer"}, "apiVersion": {"type": "integer"}, "metadata": {"type": "string"}});
    check(
        with(flagged(&[E], json!({"type": "object", "properties": members}))),
        &[
            "s.properties[a].properties[apiVersion].type: Invalid value: \"integer\": must be string",
            "s.properties[a].properties[kind].type: Invalid value: \"integer\": must be string",
            "s.properties[a].properties[metadata].type: Invalid value: \"string\": must be object",
        ],
    );
    check(
        json!({"type": "object", "properties": {"kind": {}}}),
        &[
            "s.properties[kind].type: Invalid value: \"\": must be string",
            "s.properties[kind].type: Required value: must not be empty for specified object fields",
        ],
    );
    let more = "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified";
    for (schema, expected) in [
        (json!({"properties": {"name": {"type": "string"}}}), &[][..]),
        (json!({"properties": {}, "description": "", "nullable": false}), &[]),
        (json!({"properties": {"name": {"type": "string"}, "labels": {"type": "object"}}}), &[more]),
        (json!({"description": "x"}), &[more]),
        (json!({"required": ["name"]}), &[more]),
        (json!({"minProperties": 1}), &[more]),
        (flagged(&[P], json!({})), &[more]),
    ] {
        let mut metadata = schema;
        metadata.set("type", "object");
        check(json!({"type": "object", "properties": {"metadata": metadata}}), expected);
    }
}

#[test]
fn types_in_branches_are_rejected_except_int_or_string() {
    let (either, other) =
        (json!([{"type": "integer"}, {"type": "string"}]), json!([{"type": "string"}, {"type": "integer"}]));
    let at = |path: &str| format!("s.properties[a].{path}.type: Forbidden: must be empty to be structural");
    for (branches, expected) in [
        (json!({"anyOf": either}), &[][..]),
        (json!({"allOf": [{"anyOf": either}]}), &[]),
        (json!({"anyOf": other}), &["anyOf[0]", "anyOf[1]"]),
        (json!({"anyOf": [{"type": "integer"}]}), &["anyOf[0]"]),
        (json!({"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]}), &["anyOf[0]", "anyOf[1]"]),
        (json!({"oneOf": either}), &["oneOf[0]", "oneOf[1]"]),
        (json!({"allOf": [{"anyOf": either}, {"anyOf": either}]}), &["allOf[1].anyOf[0]", "allOf[1].anyOf[1]"]),
        (
            json!({"allOf": [{"allOf": [{"anyOf": either}]}]}),
            &["allOf[0].allOf[0].anyOf[0]", "allOf[0].allOf[0].anyOf[1]"],
        ),
        (json!({"anyOf": [{"anyOf": either}]}), &["anyOf[0].anyOf[0]", "anyOf[0].anyOf[1]"]),
    ] {
        let expected: Vec<_> = expected.iter().map(|path| at(path)).collect();
        check(with(flagged(&[I], branches)), &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn defaults_of_embedded_objects_must_be_valid_objects() {
    let (plain, object) = (json!({"type": "object"}), |more: Json| {
        let mut schema = flagged(&[E], json!({"type": "object", "properties": {"spec": {"type": "object"}}}));
        more.members("").for_each(|(key, value)| schema.set(key, value.clone()));
        with(schema)
    });
    let metadata = |mut metadata: Json, default: Json| {
        metadata.set("default", default);
        object(json!({"properties": {"metadata": metadata}}))
    };
    let default = "s.properties[a].default";
    let of_metadata = "s.properties[a].properties[metadata].default: Invalid value: ";
    check(
        object(json!({"default": {"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "x", "unknown": "y"}}})),
        &[],
    );
    check(metadata(plain.clone(), json!({"name": "x", "unknown": "y"})), &[]);
    check(object(json!({"default": {"kind": "K"}})), &[&format!("{default}.apiVersion: Required value")]);
    check(
        object(json!({"default": {"apiVersion": "a/v1", "kind": "K", "metadata": {"unknown": "y"}, "foo": 1}})),
        &[&format!(
            "{default}: Invalid value: {{\"apiVersion\":\"a/v1\",\"foo\":1,\"kind\":\"K\",\"metadata\":{{}}}}: must not have unknown fields"
        )],
    );
    check(
        metadata(plain, json!({"name": 5})),
        &[&format!(
            "{of_metadata}{{\"name\":5}}: must result in valid metadata: metadata: Invalid value: {{\"name\":5}}: json: cannot \
             unmarshal number into Go struct field ObjectMeta.name of type string"
        )],
    );
    let name = json!({"type": "object", "properties": {"name": {"type": "string", "default": ".."}}});
    check(
        object(json!({"properties": {"metadata": name}})),
        &[
            "s.properties[a].properties[metadata].properties[name].default: Invalid value: \"..\": must result in valid metadata: \
           metadata.name: Invalid value: \"..\": may not be '..'",
        ],
    );
}

#[test]
fn defaults_must_pass_the_rules_of_their_schemas() {
    let rules = |rules: &[&str]| rules.iter().map(|rule| json!({"rule": rule})).collect::<Json>();
    let text = |rule: &str, default: &str| {
        with(json!({"type": "string", "maxLength": 9, "default": default, "x-kubernetes-validations": rules(&[rule])}))
    };
    let at = "s.properties[a].default";
    check(text("self == 'x'", "x"), &[]);
    check(text("self == 'x'", "y"), &[&format!("{at}: Invalid value: \"y\": failed rule: self == 'x'")]);
    check(text("oldSelf == self", "y"), &[]);
    let wrong = format!(
        "{at}: Invalid value: \"string\": rule compile error: compilation failed: ERROR: <input>:1:6: found no matching overload \
         for '_>_' applied to '(string, int)'\n | self > 1\n | .....^"
    );
    check(text("self > 1", "y"), &[&wrong]);

    // A rule with `optionalOldSelf` can succeed for an update and fail for a create.
    let optional = json!([{"rule": "oldSelf.hasValue() || self != 'y'", "optionalOldSelf": true}]);
    let schema = json!({"type": "string", "maxLength": 9, "default": "y", "x-kubernetes-validations": optional});
    let failed = "failed rule: oldSelf.hasValue() || self != 'y'";
    check(with(schema), &[&format!("{at}: Invalid value: \"y\": {failed}")]);

    let item = json!({"type": "integer", "x-kubernetes-validations": rules(&["self > 0"])});
    let list = json!({"type": "array", "maxItems": 9, "items": item});
    let ratio = json!([{"rule": "self.n < 5", "message": "too large", "fieldPath": ".n"}]);
    let object = json!({
        "type": "object", "properties": {"n": {"type": "integer"}, "l": list}, "default": {"n": 7, "l": [1, 0]},
        "x-kubernetes-validations": ratio,
    });
    check(
        with(object),
        &[&format!("{at}.l[1]: Invalid value: 0: failed rule: self > 0"), &format!("{at}.n: Invalid value: too large")],
    );

    // If a schema has other errors, its rules are not checked.
    let typed =
        json!({"type": "string", "maxLength": 9, "default": 1, "x-kubernetes-validations": rules(&["self == 'x'"])});
    check(with(typed), &[&format!("{at}: Invalid value: \"integer\":  in body must be of type string: \"integer\"")]);
}

#[test]
fn rules_of_defaults_share_one_budget() {
    let slow = json!([{"rule": "self.all(a, self.all(b, a <= b || a > b))"}]);
    let values: Json = (0..300).collect::<Vec<i64>>().into();
    let schema = json!({
        "type": "array", "maxItems": 300, "items": {"type": "integer"}, "default": values, "x-kubernetes-validations": slow,
    });
    let properties: Json = (0..100).map(|at| (format!("p{at}"), schema.clone())).collect();
    let begin = std::time::Instant::now();
    let schema = json!({"type": "object", "properties": properties});
    let errors = structure::all(&schema, "s", &mut Patterns::default(), &mut { MAX_STEPS });
    let out = errors.iter().filter(|error| error.to_string().contains("running out of cost budget")).count();
    assert_eq!(out, 1, "{errors:?}");
    assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn defaults_are_not_validated_beside_other_errors() {
    let items = "s.properties[a].items";
    for (a, expected) in [
        (json!({"type": "array"}), format!("{items}: Required value: must be specified")),
        (
            json!({"type": "array", "items": [{"type": "string"}]}),
            format!("{items}: Forbidden: items must be a schema object and not an array"),
        ),
        (json!({"type": "string", "id": "x"}), "s.properties[a].id: Forbidden: id is not supported".into()),
        (
            json!({"type": "string", "not": {"pattern": "("}}),
            "s.properties[a].not.pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error \
             parsing regexp: missing closing ): `(`"
                .into(),
        ),
    ] {
        let defaulted = json!({"type": "object", "required": ["k"], "default": {}});
        let ruled = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self > 0"}]});
        check(json!({"type": "object", "properties": {"a": a, "b": defaulted, "c": ruled}}), &[&expected]);
    }
}

#[test]
fn items_of_sets_and_keyed_lists_cannot_be_nullable() {
    for (kind, mut list) in [
        ("set", json!({"items": {"type": "string", "nullable": true}})),
        (
            "map",
            json!({
                "items": {
                    "type": "object", "nullable": true, "required": ["k"], "properties": {"k": {"type": "string"}},
                },
                "x-kubernetes-list-map-keys": ["k"],
            }),
        ),
    ] {
        list.set("type", "array");
        list.set("x-kubernetes-list-type", kind);
        let why = format!(
            "s.properties[a].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is {kind}"
        );
        check(with(list), &[&why]);
    }
}

#[test]
fn default_of_int_or_string_can_have_any_type() {
    for default in [json!([]), json!({}), json!(true), json!(1.5), json!("a")] {
        check(with(flagged(&[I], json!({"default": default}))), &[]);
    }
    let typed = flagged(&[I], json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "default": []}));
    check(
        with(typed),
        &[
            "s.properties[a].default: Invalid value: \"\": \"\" must validate at least one schema (anyOf)",
            "s.properties[a].default: Invalid value: \"array\":  in body must be of type integer: \"array\"",
        ],
    );
}

#[test]
fn root_keywords_are_limited_beside_a_status_subresource() {
    let errors = |status: bool, keyword: &str, value: Json| {
        let mut schema = json!({"type": "object"});
        schema.set(keyword, value);
        let subresources = if status { json!({"status": {}}) } else { json!({}) };
        let version = json!({"name": "v1", "served": true, "storage": true, "subresources": subresources,
                             "schema": {"openAPIV3Schema": schema}});
        let errors = super::version::all(&json!({"spec": {"versions": [version]}}));
        let rule = |error: &&FieldError| error.message.ends_with("if the status subresource is enabled");
        errors.iter().filter(rule).map(|error| error.field.clone()).collect::<Vec<_>>()
    };
    const ROOT: &str = "spec.validation.openAPIV3Schema";
    for (keyword, value, expected) in [
        ("oneOf", json!([{"required": ["a"]}]), &[ROOT][..]),
        ("maxProperties", json!(3), &[ROOT]),
        ("enum", json!([{}]), &[ROOT]),
        ("nullable", json!(false), &[]),
        ("required", json!(["spec"]), &[]),
        ("x-kubernetes-validations", json!([{"rule": "true"}]), &[]),
        ("type", json!("array"), &["spec.validation.openAPIV3Schema.type"]),
    ] {
        assert_eq!(errors(true, keyword, value.clone()), expected, "{keyword}");
        assert_eq!(errors(false, keyword, value), [""; 0], "{keyword}");
    }
}
