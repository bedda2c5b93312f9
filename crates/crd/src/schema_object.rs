//! The JSON objects that structural schemas consist of, and the error for types without a structural schema.

use std::fmt;

use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

pub(crate) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(crate) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaError {
    /// The path of the field, such as `spec.rules[]`.
    path: String,
    why: String,
}

impl SchemaError {
    pub(crate) fn new(path: &str, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the object" } else { &self.path };
        write!(f, "{path}: {}", self.why)
    }
}

pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => members,
        _ => Object::new(),
    }
}
