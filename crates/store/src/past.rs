//! A resource's states at earlier revisions.

use std::sync::Arc;

use super::objects::Objects;
use crate::stored::StoreChange;

/// A resource's state at an earlier revision, stored as a later state and the changes between the two states.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) later: Objects,
    pub(super) since: Vec<Arc<StoreChange>>,
}

impl Past {
    /// Computes the objects at the earlier revision by undoing the changes in the later state.
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
