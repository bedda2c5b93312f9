//! A resource's states at earlier revisions.

use std::sync::Arc;

use super::objects::Objects;
use crate::stored::StoreChange;

/// The state of a resource at an earlier revision, computed from a later state and the changes between both revisions.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) later: Objects,
    pub(super) since: Vec<Arc<StoreChange>>,
}

impl Past {
    /// Computes the objects at the earlier revision by undoing the later changes.
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
