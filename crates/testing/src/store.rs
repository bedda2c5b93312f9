//! Stores one resource, with its objects, change log and watches. Each watch has a position in the change log.
//!
//! The store computes watches, pages and lists of past revisions from this log. The functions in this module take no
//! locks, do not read a clock and do not call user code.

mod errors;
mod read;
mod select;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use pintle_meta::{ApiError, ApiResource, ObjectKey, Scope};
use serde_json::Value;

use crate::request::RecordedRequest;
use watch::Watch;

pub(crate) use write::Edit;

pub(crate) struct Store {
    pub(crate) resource: ApiResource,
    pub(crate) revision: u64,
    /// If `true`, a list at revision "0" ignores the limit, as on a server with a watch cache.
    watch_cache: bool,
    selectable_fields: Vec<String>,
    /// The compacted revision, before which reads fail. The log keeps the entries of earlier revisions for open watches
    /// and for tests.
    compacted: u64,
    objects: Objects,
    log: Vec<Entry>,
    watches: BTreeMap<u64, Watch>,
    opened: u64,
    pub(crate) requests: Vec<RecordedRequest>,
}

type Objects = BTreeMap<ObjectKey, Arc<Stored>>;

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

    pub(crate) fn objects_at(&self, revision: u64) -> Vec<Value> {
        self.state_at(revision).into_values().map(|stored| stored.json.clone()).collect()
    }

    /// Returns the wakers of watches that have unread items. The caller must wake these watches after releasing the
    /// lock.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        let end = self.log.len();
        self.watches.values_mut().filter(|watch| watch.has_items(end)).filter_map(|watch| watch.waker.take()).collect()
    }

    fn check_key(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let resource = &self.resource;
        let wrong = match (resource.scope, key.namespace()) {
            _ if key.name().is_empty() => format!("an object of {resource} has no name"),
            (Scope::Namespaced, None) => format!("{resource} are namespaced, but {key:?} has no namespace"),
            (Scope::Cluster, Some(_)) => format!("{resource} are cluster-scoped, but {key:?} has a namespace"),
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

    /// Returns the object's JSON with `revision` as its resourceVersion. A DELETED event contains the last state of the
    /// object with the revision of the deletion.
    fn at(&self, revision: u64) -> Bytes {
        let mut json = self.json.clone();
        json["metadata"]["resourceVersion"] = revision.to_string().into();
        encoded(&json)
    }
}

fn encoded(json: &Value) -> Bytes {
    // Serialization cannot fail, because all map keys of a `Value` are strings.
    serde_json::to_vec(json).unwrap_or_default().into()
}

/// Returns a metadata field, or an empty string if the field does not exist or is not a string.
fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(crate) fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(meta(object, "namespace"), meta(object, "name"))
}
