//! Copies the objects of a live cluster for a plan, which is a dry run on top of this cluster. This module calls the
//! live cluster the upstream cluster.
//!
//! The base of an object is the upstream object at the first local write. After this write, the store does not apply
//! upstream changes to the object, and only records that the upstream object has changed. Therefore, all differences
//! between an object and its base come from local writes.

use std::collections::{HashMap, HashSet};
use std::slice;
use std::sync::Arc;

use super::{Db, Inner};
use crate::{Change, Draft, Expect, Key, Range, ResourceKey, Stored};

#[derive(Debug, Default)]
pub(super) struct Mirror {
    bases: HashMap<(ResourceKey, Key), Base>,
}

#[derive(Debug, Default)]
struct Base {
    object: Option<Arc<Stored>>,
    /// The last known upstream version of the object, or of its deletion.
    at: u64,
    written: Option<u64>,
    moved: bool,
}

/// The upstream state of an object that may not exist.
#[derive(Debug)]
pub struct UpstreamObject {
    /// The object's upstream resourceVersion, or 0 if it is unknown.
    pub at: u64,
    pub object: Option<Draft>,
}

/// An object with local writes.
#[derive(Clone, Debug)]
pub struct LocalWrite {
    pub resource: ResourceKey,
    /// The object's upstream state before its first local write.
    pub base: Option<Arc<Stored>>,
    /// The current local object.
    pub object: Option<Arc<Stored>>,
    /// Whether the object has changed upstream since its first local write.
    pub moved: bool,
}

impl Mirror {
    /// Records a change as a local write. When the change copies an upstream object, the copying method then removes
    /// the record.
    pub(super) fn record_change(&mut self, change: &Change) {
        let base = self.bases.entry((change.resource().clone(), change.key.clone())).or_default();
        base.written.get_or_insert(change.revision());
    }
}

impl Db {
    /// Turns this store into a copy of the upstream cluster.
    pub fn begin_mirror(&self) {
        self.inner.lock().mirror = Some(Mirror::default());
    }

    /// Returns `true` if this store is a copy of an upstream cluster.
    pub fn is_mirror(&self) -> bool {
        self.inner.lock().mirror.is_some()
    }

    /// Returns `true` if the object has no local writes, so that its state comes from the upstream cluster.
    pub fn follows_upstream(&self, resource: &str, key: &str) -> bool {
        let inner = self.inner.lock();
        inner.mirror.as_ref().is_some_and(|mirror| {
            let base = mirror.bases.get(&(resource.into(), key.into()));
            base.is_none_or(|base| base.written.is_none())
        })
    }

    /// Returns the object's upstream state, or the state before its first local write.
    pub fn upstream_object(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        let inner = self.inner.lock();
        inner.mirror.as_ref()?.bases.get(&(resource.into(), key.into()))?.object.clone()
    }

    /// Returns all objects with local writes, ordered by their first local write.
    pub fn local_writes(&self) -> Vec<LocalWrite> {
        let inner = self.inner.lock();
        let bases = inner.mirror.iter().flat_map(|mirror| &mirror.bases);
        let mut written: Vec<_> = bases.filter_map(|(place, base)| Some((base.written?, place, base))).collect();
        written.sort_by_key(|(revision, ..)| *revision);
        let local_write = |(_, (resource, key), base): (u64, &(ResourceKey, Key), &Base)| LocalWrite {
            resource: resource.clone(),
            base: base.object.clone(),
            object: inner.store.get(resource, key).cloned(),
            moved: base.moved,
        };
        written.into_iter().map(local_write).collect()
    }

    /// Stores the upstream state of an object. Does nothing if the object has local writes, or if the store already
    /// contains a newer state. Watchers of the collection receive an event only if `followed` is `true`.
    pub fn show(&self, resource: &ResourceKey, key: &str, shown: UpstreamObject, followed: bool) {
        self.show_in(&mut self.inner.lock(), resource, key, shown, followed);
    }

    /// Records that `present` contains the keys of all upstream objects in this range at the version `at`.
    pub fn show_no_others(&self, resource: &ResourceKey, range: &Range, present: &HashSet<String>, at: u64) {
        let mut inner = self.inner.lock();
        let Some(mirror) = &inner.mirror else { return };
        let is_gone = |(of, key): &&(ResourceKey, Key)| {
            of == resource && key.starts_with(range.prefix()) && !present.contains(&**key)
        };
        let gone: Vec<Key> = mirror.bases.keys().filter(is_gone).map(|(_, key)| key.clone()).collect();
        for key in gone {
            self.show_in(&mut inner, resource, &key, UpstreamObject { at, object: None }, true);
        }
    }

    fn show_in(&self, inner: &mut Inner, resource: &ResourceKey, key: &str, shown: UpstreamObject, followed: bool) {
        let Some(mirror) = &mut inner.mirror else { return };
        let place = (resource.clone(), Key::from(key));
        let base = mirror.bases.entry(place.clone()).or_default();
        if shown.at > 0 && shown.at <= base.at {
            return;
        }
        base.at = base.at.max(shown.at);
        if base.written.is_some() {
            base.moved |= shown.object.is_some() || base.object.is_some();
            return;
        }
        let current = inner.store.get(resource, key).cloned();
        let object = match (shown.object, current) {
            (None, None) => None,
            (None, Some(current)) => {
                self.show_absent(inner, resource, key, &current, followed);
                None
            }
            (Some(draft), current) => self.show_present(inner, resource, key, shown.at, draft, current, followed),
        };
        let Some(mirror) = &mut inner.mirror else { return };
        let Some(base) = mirror.bases.get_mut(&place) else { return };
        (base.object, base.written) = (object, None);
        // Remove the entry if the object does not exist upstream and has no known upstream version.
        if base.at == 0 && base.object.is_none() {
            mirror.bases.remove(&place);
        }
    }

    fn show_absent(&self, inner: &mut Inner, resource: &ResourceKey, key: &str, current: &Arc<Stored>, followed: bool) {
        let now = self.clock.instant();
        if followed {
            // Removing the object cannot fail, because the store is locked against other writes.
            if let Ok(change) = inner.store.remove(now, resource, key, current.revision()) {
                self.notify(inner, slice::from_ref(&change));
            }
            return;
        }
        let revision = inner.store.revision();
        if let Some(change) = inner.store.set(now, resource, key, revision, None) {
            self.notify_background(inner, change);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all values are needed while the lock is held")]
    fn show_present(
        &self,
        inner: &mut Inner,
        resource: &ResourceKey,
        key: &str,
        at: u64,
        draft: Draft,
        current: Option<Arc<Stored>>,
        followed: bool,
    ) -> Option<Arc<Stored>> {
        let now = self.clock.instant();
        let expect = current.as_ref().map_or(Expect::Absent, |current| Expect::At(current.revision()));
        let draft = inner.with_free_claims(resource, key, expect, draft);
        if followed {
            // Use the upstream version as the object's revision, unless a local write has already used this revision.
            inner.store.advance_to(at.saturating_sub(1));
            let change = inner.store.put(now, resource, key, expect, draft).ok()?;
            self.notify(inner, slice::from_ref(&change));
            return Some(change.new.clone());
        }
        let revision = if at > 0 { at } else { inner.store.revision() + 1 };
        let change = inner.store.set(now, resource, key, revision, Some(draft))?;
        let new = change.new.clone();
        self.notify_background(inner, change);
        Some(new)
    }

    /// Notifies the controllers of a change, but not the watchers.
    fn notify_background(&self, inner: &mut Inner, change: Change) {
        self.publish(inner);
        inner.notify_multi(&Arc::new(change));
        self.revision.send_replace(inner.store.revision());
    }
}
