//! The envelopes of protobuf bodies and the frames of protobuf watch events. An envelope contains the version and kind
//! of an object.

use std::sync::Arc;

use pintle_json::Json;
use serde::de::Error as _;
use serde_json::Error;

use super::marshal::message;
use super::wire::{bytes, length, nested};
use crate::Schema;

pub(super) const MAGIC: &[u8] = b"k8s\0";

/// The last bytes of the envelope: an empty content encoding and an empty content type, which readers ignore.
const END: [u8; 4] = [0x1a, 0, 0x22, 0];

/// An encoded object with the version and kind from its envelope.
#[derive(Clone, Debug)]
pub struct Enveloped {
    /// The version in the form `version` or `group/version`.
    pub api_version: String,
    /// The kind of the object, such as `Pod`.
    pub kind: String,
    /// The encoded object, without its `apiVersion` and `kind`.
    pub message: Arc<[u8]>,
}

impl Enveloped {
    /// Encodes a JSON document of a built-in kind. The document must contain its `apiVersion` and `kind`.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not built in, or if the document does not match the schema of the kind.
    pub fn document(document: &Json) -> Result<Self, Error> {
        let member_text = |name: &str| document[name].text("");
        let (api_version, kind) = (member_text("apiVersion"), member_text("kind"));
        let version = if api_version.is_empty() { "v1" } else { api_version };
        let schema = Schema::builtin(version, kind).ok_or_else(|| {
            Error::custom(format!("no kind {kind:?} is registered for protobuf in version {api_version:?}"))
        })?;
        let message = message(schema.root(), &serde_json::to_vec(document)?)?.into();
        Ok(Self { api_version: api_version.into(), kind: kind.into(), message })
    }

    /// Returns the whole body: the magic bytes and the envelope.
    pub fn body(&self) -> Vec<u8> {
        let mut body = begin(&self.api_version, &self.kind, self.message.len());
        body.extend_from_slice(&self.message);
        body.extend_from_slice(&END);
        body
    }

    /// Returns the frame of a watch event, which consists of a four-byte length and a message with the event type and
    /// the encoded object.
    pub fn frame(&self, event: &str) -> Vec<u8> {
        let head = begin(&self.api_version, &self.kind, self.message.len());
        let mut object = Vec::new();
        length(1, head.len() + self.message.len() + END.len(), &mut object);
        object.extend_from_slice(&head);
        let mut frame = vec![0; LENGTH];
        bytes(1, event.as_bytes(), &mut frame);
        length(2, object.len() + self.message.len() + END.len(), &mut frame);
        for part in [&object, &*self.message, &END] {
            frame.extend_from_slice(part);
        }
        let length = u32::try_from(frame.len() - LENGTH).unwrap_or(u32::MAX);
        frame[..LENGTH].copy_from_slice(&length.to_be_bytes());
        frame
    }
}

/// The size of the length field at the start of a frame, in bytes.
pub const LENGTH: usize = 4;

/// Returns the bytes before the object in a body. `message` is the length of the encoded object in bytes.
fn begin(api_version: &str, kind: &str, message: usize) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    nested(1, &mut head, |to| {
        bytes(1, api_version.as_bytes(), to);
        bytes(2, kind.as_bytes(), to);
    });
    length(2, message, &mut head);
    head
}

/// The bytes before and after the items of a list. The bytes before the items contain the total length of all items.
#[derive(Debug)]
pub struct ListEnvelope {
    metadata: Vec<u8>,
    length: usize,
}

impl ListEnvelope {
    /// Creates an envelope for a list with the given metadata.
    ///
    /// # Errors
    ///
    /// Returns an error if `metadata` is not valid metadata of a list.
    pub fn new(metadata: &Json) -> Result<Self, Error> {
        let metadata = message(&crate::named("meta.ListMeta"), &serde_json::to_vec(metadata)?)?;
        let mut first = Vec::new();
        bytes(1, &metadata, &mut first);
        Ok(Self { length: first.len(), metadata: first })
    }

    /// Adds the length of an item to the total length of all items. The caller writes the item after the bytes of
    /// [`begin`](Self::begin).
    pub fn announce(&mut self, item: &[u8]) {
        let mut head = Vec::new();
        length(2, item.len(), &mut head);
        self.length += head.len() + item.len();
    }

    /// Returns the bytes to write before the items of the list.
    pub fn begin(self, api_version: &str, kind: &str) -> Vec<u8> {
        let mut head = begin(api_version, kind, self.length);
        head.extend_from_slice(&self.metadata);
        head
    }

    /// Appends a list item.
    pub fn item(item: &[u8], to: &mut Vec<u8>) {
        bytes(2, item, to);
    }

    /// The bytes to write after the items of the list.
    pub const END: [u8; 4] = END;
}
