//! The state of a resource at an earlier revision.

use std::sync::Arc;

use super::StoreChange;
use super::objects::Objects;

/// The state of a resource at an earlier revision. It is stored as a later state and the changes in between.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) later: Objects,
    pub(super) since: Vec<Arc<StoreChange>>,
}

impl Past {
    /// Returns the objects. Computes them by undoing the changes in the later state.
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
