//! All resources as they are at one moment.

use std::sync::Arc;

use super::tree::Tree;
use super::{Key, KeyRange, Objects, ResourceKey, Stored};

/// Every object as one revision left it. A clone costs nothing and shows for ever what was there when it was made.
#[derive(Clone, Debug, Default)]
pub struct Present {
    pub(super) revision: u64,
    pub(super) resources: Tree<Objects>,
}

impl Present {
    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object of that key.
    pub fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.resources.get(resource)?.get(key)
    }

    /// The objects of a resource.
    pub fn objects(&self, resource: &str) -> Objects {
        self.resources.get(resource).cloned().unwrap_or_default()
    }

    /// All objects. To begin costs the same however many there are.
    pub fn everything(&self) -> impl Iterator<Item = (ResourceKey, Key, Arc<Stored>)> + use<> {
        let resources = self.resources.clone();
        let all = (0..resources.len()).map_while(move |at| resources.at(at).cloned());
        all.flat_map(|(resource, objects)| {
            let run = objects.run(&KeyRange::namespace(None));
            run.map(move |(key, stored)| (resource.clone(), key, stored))
        })
    }

    /// Changes the objects of a resource, of which clones keep what they show.
    pub(super) fn change<R>(&mut self, resource: &str, change: impl FnOnce(&mut Objects) -> R) -> R {
        let mut objects = self.objects(resource);
        let changed = change(&mut objects);
        self.resources.insert(resource, objects);
        changed
    }
}
