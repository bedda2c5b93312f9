//! Tests of rules in CustomResourceDefinitions, which check the effect of schemas on types, estimated costs and values.

use std::sync::Arc;

use pintle_cel::{Activation, Environment, Schema, Value};
use serde_json::{Value as Json, json};

fn schema() -> Arc<Schema> {
    Arc::new(Schema::resource(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 10},
        "a-b": {"type": "integer"},
        "port": {"x-kubernetes-int-or-string": true},
        "since": {"type": "string", "format": "date-time"},
        "data": {"type": "string", "format": "byte"},
        "ratio": {"type": "number"},
        "note": {"type": "string", "nullable": true},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p"],
            "items": {"type": "object", "properties": {"p": {"type": "integer"}, "n": {"type": "string"}}}},
    }}}})))
}

fn evaluate(rule: &str, object: &Json, old: &Json) -> String {
    let schema = schema();
    let environment = Environment::new().data("self", &schema).data("oldSelf", &schema);
    let program = match environment.compile(rule) {
        Ok(program) => program,
        Err(error) => return error.issues()[0].message().to_string(),
    };
    let activation =
        Activation::new().bind_result("self", schema.value(object)).bind_result("oldSelf", schema.value(old));
    match program.evaluate(&activation, 1_000_000) {
        Ok(result) => result.value.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn fields_have_the_types_of_the_schema() {
    let object = json!({"metadata": {"name": "n", "labels": {}}, "spec": {
        "name": "x", "a-b": 1, "port": "http", "since": "2020-01-01T00:00:00Z", "data": "aGk=", "ratio": 1, "free": {"x": 1},
        "labels": {"a.b/c": "v"}, "set": ["a", "b"], "ports": [{"p": 1, "n": "a"}, {"p": 2}], "note": null,
    }});
    for (rule, expected) in [
        ("self.metadata.name == 'n'", "true"),
        ("self.metadata.labels", "undefined field 'labels'"),
        ("self.spec.a__dash__b + 1", "2"),
        ("self.spec.free", "undefined field 'free'"),
        ("self.spec.port == 'http' || self.spec.port == 80", "true"),
        ("self.spec.since.getFullYear()", "2020"),
        ("string(self.spec.data)", "\"hi\""),
        ("self.spec.ratio / 2.0", "0.5"),
        ("self.spec.ratio == 1", "found no matching overload for '_==_' applied to '(double, int)'"),
        ("has(self.spec.note)", "false"),
        ("self.spec.labels['a.b/c']", "\"v\""),
        ("self.spec.labels.nope", "no such key: nope"),
        ("self.spec.name > 1", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.kind", "no such key: kind"),
    ] {
        assert_eq!(evaluate(rule, &object, &object), expected, "{rule}");
    }
}

#[test]
fn lists_compare_by_their_type() {
    let spec = |set: Json, ports: Json| json!({"spec": {"set": set, "ports": ports}});
    let old = spec(json!(["a", "b"]), json!([{"p": 1, "n": "x"}, {"p": 2}]));
    let new = spec(json!(["b", "a"]), json!([{"p": 2}, {"p": 1, "n": "x"}]));
    assert_eq!(evaluate("self.spec.set == oldSelf.spec.set", &new, &old), "true");
    assert_eq!(evaluate("self.spec.ports == oldSelf.spec.ports", &new, &old), "true");
    assert_eq!(evaluate("self.spec == oldSelf.spec", &new, &old), "true");
    let other = spec(json!(["b", "c"]), json!([{"p": 2}, {"p": 1, "n": "y"}]));
    assert_eq!(evaluate("self.spec.set == oldSelf.spec.set", &other, &old), "false");
    assert_eq!(evaluate("self.spec.ports == oldSelf.spec.ports", &other, &old), "false");
    assert_eq!(evaluate("(self.spec.set + oldSelf.spec.set).size()", &other, &old), "3");
    assert_eq!(evaluate("(self.spec.ports + oldSelf.spec.ports)[1].n", &other, &old), "\"x\"");
}

#[test]
fn data_of_the_wrong_type_is_an_error() {
    for (spec, rule, expected) in [
        (json!({"name": 1}), "self.spec.name == ''", "invalid data, expected string, got int64"),
        (json!({"a-b": "x"}), "self.spec.a__dash__b == 1", "invalid data, expected int, got string"),
        (
            json!({"set": {}}),
            "self.spec.set == []",
            "invalid data, expected an array for the provided schema with type=array",
        ),
        (json!({"since": "x"}), "self.spec.since == self.spec.since", "Invalid date-time formatted string x"),
    ] {
        assert!(evaluate(rule, &json!({"spec": spec}), &json!({})).starts_with(expected), "{rule}");
    }
}

#[test]
fn estimates_depend_on_the_limits_of_the_schema() {
    let environment = Environment::new().data("self", &schema());
    let max = |rule: &str| environment.compile(rule).unwrap().estimate().max;
    assert_eq!(max("self.spec.name.startsWith('a')"), 4);
    assert_eq!(max("self.spec.name == 'abc'"), 4);
    assert!(max("self.spec.set.all(x, x.matches('a+'))") > 10_000_000);
    assert_eq!(max("self.spec.name.matches('a+')"), 8);
}

#[test]
fn optional_old_value_has_an_optional_type() {
    let schema = schema();
    let environment = Environment::new().data("self", &schema).optional_data("oldSelf", &schema);
    let program = environment.compile("oldSelf.?spec.name.orValue('none')").unwrap();
    assert!(program.uses("oldSelf") && !program.uses("self"));
    let first = Activation::new().bind("oldSelf", Value::NONE);
    assert_eq!(program.evaluate(&first, 100).unwrap().value.as_str(), Some("none"));
    let old = json!({"spec": {"name": "x"}});
    let later = Activation::new().bind_result("oldSelf", schema.value(&old).map(Value::some));
    assert_eq!(program.evaluate(&later, 100).unwrap().value.as_str(), Some("x"));
}
