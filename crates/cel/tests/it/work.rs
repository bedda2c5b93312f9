//! Tests with small expressions that read long texts many times. The evaluator must count this work or avoid it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_cel::{Activation, Environment, Schema, Type};
use serde_json::{Value as Json, json};

const BUDGET: u64 = 200_000;
const OUT_OF_BUDGET: &str = "operation cancelled: actual cost limit exceeded";

fn schema() -> Json {
    let text = |format: &str| json!({"type": "string", "format": format});
    let entry = json!({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]});
    json!({"type": "object", "properties": {
        "text": {"type": "string"},
        "entries": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": entry,
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "otherSet": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "bytes": text("byte"),
        "date": text("date"),
        "time": text("date-time"),
        "span": text("duration"),
        "manyBytes": {"type": "array", "items": text("byte")},
        "mapOfBytes": {"type": "object", "additionalProperties": text("byte")},
    }})
}

/// Checks for each test that an evaluation exceeds the work limit if it repeats the test 100 times.
fn assert_counted(tests: &[&str], data: &Json) {
    let evaluated = |test: &&&str| evaluated(&format!("lists.range(100).all(i, {test})"), data);
    let uncounted: Vec<_> = tests.iter().filter(|test| evaluated(test) != OUT_OF_BUDGET).collect();
    assert!(uncounted.is_empty(), "{uncounted:#?}");
}

fn evaluated(expression: &str, data: &Json) -> String {
    let schema = Arc::new(Schema::new(&schema()));
    let environment = Environment::new().data("self", &schema).variable("any", Type::Dyn);
    let program = environment.compile(expression).expect(expression);
    let variables = Activation::new().bind_result("self", schema.value(data)).bind("any", &data["any"]);
    let start = Instant::now();
    let result = match program.evaluate(&variables, BUDGET) {
        Ok(result) => result.value.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(start.elapsed() < Duration::from_secs(20), "{expression} took {:?}", start.elapsed());
    result
}

#[test]
fn work_on_long_keys_is_counted() {
    let long = "k".repeat(1 << 20);
    let data = json!({
        "text": &long, "any": {"m": {&long: 1}}, "map": {&long: 1}, "set": [&long], "entries": [{"k": &long}],
    });
    let tests = [
        "(self.entries + self.entries).size() == 1",
        "(self.entries + dyn([{'k': 'x'}])).size() == 2",
        "self.entries == self.entries",
        "self.set == self.set",
        "self.map == self.map",
        "any.m == any.m",
        "{self.text: 1} == self.map",
        "self.map.all(k, v, v == 1)",
        "self.text in self.map",
        "self.map[self.text] == 1",
    ];
    assert_counted(&tests, &data);
}

#[test]
fn work_on_unequal_collections_is_counted() {
    let numbers =
        |first: usize| -> Json { (first..first + 20_000).map(|number| (number.to_string(), json!(1))).collect() };
    let texts = |first: usize| -> Json { (first..first + 20_000).map(|number| json!(number.to_string())).collect() };
    let data = json!({"any": {"m": numbers(0), "n": numbers(1)}, "set": texts(0), "otherSet": texts(1)});
    assert_counted(&["[any.m] != [any.n]", "[dyn(self.set)] != [dyn(self.otherSet)]"], &data);
}

#[test]
fn sets_are_merged_and_compared_in_linear_time() {
    let texts: Vec<_> = (0..2_000).map(|number| json!(number.to_string())).collect();
    let data = json!({"set": texts, "numbers": (0..2_000).collect::<Vec<_>>()});
    for expression in [
        "(self.set + self.set).size() == 2000",
        "(self.numbers + self.numbers).size() == 2000",
        "(self.numbers + [2000, 2000]).size() == 2001",
        "self.set == self.set",
        "self.numbers == self.numbers",
        "self.numbers != self.numbers.map(x, x + 1)",
    ] {
        assert_eq!(evaluated(expression, &data), "true", "{expression}");
    }
}

#[test]
fn work_of_parsing_formatted_strings_is_counted() {
    let base64 = "QUJD".repeat(1 << 18);
    let long = "2020-01-01 ".repeat(1 << 17);
    let data = json!({
        "bytes": &base64, "date": &long, "time": &long, "span": "0s".repeat(1 << 19), "manyBytes": [&base64],
        "mapOfBytes": {"a": &base64},
    });
    let tests = [
        "self.bytes != b''",
        "self.manyBytes[0] != b''",
        "self.manyBytes.all(x, x != b'')",
        "self.manyBytes.exists(x, i >= 0)",
        "self.manyBytes == self.manyBytes",
        "!(b'' in self.manyBytes)",
        "self.manyBytes.first().hasValue()",
        "self.mapOfBytes.a != b''",
        "'a' in self.mapOfBytes",
        "self.mapOfBytes == {'a': b''} || true",
        "self.date == timestamp(0) || true",
        "self.time == timestamp(0) || true",
        "self.span == duration('0s')",
    ];
    assert_counted(&tests, &data);
}

#[test]
fn work_of_reading_opaque_values_is_counted() {
    let long = "a".repeat(1 << 18);
    let data = json!({"text": format!("https://{long}/{long}?{long}"), "any": {"version": format!("1.0.0-{long}")}});
    for (value, test) in [
        ("url(self.text)", "x == x"),
        ("url(self.text)", "x.getQuery().size() == 1"),
        ("semver(any.version)", "x == x"),
        ("semver(any.version)", "x.compareTo(x) == 0"),
        ("semver(any.version)", "!x.isLessThan(x)"),
    ] {
        // The expression also reads the value once outside of the loop, which has a high cost.
        let expression = format!("[{value}].all(x, lists.range(5000).all(i, {test}))");
        assert_eq!(evaluated(&expression, &data), OUT_OF_BUDGET, "{expression}");
    }
}

#[test]
fn conversions_of_long_texts_are_counted() {
    let (digits, path) = ("1".repeat(1 << 20), "/%41".repeat(1 << 18));
    let data = json!({"any": {"fraction": format!("0.{digits}"), "digits": digits, "path": path}});
    let tests = [
        "isURL(any.path)",
        "bytes(dyn(any.digits)) != b''",
        "double(any.fraction) < 1.0",
        "'%x'.format([any.digits]) != ''",
        "duration(any.digits) == duration('0s') || true",
    ];
    assert_counted(&tests, &data);
}

#[test]
fn comparison_with_a_long_text_is_fast() {
    let data = json!({"text": "x".repeat(16 << 20), "any": {"text": "\u{e9}".repeat(8 << 20)}});
    for test in ["'a' != self.text", "!(self.text == 'a')", "any.text != 'a'"] {
        assert_eq!(evaluated(&format!("lists.range(15000).all(i, {test})"), &data), "true", "{test}");
    }
}

#[test]
fn url_parts_are_computed_once() {
    let long = "a%20\u{e9}".repeat(1 << 15);
    let data = json!({"text": format!("https://{}/{long}?{long}", "a".repeat(1 << 18))});
    for test in [
        "u.getScheme() != ''",
        "u.getHost() != ''",
        "u.getHostname() != ''",
        "u.getPort() == ''",
        "u.getEscapedPath() != ''",
    ] {
        let expression = format!("[url(self.text)].all(u, lists.range(10000).all(i, {test}))");
        assert_eq!(evaluated(&expression, &data), "true", "{test}");
    }
}
