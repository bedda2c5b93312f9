//! Evaluates rules with schemas and objects. The expected messages are from kube-apiserver 1.36.1.

use pintle_json::{Json, json};

use super::{RuleTree, evaluate};
use crate::definition_errors::schema_errors;
use crate::pattern::Patterns;
use crate::structural::Structural;

fn rules(rules: &[&str]) -> Json {
    rules.iter().map(|rule| json!({"rule": rule})).collect::<Vec<_>>().into()
}

fn schema(spec: Json) -> Json {
    json!({"type": "object", "properties": {"spec": spec}})
}

fn write(schema: &Json, new: Json, old: Option<Json>) -> (Vec<String>, Vec<String>) {
    let tree = RuleTree::read(schema).expect("there are rules");
    let mut errors = evaluate(&tree, &Structural::read(schema, &mut Patterns::default()), &new, old.as_ref());
    let warnings = errors.take_warnings();
    (errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect(), warnings)
}

#[test]
fn failed_rules_are_reported_at_their_values() {
    let item = json!({"type": "integer", "x-kubernetes-validations": rules(&["self > 0"])});
    let spec = schema(json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "l": {"type": "array", "maxItems": 9, "items": item}},
        "x-kubernetes-validations": rules(&["self.n > 3", "self.missing == 1"]),
    }));
    let (errors, _) = write(&spec, json!({"spec": {"n": 1, "l": [1, 0]}}), None);
    assert_eq!(
        errors,
        ["spec: Invalid value: failed rule: self.n > 3", "spec.l[1]: Invalid value: 0: failed rule: self > 0"]
    );
    let (errors, _) = write(&spec, json!({"spec": {}}), None);
    assert_eq!(errors, ["spec: Invalid value: \"object\": no such key: n evaluating rule: self.n > 3"]);
    assert!(write(&spec, json!({"spec": {"n": 4}}), None).0.is_empty());
}

#[test]
fn transition_rules_need_an_old_value() {
    let keyed = json!({
        "type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object", "required": ["k"],
            "properties": {"k": {"type": "string", "maxLength": 9}, "v": {"type": "integer"}},
            "x-kubernetes-validations": rules(&["self.v >= oldSelf.v"]),
        },
    });
    let schema = schema(json!({"type": "object", "properties": {"l": keyed}}));
    let list = |items: Json| json!({"spec": {"l": items}});
    let old = || list(json!([{"k": "a", "v": 5}, {"k": "b", "v": 5}]));
    assert!(write(&schema, list(json!([{"k": "a", "v": 1}])), None).0.is_empty(), "there is no old value");
    let moved = list(json!([{"k": "c", "v": 1}, {"k": "b", "v": 4}, {"k": "a", "v": 5}]));
    assert_eq!(write(&schema, moved, Some(old())).0, ["spec.l[1]: Invalid value: failed rule: self.v >= oldSelf.v"]);
}

#[test]
fn failure_of_an_unchanged_value_is_a_warning() {
    let rule = json!([{"rule": "self.n < 5", "message": "too large"}]);
    let inner = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": rule});
    let schema = schema(json!({"type": "object", "properties": {"o": inner, "x": {"type": "integer"}}}));
    let object = |n: i64, x: i64| json!({"spec": {"o": {"n": n}, "x": x}});
    let (errors, warnings) = write(&schema, object(9, 2), Some(object(9, 1)));
    assert!(errors.is_empty());
    assert_eq!(warnings, ["spec.o: Invalid value: too large"]);
    assert_eq!(write(&schema, object(8, 1), Some(object(9, 1))).0, ["spec.o: Invalid value: too large"]);
}

#[test]
fn message_reason_and_field_path_are_used() {
    let rule = json!([{
        "rule": "self.n < 5", "message": "plain", "messageExpression": "'n is ' + string(self.n)",
        "reason": "FieldValueForbidden", "fieldPath": ".n",
    }]);
    let schema =
        schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": rule}));
    assert_eq!(write(&schema, json!({"spec": {"n": 9}}), None).0, ["spec.n: Forbidden: n is 9"]);
}

#[test]
fn budget_of_an_object_ends_the_evaluation() {
    let item = json!({"type": "string", "x-kubernetes-validations": rules(&["!self.contains('y')"])});
    let schema = schema(json!({"type": "array", "items": item}));
    let items: Vec<_> = (0..400).map(|_| json!("x".repeat(300_000))).collect();
    let (errors, _) = write(&schema, json!({"spec": items}), None);
    let [error] = &errors[..] else { panic!("{} errors", errors.len()) };
    assert!(error.ends_with("running out of cost budget, no further validation rules will be run"), "{error}");
}

#[test]
fn rules_of_definitions_are_checked() {
    let spec = |rules: Json| {
        let properties = json!({"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}});
        schema(json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules}))
    };
    let at = |rest: &str| format!("path.properties[spec].x-kubernetes-validations[0].{rest}");
    for (rule, expected) in [
        (json!({"rule": "self.n > 1"}), None),
        (json!({"rule": " "}), Some((at("rule"), "Required value: rule is not specified"))),
        (json!({"rule": "self.n > 1", "message": "a\nb"}), Some((at("message"), "must not contain line breaks"))),
        (json!({"rule": "self.n > 1", "reason": "No"}), Some((at("reason"), "Unsupported value: \"No\""))),
        (json!({"rule": "self.n > 1", "fieldPath": ".m"}), Some((at("fieldPath"), "must be a valid path"))),
        (json!({"rule": "self.n"}), Some((at("rule"), "cel expression must evaluate to a bool"))),
        (
            json!({"rule": "self.m > 1"}),
            Some((at("rule"), "compilation failed: ERROR: <input>:1:5: undefined field 'm'")),
        ),
        (
            json!({"rule": "self.n > 1", "messageExpression": "self.n"}),
            Some((at("messageExpression"), "messageExpression must evaluate to a string")),
        ),
        (json!({"rule": "self.n > 1", "optionalOldSelf": true}), Some((at("optionalOldSelf"), "may not be set"))),
        (
            json!({"rule": "self.l.all(x, self.l.all(y, x != y))"}),
            Some((at("rule"), "Forbidden: estimated rule cost exceeds budget by factor of more than 100x")),
        ),
    ] {
        let errors = schema_errors(&spec(json!([rule])), "path");
        match expected {
            None => assert!(errors.is_empty(), "{errors:?}"),
            Some((field, message)) => {
                let found = errors.iter().any(|error| error.field == field && error.message.contains(message));
                assert!(found, "{field} {message}: {errors:?}");
            }
        }
    }
}

#[test]
fn undeclared_members_never_ratchet() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = schema(json!({
        "type": "object",
        "properties": {"p": open, "n": {"type": "integer"}},
        "x-kubernetes-validations": rules(&["self.n > 3"]),
    }));
    let closed = json!({"spec": {"n": 1, "p": {}}});
    assert_eq!(write(&spec, closed.clone(), Some(closed)).0, [""; 0]);
    let undeclared = json!({"spec": {"n": 1, "p": {"z": 1}}});
    let failed = ["spec: Invalid value: failed rule: self.n > 3"];
    assert_eq!(write(&spec, undeclared.clone(), Some(undeclared)).0, failed);
}
