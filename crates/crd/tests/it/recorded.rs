//! Compares the definitions from these tests, and writes of their objects, with the recorded responses of a real
//! kube-apiserver.
//!
//! `crates/conformance/cases/derived.jsonl` contains one case for each definition. This module checks that the recorded
//! requests are up to date. Also checks that the real server stored all definitions and valid objects unchanged and
//! without warnings, and rejected invalid objects. `cargo xtask conformance --server` sends the same requests to the
//! embedded server.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::derived::{Derived, Write};
use crate::{attributes, schemas, structure, variants};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/cases/derived.jsonl");
/// The API group of the recorded definitions. Each run of a case replaces `${id}` with a different value.
const GROUP: &str = "${id}.derived.example.com";

fn recorded_form(text: impl ToString) -> Value {
    serde_json::from_str(&text.to_string().replace("example.com", GROUP)).unwrap()
}

/// A request of a case.
struct Request {
    method: &'static str,
    path: String,
    body: Value,
    /// A part of the expected error message, or `None` if the server must accept the request.
    error: Option<&'static str>,
}

/// Returns the requests of a case, which create the definition and write objects.
fn requests(derived: &Derived) -> Vec<Request> {
    let definition = recorded_form(serde_json::to_value(&derived.definition).unwrap());
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let (plural, kind) = (text("/spec/names/plural"), text("/spec/names/kind"));
    let namespace = if text("/spec/scope") == "Cluster" { "" } else { "/namespaces/${ns}" };
    let collection = format!("/apis/{GROUP}/v1{namespace}/{plural}");
    let create = |name: char, spec: Option<&Value>, error: Option<&'static str>| {
        let mut body = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}});
        if let Some(spec) = spec {
            body["spec"] = spec.clone();
        }
        Request { method: "POST", path: collection.clone(), body, error }
    };
    let mut requests = vec![create('a', derived.spec.as_ref(), None)];
    let (mut last, mut names) = ('a', 'b'..='z');
    for Write { spec, is_update, error } in &derived.writes {
        if *is_update {
            let body = json!([{"op": "replace", "path": "/spec", "value": spec}]);
            requests.push(Request { method: "PATCH", path: format!("{collection}/{last}"), body, error: *error });
            continue;
        }
        let name = names.next().unwrap();
        requests.push(create(name, Some(spec), *error));
        if error.is_none() {
            last = name;
        }
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".into();
    requests.insert(0, Request { method: "POST", path, body: definition, error: None });
    requests
}

#[test]
fn real_server_agrees_with_derived_definitions() {
    let all = [attributes::derived(), schemas::derived(), structure::derived(), variants::derived()];
    let all: Vec<Derived> = all.into_iter().flatten().collect();
    if let Ok(path) = std::env::var("PINTLE_WRITE_DERIVED") {
        let requests = all.iter().map(|derived| {
            let requests = requests(derived).into_iter();
            (derived.name, requests.map(|request| (request.method, request.path, request.body)).collect::<Vec<_>>())
        });
        let requests: BTreeMap<_, _> = requests.collect();
        return fs::write(path, serde_json::to_string(&requests).unwrap()).unwrap();
    }
    let text = fs::read_to_string(CASES).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), all.len(), "each definition has one case");
    for derived in &all {
        let name = format!("derived/{}", derived.name);
        let case = cases.iter().find(|case| case["name"] == *name).unwrap_or_else(|| panic!("{name} is not recorded"));
        let steps =
            case["steps"].as_array().unwrap().iter().filter(|step| step["do"] == "POST" || step["do"] == "PATCH");
        let (steps, requests): (Vec<_>, _) = (steps.collect(), requests(derived));
        assert_eq!(steps.len(), requests.len(), "{name} must be recorded again");
        for (request, step) in requests.iter().zip(steps) {
            let Request { method, path, body, .. } = request;
            let recorded = (step["do"].as_str(), step["path"].as_str(), &step["body"]);
            assert_eq!(recorded, (Some(*method), Some(&**path), body), "{name} must be recorded again");
            check_answer(&name, request, &step["answer"]);
        }
    }
}

fn check_answer(name: &str, request: &Request, answer: &Value) {
    let body = &request.body;
    if let Some(error) = request.error {
        assert_eq!(answer["status"], 422, "{name}: {body}: {answer}");
        assert!(answer["body"]["message"].as_str().unwrap().contains(error), "{name}: {body}: {answer}");
        return;
    }
    let is_deprecated = body["kind"] == "Policy";
    let warning = answer["headers"]["warning"].as_str();
    let status = if request.method == "POST" { 201 } else { 200 };
    assert_eq!(answer["status"], status, "{name}: {body}: {answer}");
    assert_eq!(warning.is_some_and(|text| text.contains("is deprecated")), is_deprecated, "{name}: {answer}");
    assert!(warning.is_none() || is_deprecated, "{name}: {answer}");
    let spec = if request.method == "POST" { &body["spec"] } else { &body[0]["value"] };
    let changed = format!("{name}: the server has changed the object");
    assert_eq!(without_nulls(&answer["at"]["/spec"]), without_nulls(&stored(spec)), "{changed}");
}

/// Returns the spec with the fields that the server adds to every definition.
fn stored(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec.get("versions").is_some() && spec.get("conversion").is_none() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    spec
}

/// Returns the value in recorded form, without nulls. kube-apiserver drops most nulls, and Rust decodes null like an
/// absent member.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let present = members.iter().filter(|(_, member)| !member.is_null());
            present.map(|(name, member)| (name.clone(), without_nulls(member))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => "<time>".into(),
        other => other.clone(),
    }
}
