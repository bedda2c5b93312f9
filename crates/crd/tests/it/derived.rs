//! The definitions from these tests that are compared with the responses of a real kube-apiserver.

use pintle_crd::CustomResourceDefinition;
use serde_json::Value;

/// A definition, and writes of objects of the defined kind.
pub(crate) struct Derived {
    pub(crate) name: &'static str,
    pub(crate) definition: CustomResourceDefinition,
    /// The spec of the first object, or `None` if the kind has no spec.
    pub(crate) spec: Option<Value>,
    /// The writes after the create of the first object.
    pub(crate) writes: Vec<Write>,
}

/// A write of an object.
pub(crate) struct Write {
    pub(crate) spec: Value,
    /// Whether the write replaces the spec of the last accepted object, instead of creating an object.
    pub(crate) is_update: bool,
    /// A part of the expected error message, or `None` if the server must accept the write.
    pub(crate) error: Option<&'static str>,
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
        $crate::derived::Derived {
            name: $name,
            definition: <Thing as pintle_crd::CustomResource>::crd(),
            spec: Some(serde_json::to_value(value).unwrap()),
            writes: Vec::new(),
        }
    }};
}
pub(crate) use derived;
