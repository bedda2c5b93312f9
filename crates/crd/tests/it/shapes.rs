//! Spec types with features of serde and schemars that the crate must support.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle_meta::{Conditions, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Scalars {
    pub(crate) text: String,
    pub(crate) flag: bool,
    pub(crate) small: u8,
    pub(crate) count: u32,
    pub(crate) long: i64,
    pub(crate) ratio: f64,
    pub(crate) letter: Option<char>,
    #[schemars(range(max = 9), extend("exclusiveMinimum" = 0))]
    pub(crate) bounded: i32,
    #[serde(default)]
    pub(crate) absent: Option<u16>,
    pub(crate) at: Option<Time>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Collections {
    pub(crate) list: Vec<String>,
    pub(crate) set: BTreeSet<String>,
    pub(crate) map: BTreeMap<String, u32>,
    pub(crate) numbered: BTreeMap<u32, String>,
    pub(crate) any: Value,
    pub(crate) anything: BTreeMap<String, Value>,
    pub(crate) port: IntOrString,
    pub(crate) pair: (u32, u32),
    pub(crate) holes: Vec<Option<String>>,
    pub(crate) conditions: Conditions,
    #[serde(default, rename = "maybe")]
    pub(crate) list_or_none: Option<Vec<u32>>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) enum Plain {
    One,
    Two,
}

/// How it is exposed.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) enum Described {
    /// Inside of the cluster only.
    Internal,
    /// Everywhere.
    External,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum External {
    Disk { size: u32 },
    Secret { name: String },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub(crate) enum Internal {
    A { x: u32 },
    B { y: String },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Untagged {
    ByName { name: String },
    ById { id: u32 },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Number {
    Integer(i64),
    Text(String),
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Enums {
    pub(crate) plain: Plain,
    pub(crate) optional: Option<Plain>,
    #[serde(default)]
    pub(crate) described: Option<Described>,
    pub(crate) external: External,
    pub(crate) internal: Internal,
    pub(crate) untagged: Untagged,
    pub(crate) number: Number,
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Flattened {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) source: External,
    #[serde(flatten)]
    pub(crate) other: Internal,
    #[serde(flatten)]
    pub(crate) more: More,
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct More {
    pub(crate) extra: Option<String>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Extended {
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self > 0"}]))]
    pub(crate) checked: i32,
    #[schemars(schema_with = "pintle_crd::preserve_unknown_fields")]
    pub(crate) free: Value,
    #[serde(default = "five")]
    pub(crate) with_default: i32,
}

fn five() -> i32 {
    5
}
