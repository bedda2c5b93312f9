//! Objects on their way between the store and an answer.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::kinds::Kind;
use crate::object::Ordered;
use crate::store::Stored;

/// An object as an answer shows it: in the version that was asked for, without its `apiVersion` and `kind`, which the encoder
/// adds.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) value: Arc<Value>,
    /// It is a custom resource.
    custom: bool,
    /// What it came from, if it is shown just as it is stored.
    stored: Option<Arc<Stored>>,
}

impl Served {
    /// A stored object as `kind` shows it.
    pub(crate) fn stored(kind: &Kind, stored: &Arc<Stored>) -> Self {
        let value = kind.shown_stored(stored);
        if !Arc::ptr_eq(&value, stored.value()) {
            return Self::value(kind, Arc::unwrap_or_clone(value));
        }
        Self {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            value,
            custom: kind.custom,
            stored: Some(stored.clone()),
        }
    }

    /// An object that is not stored, or not yet.
    pub(crate) fn value(kind: &Kind, value: Value) -> Self {
        Self { custom: kind.custom, ..Self::untyped(kind.api_version(), kind.kind.clone(), value) }
    }

    /// An object of a kind that is known by its name alone.
    pub(crate) fn untyped(api_version: String, kind: String, mut value: Value) -> Self {
        if let Some(object) = value.as_object_mut() {
            object.remove("apiVersion");
            object.remove("kind");
        }
        Self { api_version, kind, value: Arc::new(value), custom: false, stored: None }
    }

    /// Whether it is shown just as it is stored.
    pub(crate) fn is_as_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// The object with its `apiVersion` and `kind`.
    pub(crate) fn typed(&self) -> Value {
        typed(&self.api_version, &self.kind, &self.value)
    }

    /// The object as JSON, with or without its `apiVersion` and `kind`.
    pub(crate) fn json(&self, types: bool) -> Bytes {
        let body = match &self.stored {
            Some(stored) => stored.json(self.custom).clone(),
            None if self.custom => self.value.to_string().into(),
            None => serde_json::to_vec(&Ordered(&self.value)).unwrap_or_default().into(),
        };
        if !types {
            return body;
        }
        let mut json = Vec::with_capacity(body.len() + self.kind.len() + self.api_version.len() + 28);
        json.extend_from_slice(b"{\"kind\":\"");
        json.extend_from_slice(self.kind.as_bytes());
        json.extend_from_slice(b"\",\"apiVersion\":\"");
        json.extend_from_slice(self.api_version.as_bytes());
        json.push(b'"');
        if body.len() > 2 {
            json.push(b',');
        }
        json.extend_from_slice(body.get(1..).unwrap_or_default());
        json.into()
    }
}

/// A value with `apiVersion` and `kind` added.
pub(crate) fn typed(api_version: &str, kind: &str, value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".into(), api_version.into());
        object.insert("kind".into(), kind.into());
    }
    value
}

/// The outcome of a write.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) object: Served,
    /// It was not there before.
    pub(crate) created: bool,
    /// What to warn the client of.
    pub(crate) warnings: Vec<String>,
}
