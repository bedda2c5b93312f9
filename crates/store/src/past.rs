//! A resource as an earlier revision left it.

use std::sync::Arc;

use super::StoreChange;
use super::objects::Objects;

/// What a resource was at an earlier revision: what was there later, and the changes in between.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) later: Objects,
    pub(super) since: Vec<Arc<StoreChange>>,
}

impl Past {
    /// The objects of that time: those that were there later, with every change in between undone.
    pub fn objects(self) -> Objects {
        let mut objects = self.later;
        for change in self.since.iter().rev() {
            match &change.old {
                Some(old) => drop(objects.insert(&change.key, old.clone())),
                None => drop(objects.remove(&change.key)),
            }
        }
        objects
    }
}
