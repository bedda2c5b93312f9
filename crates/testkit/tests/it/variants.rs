//! Tests that the definition of an enum accepts each variant, and applies a variant's rules only to this variant.

use pintle_crd::{CustomResource, Resource};
use pintle_meta::ObjectMeta;
use pintle_testkit::{CrdChecker, generate};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Defines a resource whose spec has the given type.
macro_rules! thing {
    ($kind:ident, $spec:ty) => {
        #[derive(Resource, Deserialize, Serialize, JsonSchema)]
        #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
        struct $kind {
            metadata: ObjectMeta,
            spec: $spec,
        }
    };
}

thing!(BackendThing, Backend);
thing!(FlattenedThing, WithFlattened);
thing!(EnumThing, EnumOfEnums);
thing!(CheckedThing, Checked);
thing!(PresenceThing, ByPresence);
thing!(OptionalThing, Optional);

fn checker<T: CustomResource>() -> CrdChecker {
    CrdChecker::new(T::crd()).unwrap()
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Source {
    Disk { size: u32 },
    Secret { name: String },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum Backend {
    Volume(Source),
    Memory { size: u32 },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum WithFlattened {
    Volume {
        path: String,
        #[serde(flatten)]
        source: Source,
    },
    Memory {
        size: u32,
    },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum EnumOfEnums {
    Stored(Source),
    Described(Tagged),
    Plain { text: String },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Tagged {
    One { x: u32 },
    Other { y: u32 },
}

#[test]
fn rules_of_an_inner_enum_apply_to_its_variant() {
    let crd = checker::<BackendThing>();
    crd.assert_accepts("spec: {type: Memory, size: 1}");
    crd.assert_accepts("spec: {type: Volume, disk: {size: 1}}");
    crd.assert_rejects("spec: {type: Volume}", "spec");
    crd.assert_rejects("spec: {type: Volume, disk: {size: 1}, secret: {name: a}}", "spec");
    crd.assert_rejects("spec: {type: Memory}", "spec");
}

#[test]
fn rules_of_a_flattened_enum_apply_to_its_variant() {
    let crd = checker::<FlattenedThing>();
    crd.assert_accepts("spec: {type: Memory, size: 1}");
    crd.assert_accepts("spec: {type: Volume, path: /, secret: {name: a}}");
    crd.assert_rejects("spec: {type: Volume, path: /}", "spec");
    crd.assert_rejects("spec: {type: Volume, secret: {name: a}}", "spec");
}

#[test]
fn untagged_enum_of_enums_accepts_each_variant() {
    let crd = checker::<EnumThing>();
    crd.assert_accepts("spec: {disk: {size: 1}}");
    crd.assert_accepts("spec: {kind: one, x: 1}");
    crd.assert_accepts("spec: {text: a}");
    crd.assert_rejects("spec: {kind: one}", "spec");
    crd.assert_rejects("spec: {}", "spec");
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind-of")]
enum Checked {
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self.min <= self.max ? true : false // bounds", "message": "min is above max"},
        {"rule": "self.min >= oldSelf.min", "message": "min cannot shrink"},
    ]))]
    Range {
        min: u32,
        max: u32,
    },
    #[schemars(extend("not" = {"required": ["namespace", "everywhere"]}, "maxProperties" = 2))]
    Place {
        namespace: Option<String>,
        everywhere: Option<bool>,
    },
    Any,
}

#[test]
fn cel_rules_of_a_variant_apply_to_the_variant() {
    let crd = checker::<CheckedThing>();
    crd.assert_accepts("spec: {kind-of: Any}");
    crd.assert_accepts("spec: {kind-of: Range, min: 1, max: 2}");
    crd.assert_rejects("spec: {kind-of: Range, min: 2, max: 1}", "min is above max");
    crd.assert_accepts("spec: {kind-of: Place, namespace: a}");
    crd.assert_rejects("spec: {kind-of: Place, namespace: a, everywhere: true}", "spec");
    let range = "spec: {kind-of: Range, min: 2, max: 9}";
    crd.assert_accepts_update("spec: {kind-of: Any}", range);
    crd.assert_accepts_update(range, "spec: {kind-of: Any}");
    crd.assert_rejects_update(range, "spec: {kind-of: Range, min: 1, max: 9}", "min cannot shrink");
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum ByPresence {
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self.namespace == self.owner"}]))]
    Owned { namespace: String, owner: String },
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self.id > 0"}]))]
    Numbered { id: i32 },
}

#[test]
fn cel_rules_of_untagged_variants_depend_on_fields() {
    let crd = checker::<PresenceThing>();
    crd.assert_accepts("spec: {namespace: a, owner: a}");
    crd.assert_rejects("spec: {namespace: a, owner: b}", "failed rule");
    crd.assert_accepts("spec: {id: 1}");
    crd.assert_rejects("spec: {id: 0}", "failed rule");
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Optional {
    name: String,
    #[serde(flatten)]
    presence: Option<ByPresence>,
    #[serde(flatten)]
    checked: Option<Checked>,
}

#[test]
fn cel_rules_of_flattened_optional_enums_depend_on_fields() {
    let crd = checker::<OptionalThing>();
    crd.assert_accepts("spec: {name: a}");
    crd.assert_accepts("spec: {name: a, id: 1, kind-of: Range, min: 1, max: 2}");
    crd.assert_rejects("spec: {name: a, id: 0}", "failed rule");
    crd.assert_rejects("spec: {name: a, kind-of: Range, min: 2, max: 1}", "min is above max");
}

#[test]
fn generated_enums_match_their_definitions() {
    fn check<T: CustomResource + Serialize + DeserializeOwned>() {
        let crd = checker::<T>();
        (0..100).for_each(|seed| crd.assert_accepts(generate::<T>(seed)));
    }
    check::<BackendThing>();
    check::<FlattenedThing>();
    check::<EnumThing>();
}

#[test]
fn columns_can_show_fields_below_an_unvalidated_value() {
    #[derive(Resource, Deserialize, Serialize, JsonSchema)]
    #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
    #[resource(column("Region", ".spec.region.name", type = "string"))]
    #[resource(scale(spec = ".spec.replicas", status = ".status.replicas"))]
    struct Free {
        metadata: ObjectMeta,
        spec: serde_json::Value,
        status: Option<serde_json::Value>,
    }
    let crd = checker::<Free>();
    crd.assert_accepts("spec: {region: {name: a}, replicas: 1}");
}
