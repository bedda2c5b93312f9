//! The definitions from these tests and objects that Rust has written, with the responses of a real kube-apiserver.
//!
//! `crates/conformance/cases/derived.jsonl` contains one case for each definition. This test checks that the recorded
//! requests are up to date, and that the real server stored all definitions and objects unchanged and without warnings.
//! `cargo xtask conformance --server` sends the same requests to the embedded server.

use std::collections::BTreeMap;
use std::fs;

use pintle_crd::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::{attributes, schemas, structure};

/// A definition and an object of the defined kind.
pub(crate) struct Derived {
    pub(crate) name: &'static str,
    pub(crate) definition: CustomResourceDefinition,
    /// The spec of the object, or `None` if the kind has no spec.
    pub(crate) spec: Option<Value>,
}

/// Returns a [`Derived`] for a resource with the given spec type.
macro_rules! derived {
    ($name:literal, $spec:ty, $value:expr) => {{
        #[derive(pintle_crd::Resource, Deserialize, Serialize, JsonSchema)]
        #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
        struct Thing {
            metadata: pintle_meta::ObjectMeta,
            spec: $spec,
        }
        let value: $spec = $value;
        $crate::recorded::Derived {
            name: $name,
            definition: <Thing as pintle_crd::CustomResource>::crd(),
            spec: Some(serde_json::to_value(value).unwrap()),
        }
    }};
}
pub(crate) use derived;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/cases/derived.jsonl");
/// The API group of the recorded definitions. Each run of a case replaces `${id}` with a different value.
const GROUP: &str = "${id}.derived.example.com";

fn recorded_form(text: impl ToString) -> Value {
    serde_json::from_str(&text.to_string().replace("example.com", GROUP)).unwrap()
}

/// Returns the requests of a case, which create the definition and an object.
fn requests(derived: &Derived) -> [(String, Value); 2] {
    let definition = recorded_form(serde_json::to_value(&derived.definition).unwrap());
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let (plural, kind) = (text("/spec/names/plural"), text("/spec/names/kind"));
    let namespace = if text("/spec/scope") == "Cluster" { "" } else { "/namespaces/${ns}" };
    let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": "a"}});
    if let Some(spec) = &derived.spec {
        object["spec"] = spec.clone();
    }
    [
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".into(), definition),
        (format!("/apis/{GROUP}/v1{namespace}/{plural}"), object),
    ]
}

#[test]
fn real_server_stores_derived_definitions_and_their_objects() {
    let all: Vec<_> = attributes::derived().into_iter().chain(schemas::derived()).chain(structure::derived()).collect();
    if let Ok(path) = std::env::var("PINTLE_WRITE_DERIVED") {
        let requests: BTreeMap<_, _> = all.iter().map(|derived| (derived.name, requests(derived))).collect();
        return fs::write(path, serde_json::to_string(&requests).unwrap()).unwrap();
    }
    let text = fs::read_to_string(CASES).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), all.len(), "each definition has one case");
    for derived in &all {
        let name = format!("derived/{}", derived.name);
        let case = cases.iter().find(|case| case["name"] == *name).unwrap_or_else(|| panic!("{name} is not recorded"));
        let posts = case["steps"].as_array().unwrap().iter().filter(|step| step["do"] == "POST");
        let posts: Vec<_> = posts.collect();
        assert_eq!(posts.len(), 2, "{name}");
        for ((path, body), step) in requests(derived).iter().zip(posts) {
            assert_eq!((step["path"].as_str(), &step["body"]), (Some(&**path), body), "{name} must be recorded again");
            let (answer, is_deprecated) = (&step["answer"], body["kind"] == "Policy");
            let warning = answer["headers"]["warning"].as_str();
            assert_eq!(answer["status"], 201, "{name}: {answer}");
            assert_eq!(warning.is_some_and(|text| text.contains("is deprecated")), is_deprecated, "{name}: {answer}");
            assert!(warning.is_none() || is_deprecated, "{name}: {answer}");
            let changed = format!("{name}: the server has changed the object");
            assert_eq!(without_nulls(&answer["at"]["/spec"]), without_nulls(&stored(&body["spec"])), "{changed}");
        }
    }
}

/// Returns the spec with the fields that the server adds to every definition.
fn stored(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec.get("versions").is_some() && spec.get("conversion").is_none() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    spec
}

/// Returns the value in recorded form and without nulls. kube-apiserver drops most nulls, and Rust decodes null like an
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
