//! Snapshots of all resources.

use std::sync::Arc;

use super::tree::Tree;
use crate::key_range::KeyRange;
use crate::objects::Objects;
use crate::stored::{Key, ResourceKey, Stored};

/// All objects at one revision. Cloning a `Present` creates an immutable snapshot, in constant time and memory.
#[derive(Clone, Debug, Default)]
pub struct Present {
    pub(super) revision: u64,
    pub(super) resources: Tree<Objects>,
}

impl Present {
    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the object of `resource` with this key.
    pub fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.resources.get(resource)?.get(key)
    }

    /// Returns the objects of a resource.
    pub fn objects(&self, resource: &str) -> Objects {
        self.resources.get(resource).cloned().unwrap_or_default()
    }

    /// Returns an iterator over all objects. Creating the iterator takes constant time.
    pub fn everything(&self) -> impl Iterator<Item = (ResourceKey, Key, Arc<Stored>)> + use<> {
        let resources = self.resources.clone();
        let all = (0..resources.len()).map_while(move |at| resources.at(at).cloned());
        all.flat_map(|(resource, objects)| {
            let run = objects.run(&KeyRange::namespace(None));
            run.map(move |(key, stored)| (resource.clone(), key, stored))
        })
    }

    /// Applies a change to a resource's objects. Clones of this snapshot do not change.
    pub(super) fn change<R>(&mut self, resource: &str, change: impl FnOnce(&mut Objects) -> R) -> R {
        let mut objects = self.objects(resource);
        let changed = change(&mut objects);
        self.resources.insert(resource, objects);
        changed
    }
}
