//! What a server keeps of one resource: the objects, the log of their changes, and how far each watch has read it.
//!
//! There is one truth, the log: watches, pages, and lists of the past read from it. Nothing here takes a lock, reads a clock or
//! runs anybody's code.

mod read;
mod refusal;
mod select;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use pintle_meta::{ApiError, ApiResource, ObjectKey, Scope};
use serde_json::Value;

use crate::RecordedRequest;
use watch::Watch;

pub(crate) use write::Edit;

pub(crate) struct Store {
    pub(crate) resource: ApiResource,
    pub(crate) revision: u64,
    /// Whether lists at revision "0" come whole, whatever their limit.
    watch_cache: bool,
    /// Fields that selectors may name beside those that the kind has by itself.
    selectable_fields: Vec<String>,
    /// Reads from before this revision are refused. The log keeps all the same: open watches go on, and tests look back.
    compacted: u64,
    objects: Objects,
    log: Vec<Entry>,
    watches: BTreeMap<u64, Watch>,
    opened: u64,
    pub(crate) requests: Vec<RecordedRequest>,
}

type Objects = BTreeMap<ObjectKey, Arc<Stored>>;

/// An object as it was at one revision.
struct Stored {
    json: Value,
    bytes: Bytes,
}

enum Entry {
    Change { revision: u64, key: ObjectKey, before: Option<Arc<Stored>>, after: Option<Arc<Stored>> },
    Bookmark(u64),
}

impl Store {
    pub(crate) fn new(resource: ApiResource, watch_cache: bool, selectable_fields: Vec<String>) -> Self {
        Self {
            resource,
            revision: 0,
            watch_cache,
            selectable_fields,
            compacted: 0,
            objects: BTreeMap::new(),
            log: Vec::new(),
            watches: BTreeMap::new(),
            opened: 0,
            requests: Vec::new(),
        }
    }

    /// Something else got a revision.
    pub(crate) fn advance(&mut self) {
        self.revision += 1;
    }

    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
    }

    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key).map(|stored| &stored.json)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects as they were after that revision, in the order of their keys.
    pub(crate) fn objects_at(&self, revision: u64) -> Vec<Value> {
        self.state_at(revision).into_values().map(|stored| stored.json.clone()).collect()
    }

    /// Whoever waits for a watch that has something to say by now, to be woken when no lock is held.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        let end = self.log.len();
        self.watches.values_mut().filter(|watch| watch.has_news(end)).filter_map(|watch| watch.waker.take()).collect()
    }

    /// Checks that `key` is what a key of this resource has to be.
    fn check_key(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let resource = &self.resource;
        let wrong = match (resource.scope, key.namespace()) {
            _ if key.name().is_empty() => format!("one of the {resource} has no name"),
            (Scope::Namespaced, None) => format!("{resource} live in namespaces, and {key:?} names none"),
            (Scope::Cluster, Some(_)) => format!("{resource} live in no namespace, and {key:?} names one"),
            _ => return Ok(()),
        };
        Err(ApiError::invalid_request(wrong))
    }

    fn state_at(&self, revision: u64) -> Objects {
        if revision >= self.revision {
            return self.objects.clone();
        }
        let mut objects = Objects::new();
        for entry in &self.log {
            match entry {
                Entry::Change { revision: at, .. } if *at > revision => break,
                Entry::Change { key, after: Some(after), .. } => _ = objects.insert(key.clone(), after.clone()),
                Entry::Change { key, after: None, .. } => _ = objects.remove(key),
                Entry::Bookmark(_) => {}
            }
        }
        objects
    }
}

impl Stored {
    fn new(json: Value) -> Arc<Self> {
        let bytes = encoded(&json);
        Arc::new(Self { json, bytes })
    }

    /// The same content at another revision: what an object that goes away is last seen as.
    fn at(&self, revision: u64) -> Bytes {
        let mut json = self.json.clone();
        json["metadata"]["resourceVersion"] = revision.to_string().into();
        encoded(&json)
    }
}

fn encoded(json: &Value) -> Bytes {
    // The only maps in a `Value` have strings as keys, so this cannot fail.
    serde_json::to_vec(json).unwrap_or_default().into()
}

/// A field of an object's metadata, empty where it is absent or no text.
fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The key of an object, whatever its resource would have to say of it.
pub(crate) fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(meta(object, "namespace"), meta(object, "name"))
}
