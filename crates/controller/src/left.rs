//! Keys that a run leaves undone, for the next one.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;

/// Keys that nothing else brings again: of deleted objects, and those that were added by hand. The others may be among them.
#[derive(Debug, Default)]
pub(crate) struct Left(Mutex<BTreeSet<ObjectKey>>);

/// A key in the hands of a worker. If that is dropped or gives up, the key is left.
pub(crate) struct InHand<'a> {
    left: &'a Left,
    key: Option<ObjectKey>,
}

impl Left {
    pub(crate) fn extend(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.lock().extend(keys);
    }

    pub(crate) fn take(&self) -> BTreeSet<ObjectKey> {
        take(&mut *self.lock())
    }

    pub(crate) fn in_hand(&self, key: ObjectKey) -> InHand<'_> {
        InHand { left: self, key: Some(key) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        // No step under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InHand<'_> {
    /// The key is done, or back in the queue.
    pub(crate) fn settle(mut self) {
        self.key = None;
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.left.extend(self.key.take());
    }
}
