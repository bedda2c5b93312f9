//! Objects that a subscriber has not received.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;

/// The keys whose objects could not be read when the queue delivered them. The subscriber has not received these
/// objects.
#[derive(Default)]
pub(super) struct Unknown(Mutex<HashSet<ObjectKey>>);

impl Unknown {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
