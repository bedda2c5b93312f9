//! Objects that are larger than is held of them: what names them is found, and the rest is read over.

use bytes::{Bytes, BytesMut};
use pintle_meta::{ObjectKey, Oversized, WatchEventType};

use crate::json::{Json, Token};

/// An object, or a frame that has one, as its parts come: held up to a limit, and beyond that only looked through.
pub(crate) struct Gathering {
    limit: usize,
    is_frame: bool,
    /// How large it is so far.
    size: u64,
    /// All of it, while it keeps to the limit.
    held: BytesMut,
    skim: Option<Skim>,
}

impl Gathering {
    /// For the items of a list.
    pub(crate) fn items(limit: usize) -> Self {
        Self { limit, is_frame: false, size: 0, held: BytesMut::new(), skim: None }
    }

    /// For the frames of a watch.
    pub(crate) fn frames(limit: usize) -> Self {
        Self { is_frame: true, ..Self::items(limit) }
    }

    /// Whether nothing has come of it yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Takes the next part.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.size += part.len() as u64;
        if self.size <= self.limit as u64 {
            return self.held.extend_from_slice(part);
        }
        let skim = self.skim.get_or_insert_with(|| Skim::new(self.is_frame));
        skim.push(&std::mem::take(&mut self.held));
        skim.push(part);
    }

    /// Takes the last part, and begins anew. What came as a single part is not copied.
    pub(crate) fn finish(&mut self, last: Bytes) -> Result<Bytes, Box<Found>> {
        let whole = if self.is_empty() && last.len() <= self.limit {
            last
        } else {
            self.push(&last);
            std::mem::take(&mut self.held).freeze()
        };
        let size = std::mem::take(&mut self.size);
        match self.skim.take() {
            None => Ok(whole),
            Some(skim) => Err(Box::new(skim.found(size, self.limit))),
        }
    }
}

/// What was found in something that was too large.
pub(crate) struct Found {
    /// Of a frame.
    pub(crate) event_type: Option<WatchEventType>,
    pub(crate) object: Oversized,
}

/// Looks for what tells an object from others, in bytes that are JSON.
struct Skim {
    json: Json,
    is_frame: bool,
    /// The names that lead to where it stands, as far as they are not in arrays.
    path: Vec<Vec<u8>>,
    event_type: Option<String>,
    /// Empty for cluster scope, which is also what `null` says; none where it is something else than text.
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Skim {
    fn new(is_frame: bool) -> Self {
        Self {
            json: Json::new(2 + usize::from(is_frame)),
            is_frame,
            path: Vec::new(),
            event_type: None,
            namespace: Some(String::new()),
            name: None,
            uid: None,
            resource_version: None,
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        // Whoever cuts the body into objects has seen that it is JSON.
        while let Ok(Some((taken, token))) = self.json.next(bytes, 2 + usize::from(self.is_frame)) {
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
            // What stands in an array has no name. But where a name was, there is a field, even if it cannot be read.
            if self.path.len() == self.json.depth()
                && let Some(field) = self.field()
            {
                *field = value;
            }
        }
    }

    /// What the path leads to.
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

    fn found(self, size: u64, limit: usize) -> Found {
        let Self { event_type, namespace, name, uid, resource_version, .. } = self;
        // By half a key it would be taken for another object.
        let key = match (namespace, name) {
            (Some(namespace), Some(name)) if !name.is_empty() => Some(ObjectKey::new(&namespace, &name)),
            _ => None,
        };
        let [uid, resource_version] = [uid, resource_version].map(Option::unwrap_or_default);
        let event_type = event_type.and_then(|text| text.parse().ok());
        Found { event_type, object: Oversized { key, uid, resource_version, size, limit } }
    }
}
