//! API objects in the form that the server sends to clients.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::Ordered;
use pintle_json::{Json, json};
use pintle_kinds::Kind;
use pintle_schema::protobuf::{self, Enveloped};
use pintle_schema::{self as schema, Schema, Type};
use pintle_serving::offload;
use pintle_storage::{Encoding, Order, Stored};

/// An object in the API version of the response. The encoder adds `apiVersion` and `kind`.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The order in which the members of a decoded object are written to the response.
    order: Order,
    content: ServedContent,
}

#[derive(Clone)]
enum ServedContent {
    /// The stored form of the object, which the server sends unchanged.
    Stored(Arc<Stored>),
    /// A stored object that a webhook must convert to the version of the response.
    Unconverted(Arc<Stored>),
    Value(Arc<Json>),
}

impl Served {
    pub(crate) fn stored(kind: &Kind, stored: &Arc<Stored>) -> Self {
        let content = match kind.convert_if_needed(stored) {
            Some(value) => return Self::value(kind, value),
            None => ServedContent::Stored(stored.clone()),
        };
        Self { api_version: kind.api_version(), kind: kind.kind.clone(), order: kind.order(), content }
    }

    /// Creates the response form of a stored object. If the conversion requires a webhook, the result is
    /// [unconverted](Self::unconverted).
    pub(crate) fn of_result(kind: &Kind, stored: &Arc<Stored>) -> Self {
        if kind.strategy.needs_webhook(stored.version()) {
            let content = ServedContent::Unconverted(stored.clone());
            Self { api_version: kind.api_version(), kind: kind.kind.clone(), order: kind.order(), content }
        } else {
            Self::stored(kind, stored)
        }
    }

    pub(crate) fn unconverted(&self) -> Option<Arc<Stored>> {
        match &self.content {
            ServedContent::Unconverted(stored) => Some(stored.clone()),
            _ => None,
        }
    }

    pub(crate) fn value(kind: &Kind, mut value: Json) -> Self {
        value.unset("apiVersion");
        value.unset("kind");
        let content = ServedContent::Value(Arc::new(value));
        Self { api_version: kind.api_version(), kind: kind.kind.clone(), order: kind.order(), content }
    }

    /// Returns the cost of encoding the object: the number of bytes of a stored object, or [`offload::ALWAYS`] for a
    /// decoded object.
    pub(crate) fn weight(&self) -> usize {
        match &self.content {
            ServedContent::Stored(stored) | ServedContent::Unconverted(stored) => stored.weight(),
            ServedContent::Value(_) => offload::ALWAYS,
        }
    }

    pub(crate) fn tree(&self) -> Arc<Json> {
        match &self.content {
            ServedContent::Stored(stored) | ServedContent::Unconverted(stored) => Arc::new(stored.decode()),
            ServedContent::Value(value) => value.clone(),
        }
    }

    pub(crate) fn metadata(&self) -> Json {
        let metadata = match &self.content {
            ServedContent::Stored(stored) | ServedContent::Unconverted(stored) => stored.metadata(),
            ServedContent::Value(value) => value["metadata"].clone(),
        };
        pintle_builtin::partial_metadata(&self.api_version, &self.kind, metadata)
    }

    pub(crate) fn typed(&self) -> Json {
        typed(&self.api_version, &self.kind, Arc::unwrap_or_clone(self.tree()))
    }

    pub(crate) fn write(&self, types: bool, to: &mut Vec<u8>) {
        let start = to.len();
        if types {
            to.extend_from_slice(b"{\"kind\":\"");
            to.extend_from_slice(self.kind.as_bytes());
            to.extend_from_slice(b"\",\"apiVersion\":\"");
            to.extend_from_slice(self.api_version.as_bytes());
            to.push(b'"');
        }
        let joint = to.len();
        match &self.content {
            ServedContent::Stored(stored) | ServedContent::Unconverted(stored) => stored.write(to),
            ServedContent::Value(value) => match self.order {
                Order::Sorted => write_json(to, &**value),
                Order::Declared => write_json(to, &Ordered(value)),
            },
        }
        if joint > start {
            // Replace the opening brace of the object with the comma after `apiVersion` and `kind`. If the object has
            // no members, remove the brace instead of replacing it.
            match to.get(joint + 1) {
                Some(b'}') => drop(to.remove(joint)),
                _ => to[joint] = b',',
            }
        }
    }
}

fn write_json(to: &mut Vec<u8>, value: &impl serde::Serialize) {
    pintle_json::to_writer(to, value).expect("all keys are strings, and memory accepts all writes");
}

impl Served {
    pub(super) fn encode<E>(
        &self,
        encoding: Encoding,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        match &self.content {
            ServedContent::Stored(stored) | ServedContent::Unconverted(stored) => stored.encode(encoding, make),
            ServedContent::Value(_) => make().map(Into::into),
        }
    }

    /// Returns the object in protobuf. Returns an error if the kind is not built in.
    pub(crate) fn enveloped(&self) -> Outcome<Enveloped> {
        let schema = Schema::builtin(&self.api_version, &self.kind).ok_or_else(|| {
            Failure::internal(format!(
                "no kind {:?} is registered for protobuf in version {:?}",
                self.kind, self.api_version
            ))
        })?;
        let message = self.encode(Encoding::Message, || self.message(schema.root())).map_err(unfit)?;
        Ok(Enveloped { api_version: self.api_version.clone(), kind: self.kind.clone(), message })
    }

    /// Returns the metadata in protobuf, as a `PartialObjectMetadata`. Custom resources also support this protobuf
    /// encoding of metadata.
    pub(crate) fn enveloped_metadata(&self, api_version: &str) -> Outcome<Enveloped> {
        let of = schema::named("meta.PartialObjectMetadata");
        let message = self.encode(Encoding::MetadataMessage, || {
            protobuf::message(&of, &pintle_json::to_vec(&json!({"metadata": self.metadata()}))?)
        });
        let message = message.map_err(unfit)?;
        Ok(Enveloped { api_version: api_version.into(), kind: "PartialObjectMetadata".into(), message })
    }

    fn message(&self, of: &Type) -> Result<Vec<u8>, serde_json::Error> {
        match &self.content {
            ServedContent::Stored(stored) | ServedContent::Unconverted(stored) => {
                let mut json = Vec::new();
                stored.write(&mut json);
                protobuf::message(of, &json)
            }
            ServedContent::Value(value) => protobuf::message(of, &pintle_json::to_vec(&**value)?),
        }
    }
}

fn unfit(error: serde_json::Error) -> Failure {
    Failure::internal(format!("the object has no form in protobuf: {error}"))
}

pub(crate) fn typed(api_version: &str, kind: &str, mut value: Json) -> Json {
    value.set("apiVersion", api_version);
    value.set("kind", kind);
    value
}

/// The object that a write has stored, or would have stored in a dry run.
#[derive(Clone)]
pub(crate) struct Written {
    pub(crate) object: Served,
    pub(crate) created: bool,
}
