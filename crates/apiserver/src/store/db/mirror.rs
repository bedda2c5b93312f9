//! The objects of another cluster: shown until somebody writes them here.
//!
//! Each object that is known of has a base: what the other cluster has there. With the first write of it here, the base stays as it is,
//! and what becomes of the object in the other cluster is shown no more; all that is kept of that is that it has moved on. So what was
//! done here is the difference between the base and the object.

use std::collections::{HashMap, HashSet};
use std::slice;
use std::sync::Arc;

use super::{Db, Inner};
use crate::store::{Change, Draft, Expect, Key, Range, ResourceKey, Stored};

/// What is known of each object of the other cluster.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    bases: HashMap<(ResourceKey, Key), Base>,
}

#[derive(Debug, Default)]
struct Base {
    /// The object there; none where it is absent.
    object: Option<Arc<Stored>>,
    /// The last version of it that was told of there, its deletion included.
    at: u64,
    /// The revision of its first write here.
    written: Option<u64>,
    /// Whether it has changed there since.
    moved: bool,
}

/// An object of the other cluster, or that it is absent there.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The version there; 0 where none is known.
    pub(crate) at: u64,
    pub(crate) object: Option<Draft>,
}

/// An object that was written here.
#[derive(Clone, Debug)]
pub(crate) struct WrittenHere {
    pub(crate) resource: ResourceKey,
    /// As the other cluster had it then.
    pub(crate) base: Option<Arc<Stored>>,
    /// As it is here now.
    pub(crate) object: Option<Arc<Stored>>,
    /// Whether it has changed in the other cluster since.
    pub(crate) moved: bool,
}

impl Mirror {
    /// Takes a change for a write. What is shown takes its own changes back.
    pub(super) fn note(&mut self, change: &Change) {
        let base = self.bases.entry((change.resource().clone(), change.key.clone())).or_default();
        base.written.get_or_insert(change.revision());
    }
}

impl Db {
    /// Lays the store over another cluster.
    pub(crate) fn begin_mirror(&self) {
        self.lock().mirror = Some(Mirror::default());
    }

    /// Whether the store is laid over another cluster.
    pub(crate) fn is_mirror(&self) -> bool {
        self.lock().mirror.is_some()
    }

    /// Whether another cluster decides what becomes of the object: nobody has written it here.
    pub(crate) fn is_left_alone(&self, resource: &str, key: &str) -> bool {
        let inner = self.lock();
        inner.mirror.as_ref().is_some_and(|mirror| {
            let base = mirror.bases.get(&(resource.into(), key.into()));
            base.is_none_or(|base| base.written.is_none())
        })
    }

    /// The object as the other cluster has it, or had it when it was first written here.
    pub(crate) fn base(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        let inner = self.lock();
        inner.mirror.as_ref()?.bases.get(&(resource.into(), key.into()))?.object.clone()
    }

    /// All objects that were written here, in the order of their first writes.
    pub(crate) fn written_here(&self) -> Vec<WrittenHere> {
        let inner = self.lock();
        let bases = inner.mirror.iter().flat_map(|mirror| &mirror.bases);
        let mut written: Vec<_> = bases.filter_map(|(place, base)| Some((base.written?, place, base))).collect();
        written.sort_by_key(|(revision, ..)| *revision);
        let of = |(_, (resource, key), base): (u64, &(ResourceKey, Key), &Base)| WrittenHere {
            resource: resource.clone(),
            base: base.object.clone(),
            object: inner.store.get(resource, key).cloned(),
            moved: base.moved,
        };
        written.into_iter().map(of).collect()
    }

    /// Shows an object as the other cluster has it, unless it was written here or something newer is known. Where it is followed, those
    /// who do are told; else it is as if it had always been so.
    pub(crate) fn show(&self, resource: &ResourceKey, key: &str, shown: Shown, followed: bool) {
        self.show_in(&mut self.lock(), resource, key, shown, followed);
    }

    /// Those of a range that were not told of are absent in the other cluster at that version.
    pub(crate) fn show_no_others(&self, resource: &ResourceKey, range: &Range, told: &HashSet<String>, at: u64) {
        let mut inner = self.lock();
        let Some(mirror) = &inner.mirror else { return };
        let is_gone = |(of, key): &&(ResourceKey, Key)| {
            of == resource && key.starts_with(range.prefix()) && !told.contains(&**key)
        };
        let gone: Vec<Key> = mirror.bases.keys().filter(is_gone).map(|(_, key)| key.clone()).collect();
        for key in gone {
            self.show_in(&mut inner, resource, &key, Shown { at, object: None }, true);
        }
    }

    fn show_in(&self, inner: &mut Inner, resource: &ResourceKey, key: &str, shown: Shown, followed: bool) {
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
        let there = inner.store.get(resource, key).cloned();
        let object = match (shown.object, there) {
            (None, None) => None,
            (None, Some(there)) => {
                self.show_absent(inner, resource, key, &there, followed);
                None
            }
            (Some(draft), there) => self.show_present(inner, resource, key, shown.at, draft, there, followed),
        };
        let Some(mirror) = &mut inner.mirror else { return };
        let Some(base) = mirror.bases.get_mut(&place) else { return };
        (base.object, base.written) = (object, None);
        // Of what was never told of there is nothing to know.
        if base.at == 0 && base.object.is_none() {
            mirror.bases.remove(&place);
        }
    }

    fn show_absent(&self, inner: &mut Inner, resource: &ResourceKey, key: &str, there: &Arc<Stored>, followed: bool) {
        let now = self.clock.instant();
        if followed {
            // It fails only where the object is not as it was a moment ago, under the same lock.
            if let Ok(change) = inner.store.remove(now, resource, key, there.revision()) {
                self.tell(inner, slice::from_ref(&change));
            }
            return;
        }
        let revision = inner.store.revision();
        if let Some(change) = inner.store.set(now, resource, key, revision, None) {
            self.tell_background(inner, change);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step under one lock")]
    fn show_present(
        &self,
        inner: &mut Inner,
        resource: &ResourceKey,
        key: &str,
        at: u64,
        draft: Draft,
        there: Option<Arc<Stored>>,
        followed: bool,
    ) -> Option<Arc<Stored>> {
        let now = self.clock.instant();
        let expect = there.as_ref().map_or(Expect::Absent, |there| Expect::At(there.revision()));
        let draft = inner.with_free_claims(resource, key, expect, draft);
        if followed {
            // Its own version, unless a write here was given that.
            inner.store.advance_to(at.saturating_sub(1));
            let change = inner.store.put(now, resource, key, expect, draft).ok()?;
            self.tell(inner, slice::from_ref(&change));
            return Some(change.new.clone());
        }
        let revision = if at > 0 { at } else { inner.store.revision() + 1 };
        let change = inner.store.set(now, resource, key, revision, Some(draft))?;
        let new = change.new.clone();
        self.tell_background(inner, change);
        Some(new)
    }

    /// Tells the controllers, and nobody else.
    fn tell_background(&self, inner: &mut Inner, change: Change) {
        self.show_now(inner);
        inner.tell_all(&Arc::new(change));
        self.revision.send_replace(inner.store.revision());
    }
}
