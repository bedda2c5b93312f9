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
