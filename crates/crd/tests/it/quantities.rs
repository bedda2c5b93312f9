//! Tests the schemas of Kubernetes quantities.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle_crd::{CustomResource, Resource};
use pintle_meta::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1")]
struct Store {
    metadata: ObjectMeta,
    spec: StoreSpec,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct StoreSpec {
    plain: Quantity,
    /// The doc comment replaces the description of `Quantity`.
    documented: Quantity,
    optional: Option<Quantity>,
    list: Vec<Quantity>,
    map: BTreeMap<String, Quantity>,
    resources: Option<ResourceRequirements>,
    wrapped: Wrapped,
    tagged: Tagged,
    #[serde(flatten)]
    flattened: Flattened,
    port: IntOrString,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Wrapped(Quantity);

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum Tagged {
    Disk { size: Quantity },
    Port { port: IntOrString },
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Flattened {
    inner: Quantity,
}

#[test]
fn quantities_have_the_pattern_of_controller_gen() {
    let definition = Store::crd();
    let spec = &definition.spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for path in [
        "/plain",
        "/documented",
        "/optional",
        "/list/items",
        "/map/additionalProperties",
        "/resources/properties/limits/additionalProperties",
        "/wrapped",
        "/tagged/properties/size",
        "/inner",
    ] {
        let mut found = spec.pointer(path).unwrap_or_else(|| panic!("{path}: {spec}")).clone();
        let members = found.as_object_mut().unwrap();
        ["description", "nullable"].iter().for_each(|key| _ = members.remove(*key));
        let pattern = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
        let expected = json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": pattern, "x-kubernetes-int-or-string": true,
        });
        assert_eq!(found, expected, "{path}");
    }
    assert_eq!(spec["documented"]["description"], "The doc comment replaces the description of `Quantity`.");
    for path in ["/port", "/tagged/properties/port"] {
        let found = spec.pointer(path).unwrap();
        assert_eq!((&found["pattern"], &found["x-kubernetes-int-or-string"]), (&Value::Null, &json!(true)), "{path}");
    }
}

#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1")]
struct Defaults {
    metadata: ObjectMeta,
    spec: DefaultsSpec,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct DefaultsSpec {
    #[serde(default)]
    plain: Quantity,
    #[serde(default = "one")]
    one: Quantity,
    #[serde(default)]
    optional: Optional,
    #[serde(default)]
    required: Required,
}

fn one() -> Quantity {
    Quantity("1".into())
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
struct Optional {
    memory: Quantity,
    name: String,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
struct Required {
    memory: Quantity,
    name: String,
}

/// The API server rejects a definition whose default does not match the schema.
#[test]
fn empty_quantities_are_removed_from_defaults() {
    let definition = Defaults::crd();
    let spec = &definition.spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let defaults = ["plain", "one", "optional", "required"].map(|name| spec[name]["default"].clone());
    assert_eq!(defaults, [Value::Null, json!("1"), json!({"name": ""}), Value::Null]);
    assert_eq!(spec["optional"]["properties"]["memory"]["default"], Value::Null);
}

#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1")]
struct Nested {
    metadata: ObjectMeta,
    spec: NestedSpec,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct NestedSpec {
    outer: Outer,
    optional: Option<Outer>,
    flattened: WithOuter,
    tagged: Option<External>,
    several: WithSeveral,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct WithOuter {
    name: String,
    #[serde(flatten)]
    outer: External,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct WithSeveral {
    #[serde(flatten)]
    outer: Option<External>,
    #[serde(flatten)]
    other: Other,
}

#[derive(Deserialize, Serialize, JsonSchema)]
enum External {
    Size { size: Quantity },
    Port(IntOrString),
}

#[derive(Deserialize, Serialize, JsonSchema)]
enum Other {
    Amount(Quantity),
    Name(String),
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum Outer {
    Inner(Inner),
    Port { port: IntOrString },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum Inner {
    Name { name: String },
    Size { size: Quantity },
}

#[test]
fn quantities_in_nested_alternatives_have_the_pattern() {
    let definition = Nested::crd();
    let spec = &definition.spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for (quantity, quantities) in [
        ("/outer/properties/size", 1),
        ("/optional/properties/size", 1),
        ("/flattened/properties/Size/properties/size", 1),
        ("/tagged/properties/Size/properties/size", 1),
        ("/several/properties/Amount", 2),
    ] {
        let field = &spec[quantity.split('/').nth(1).unwrap()];
        assert_eq!(field.to_string().matches("numkMGTPE").count(), quantities, "{quantity}: {field}");
        assert!(spec.pointer(quantity).unwrap()["pattern"].is_string(), "{quantity}: {field}");
    }
}
