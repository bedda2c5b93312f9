//! The states that a resource had at earlier revisions.

use std::sync::Arc;

use super::objects::Objects;
use crate::stored::StoreChange;

/// A state of a resource at an earlier revision. This type stores a later state, and the changes between the two states.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) later: Objects,
    pub(super) since: Vec<Arc<StoreChange>>,
}

impl Past {
    /// Returns the objects. To compute the objects, the method undoes the changes in the later state.
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
