//! Buffers objects up to the size limit, and keeps only the identity of larger objects.

use bytes::{Bytes, BytesMut};
use pintle_meta::{ObjectKey, Oversized, WatchEventType};

use crate::json::{Json, Token};

/// Buffers the chunks of an object or of a watch frame. Once the size exceeds the limit, only the fields that identify
/// the object are kept.
pub(crate) struct BoundedBuffer {
    limit: usize,
    is_frame: bool,
    size: u64,
    /// The appended bytes, or an empty buffer if the size limit is exceeded.
    held: BytesMut,
    scanner: Option<IdentityScanner>,
}

impl BoundedBuffer {
    pub(crate) fn items(limit: usize) -> Self {
        Self { limit, is_frame: false, size: 0, held: BytesMut::new(), scanner: None }
    }

    pub(crate) fn frames(limit: usize) -> Self {
        Self { is_frame: true, ..Self::items(limit) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    pub(crate) fn push(&mut self, part: &[u8]) {
        self.size += part.len() as u64;
        if self.size <= self.limit as u64 {
            return self.held.extend_from_slice(part);
        }
        let scanner = self.scanner.get_or_insert_with(|| IdentityScanner::new(self.is_frame));
        scanner.push(&std::mem::take(&mut self.held));
        scanner.push(part);
    }

    /// Appends the last chunk of an object, and returns the object. Resets the buffer, and does not copy an object
    /// that arrives in a single chunk.
    pub(crate) fn finish(&mut self, last: Bytes) -> Result<Bytes, Box<Found>> {
        let whole = if self.is_empty() && last.len() <= self.limit {
            last
        } else {
            self.push(&last);
            std::mem::take(&mut self.held).freeze()
        };
        let size = std::mem::take(&mut self.size);
        match self.scanner.take() {
            None => Ok(whole),
            Some(scanner) => Err(Box::new(scanner.into_found(size, self.limit))),
        }
    }
}

pub(crate) struct Found {
    /// The watch event type, or `None` for a list item and for invalid JSON.
    pub(crate) event_type: Option<WatchEventType>,
    pub(crate) object: Oversized,
}

struct IdentityScanner {
    json: Json,
    is_frame: bool,
    /// Whether an invalid byte was found. The scanner ignores all later bytes.
    is_invalid: bool,
    /// The names of the fields on the path to the current position, without array indexes.
    path: Vec<Vec<u8>>,
    event_type: Option<String>,
    /// The namespace of the object. An empty string means a missing or `null` namespace, and `None` means that the
    /// namespace is not a string.
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl IdentityScanner {
    fn new(is_frame: bool) -> Self {
        Self {
            json: Json::new(2 + usize::from(is_frame)),
            is_frame,
            is_invalid: false,
            path: Vec::new(),
            event_type: None,
            namespace: Some(String::new()),
            name: None,
            uid: None,
            resource_version: None,
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !self.is_invalid {
            let (taken, token) = match self.json.next(bytes, 2 + usize::from(self.is_frame)) {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(_) => {
                    self.is_invalid = true;
                    return;
                }
            };
            bytes = &bytes[taken..];
            let text = self.json.text();
            if token == Token::Name {
                self.path.truncate(self.json.depth() - 1);
                self.path.push(text.unwrap_or_default().to_vec());
            }
            let value = match token {
                Token::Null => Some(String::new()),
                Token::Text => text.and_then(|text| serde_json::from_slice(&[b"\"", text, b"\""].concat()).ok()),
                _ => None,
            };
            // Ignore all values in arrays. Store each other field, even if its value has the wrong type.
            if self.path.len() == self.json.depth()
                && let Some(field) = self.field()
            {
                *field = value;
            }
        }
    }

    fn field(&mut self) -> Option<&mut Option<String>> {
        let path: Vec<&[u8]> = self.path.iter().map(Vec::as_slice).collect();
        let path = match (&*path, self.is_frame) {
            ([b"type"], true) => return Some(&mut self.event_type),
            ([b"object", path @ ..], true) | (path, false) => path,
            _ => return None,
        };
        match path {
            [b"metadata", b"namespace"] => Some(&mut self.namespace),
            [b"metadata", b"name"] => Some(&mut self.name),
            [b"metadata", b"uid"] => Some(&mut self.uid),
            [b"metadata", b"resourceVersion"] => Some(&mut self.resource_version),
            _ => None,
        }
    }

    fn into_found(self, size: u64, limit: usize) -> Found {
        let Self { is_invalid, event_type, namespace, name, uid, resource_version, .. } = self;
        // Without the namespace, the name would identify a different object.
        let key = match (namespace, name) {
            (Some(namespace), Some(name)) if !name.is_empty() => Some(ObjectKey::new(&namespace, &name)),
            _ => None,
        };
        let [uid, resource_version] = [uid, resource_version].map(Option::unwrap_or_default);
        let event_type = event_type.filter(|_| !is_invalid).and_then(|text| text.parse().ok());
        Found { event_type, object: Oversized { key, uid, resource_version, size, limit } }
    }
}
