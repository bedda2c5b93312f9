//! The state that a resource had at an earlier revision.

use std::sync::Arc;

use super::StoreChange;
use super::objects::Objects;

/// The state that a resource had at an earlier revision. The state is represented by a later state and the changes
/// between the two states.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) later: Objects,
    pub(super) since: Vec<Arc<StoreChange>>,
}

impl Past {
    /// Returns the objects. The objects are computed from the later state by undoing the changes.
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
