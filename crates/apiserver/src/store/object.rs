//! What the log holds.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

use crate::object::Ordered;

/// Under which name a resource's objects are stored: `pods`, `deployments.apps`.
pub(crate) type ResourceKey = Arc<str>;

/// An object's place within its resource: `namespace/name`, or `name` alone in cluster scope.
pub(crate) type Key = Arc<str>;

/// An object as one write left it. It never changes; the next write makes another.
///
/// The value lacks `apiVersion` and `kind`: which one is shown depends on the version that it is read through, and in typed
/// lists neither is. The version that it was written in is kept beside it, for it may cease to be the one that is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    revision: u64,
    version: Arc<str>,
    is_first: bool,
    value: Arc<Value>,
    weight: usize,
    json: OnceLock<Bytes>,
}

impl Stored {
    pub(super) fn new(revision: u64, version: Arc<str>, is_first: bool, mut value: Value) -> Self {
        if let Some(object) = value.as_object_mut() {
            object.remove("apiVersion");
            object.remove("kind");
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("resourceVersion".into(), revision.to_string().into());
            }
        }
        let weight = weight(&value);
        Self { revision, version, is_first, value: Arc::new(value), weight, json: OnceLock::new() }
    }

    /// The revision of the write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The `apiVersion` that it was written with; empty if it was written without.
    pub(crate) fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// Whether the write created the object.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// The object without `apiVersion` and `kind`.
    pub(crate) fn value(&self) -> &Arc<Value> {
        &self.value
    }

    /// What the value takes in memory, about.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// The object as JSON, without `apiVersion` and `kind`. It is encoded once, however often it is served. The members of
    /// built-in kinds come in the order of Go's structs, those of custom resources `sorted`: that never differs for one resource.
    pub(crate) fn json(&self, sorted: bool) -> &Bytes {
        self.json.get_or_init(|| match sorted {
            true => self.value.to_string().into(),
            false => serde_json::to_vec(&Ordered(&self.value)).unwrap_or_default().into(),
        })
    }
}

fn weight(value: &Value) -> usize {
    let own = size_of::<Value>();
    own + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| size_of::<String>() + name.len() + weight(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Created,
    Updated,
    Deleted,
}

/// One entry of the log.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) at: Instant,
    pub(crate) kind: ChangeKind,
    pub(crate) resource: ResourceKey,
    pub(crate) key: Key,
    /// What was there before.
    pub(crate) old: Option<Arc<Stored>>,
    /// What is there now; of a deletion, the last content with the deletion's revision.
    pub(crate) new: Arc<Stored>,
    /// The watch frame that nearly all watchers get, encoded by the first that needs it.
    pub(crate) frame: OnceLock<Bytes>,
}
