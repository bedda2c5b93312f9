//! Tests the derive macro's attributes.

use pintle_crd::{CustomResource, CustomResourceDefinition, MergeError, Resource};
use pintle_meta::{Conditions, ObjectMeta, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::derived::Derived;

/// A site.
#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1", short("ws", "site"), category("all"))]
#[resource(
    column("URL", ".status.url", description = "Its address."),
    column("Replicas", ".spec.replicas", priority = 1)
)]
#[resource(scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"))]
#[resource(selectable(".spec.domain"), rule("self.spec.replicas < 9", "too many"))]
struct Website {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Spec {
    domain: String,
    replicas: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Status {
    url: String,
    replicas: u32,
    selector: String,
    conditions: Conditions,
}

pub(crate) fn derived() -> Vec<Derived> {
    let policies = CustomResourceDefinition::merge([Policy::crd(), OldPolicy::crd()]).unwrap();
    let spec = Spec { domain: "blog".into(), replicas: 1 };
    vec![
        Derived {
            name: "attributes",
            definition: Website::crd(),
            spec: Some(serde_json::to_value(spec).unwrap()),
            writes: Vec::new(),
        },
        Derived { name: "versions", definition: policies, spec: None, writes: Vec::new() },
    ]
}

#[test]
fn attributes_become_the_definition() {
    assert_eq!((Website::API_VERSION, Website::PLURAL), ("example.com/v1", "websites"));
    let crd = serde_json::to_value(Website::crd()).unwrap();
    assert_eq!(crd["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(crd["metadata"], json!({"name": "websites.example.com"}));
    let names = json!({
        "kind": "Website", "listKind": "WebsiteList", "plural": "websites", "singular": "website",
        "shortNames": ["ws", "site"], "categories": ["all"],
    });
    assert_eq!((&crd["spec"]["names"], &crd["spec"]["scope"]), (&names, &json!("Namespaced")));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(
        version["additionalPrinterColumns"],
        json!([
            {"name": "URL", "type": "string", "jsonPath": ".status.url", "description": "Its address."},
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ])
    );
    let scale = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    assert_eq!(version["subresources"], json!({"status": {}, "scale": scale}));
    assert_eq!(version["selectableFields"], json!([{"jsonPath": ".spec.domain"}]));
    let schema = &version["schema"]["openAPIV3Schema"];
    assert_eq!(schema["x-kubernetes-validations"], json!([{"rule": "self.spec.replicas < 9", "message": "too many"}]));
    assert_eq!((&schema["description"], &schema["required"]), (&json!("A site."), &json!(["spec"])));
    assert_eq!(schema["properties"]["metadata"], json!({"type": "object"}));
}

#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1", rule("self.spec.replicas < 9"))]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "self.spec.domain != ''"}]))]
struct Ruled {
    metadata: ObjectMeta,
    spec: Spec,
}

#[test]
fn rules_of_both_attributes_are_kept() {
    let rules = &Ruled::crd().spec["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"];
    assert_eq!(*rules, json!([{"rule": "self.spec.domain != ''"}, {"rule": "self.spec.replicas < 9"}]));
}

/// This resource is cluster-scoped, has no status, and its version is deprecated.
#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1beta1", kind = "Policy", cluster)]
#[resource(stored = false, served = false, deprecated = "use v1")]
struct OldPolicy {
    metadata: ObjectMeta,
}

#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1", kind = "Policy", cluster, deprecated)]
struct Policy {
    metadata: ObjectMeta,
}

#[test]
fn versions_of_one_kind_are_merged() {
    assert_eq!(OldPolicy::crd().metadata.name, "policies.example.com");
    let crd = CustomResourceDefinition::merge([Policy::crd(), OldPolicy::crd()]).unwrap();
    let versions = crd.spec["versions"].as_array().unwrap();
    assert_eq!(crd.spec["scope"], "Cluster");
    assert_eq!((&versions[0]["storage"], &versions[0]["deprecated"]), (&json!(true), &json!(true)));
    assert_eq!(versions[0].get("deprecationWarning"), None);
    let old = &versions[1];
    assert_eq!(
        (&old["served"], &old["storage"], &old["deprecationWarning"]),
        (&json!(false), &json!(false), &json!("use v1"))
    );
    assert_eq!(old.get("subresources"), None);
}

#[test]
fn inconsistent_definitions_are_rejected() {
    let merge = |definitions: Vec<CustomResourceDefinition>| CustomResourceDefinition::merge(definitions);
    let stored = |count| Err(MergeError::Stored(count));
    assert_eq!(merge(vec![OldPolicy::crd()]), stored(0));
    assert_eq!(merge(vec![Policy::crd(), Policy::crd()]), stored(2));
    assert_eq!(merge(vec![]), stored(0));
    let twice = merge(vec![Policy::crd(), OldPolicy::crd(), OldPolicy::crd()]);
    assert_eq!(twice, Err(MergeError::Repeated("v1beta1".into())));
    let names = MergeError::Names("policies.example.com".into(), "websites.example.com".into());
    assert_eq!(merge(vec![Policy::crd(), Website::crd()]), Err(names));
}
