//! Objects that a subscriber has not received.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;

/// The keys of objects that the subscriber has not received, because the objects could not be decoded at the time of
/// delivery.
#[derive(Default)]
pub(super) struct Unknown(Mutex<HashSet<ObjectKey>>);

impl Unknown {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
