//! Objects that a subscriber has not received.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;

/// The keys of objects that the subscriber has not received, because they could not be decoded when they should have
/// been delivered.
#[derive(Default)]
pub(super) struct Unknown(Mutex<HashSet<ObjectKey>>);

impl Unknown {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
