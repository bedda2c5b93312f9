//! Tests that generated custom resources are valid.

use std::collections::{BTreeMap, BTreeSet};

use pintle_crd::{CustomResource, Resource};
use pintle_meta::{ObjectMeta, WriteOptions};
use pintle_testkit::{CrdChecker, Kit, Violation, generate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::website::{Website, operator};

/// A type with one field for each schema feature.
#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1")]
struct Everything {
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[schemars(regex(pattern = "^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$"), length(min = 3))]
    name: String,
    #[schemars(range(min = 2, max = 9))]
    bounded: u8,
    unbounded: i64,
    #[serde(default = "seven")]
    with_default: u32,
    ratio: Option<f64>,
    flag: bool,
    mode: Mode,
    source: Source,
    backend: Option<Backend>,
    labels: BTreeMap<String, String>,
    by_number: BTreeMap<u16, Option<bool>>,
    #[schemars(length(min = 1, max = 4))]
    list: Vec<Item>,
    set: BTreeSet<String>,
    #[schemars(schema_with = "int_or_string")]
    port: serde_json::Value,
    anything: serde_json::Value,
    #[schemars(extend("format" = "date-time"))]
    since: Option<String>,
    nested: Option<Box<Nested>>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Nested {
    list: Vec<Vec<Item>>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Item {
    id: String,
    weight: Option<u16>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
enum Mode {
    Fast,
    Careful,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Source {
    Git { url: String, depth: Option<u8> },
    Image(Item),
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum Backend {
    Disk { path: String },
    Memory { megabytes: u16 },
}

fn seven() -> u32 {
    7
}

fn int_or_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-int-or-string": true})
}

#[test]
fn server_accepts_generated_resources_of_every_shape() -> Result<(), Violation> {
    Kit::new(operator).run(async |lab| {
        let definitions = lab.user().api();
        definitions.apply(&Everything::crd(), &WriteOptions::apply("test")).await.unwrap();
        lab.server().settle().await;
        let mut seen = BTreeSet::new();
        for seed in 0..300 {
            let object: Everything = generate(seed);
            let sent = serde_json::to_string(&object).unwrap();
            let stored = lab.user().api().create(&object, &WriteOptions::default()).await;
            let stored: Everything = stored.unwrap_or_else(|error| panic!("{error}\n{sent}"));
            seen.insert(format!("{:?}", stored.spec.mode));
            seen.insert(format!("{:?}", stored.spec.source).chars().take(4).collect());
            seen.insert(format!("{:?}", stored.spec.backend).chars().take(8).collect());
        }
        let expected = ["Careful", "Fast", "Git ", "Imag", "None", "Some(Dis", "Some(Mem"];
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
        Ok(())
    })
}

#[test]
fn operator_survives_crashes_with_generated_websites() {
    let names: BTreeSet<String> = (0..20).map(|seed| generate::<Website>(seed).spec.domain).collect();
    assert!(names.len() > 10, "{names:?}");
    let first: Vec<String> = (0..2).map(|_| format!("{:?}", generate::<Website>(3))).collect();
    assert_eq!(first[0], first[1], "a seed always gives the same object");
    Kit::new(operator).create(generate::<Website>(3)).second_run_writes_nothing().unwrap();
}

#[test]
fn derived_definition_checks_objects_without_a_server() {
    let crd = CrdChecker::new(Website::crd()).unwrap();
    crd.assert_accepts("spec: {domain: blog.example.com}");
    crd.assert_rejects("spec: {domain: blog.example.com, replicas: 21}", "should be less than or equal to 20");
    crd.assert_rejects("spec: {}", "spec.domain: Required value");
    for seed in 0..50 {
        crd.assert_accepts(generate::<Website>(seed));
    }
}

#[test]
fn generated_objects_follow_patterns_and_bounds() {
    #[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[resource(crate = pintle_crd, group = "example.com", version = "v1", kind = "Bounded")]
    struct Bounded {
        metadata: ObjectMeta,
        #[schemars(schema_with = "bounded")]
        amount: serde_json::Value,
        #[schemars(schema_with = "exclusive")]
        ratio: f64,
        #[schemars(schema_with = "multiple")]
        step: i64,
        #[schemars(schema_with = "formatted")]
        code: String,
    }
    fn bounded(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
            "pattern": "^[0-9]+(Mi|Gi)$", "minimum": 3, "maximum": 5})
    }
    fn exclusive(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "number", "exclusiveMinimum": 0.0, "exclusiveMaximum": 0.001})
    }
    fn multiple(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "integer", "minimum": 1, "maximum": 100, "multipleOf": 7})
    }
    fn formatted(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time", "minLength": 3, "maxLength": 100})
    }
    let checker = CrdChecker::new(Bounded::crd()).unwrap();
    for seed in 0..100 {
        let object: Bounded = generate(seed);
        let text = serde_json::to_string(&object).unwrap();
        checker.assert_accepts(&text);
    }
}
