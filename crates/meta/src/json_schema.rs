//! Implements `JsonSchema` from the schemars crate for types that are used in custom resources.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::condition::{Condition, ConditionStatus, Conditions};
use crate::object_meta::{ObjectMeta, OwnerReference};
use crate::time::{MicroTime, Time};

/// Implements `JsonSchema` for types whose schema is constant.
macro_rules! schemas {
    ($($type:ident: $schema:tt;)*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

schemas! {
    // Preserve unknown fields. `ObjectMeta`'s schema declares no fields, so kube-apiserver would otherwise prune the
    // metadata in a pod template.
    ObjectMeta: { "type": "object", "x-kubernetes-preserve-unknown-fields": true };
    Time: { "type": "string", "format": "date-time" };
    MicroTime: { "type": "string", "format": "date-time" };
    ConditionStatus: { "type": "string", "enum": ["True", "False", "Unknown"] };
    OwnerReference: {
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "name": { "type": "string" },
            "uid": { "type": "string" },
            "controller": { "type": "boolean" },
            "blockOwnerDeletion": { "type": "boolean" },
        },
        "required": ["apiVersion", "kind", "name", "uid"],
    };
    // The limits are the same as in Kubernetes' `metav1.Condition`.
    Condition: {
        "type": "object",
        "properties": {
            "type": { "type": "string", "maxLength": 316 },
            "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
            "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            "lastTransitionTime": { "type": "string", "format": "date-time" },
            "reason": { "type": "string", "maxLength": 1024 },
            "message": { "type": "string", "maxLength": 32768 },
        },
        "required": ["type", "status"],
    };
}

impl JsonSchema for Conditions {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": Condition::json_schema(generator),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        })
    }
}
