//! Decoded objects that no reader has read yet.

use std::sync::Arc;

use super::record::{Begun, Record};

/// Keeps the decoded object of a record in memory. A lease exists if an object was decoded only to find out whether it
/// can be decoded, for example before an event with the object is delivered. When the lease is dropped, the decoded
/// object is dropped too, unless a reader has read the object in the meantime. So objects that are never read do not
/// use up the memory budget for decoded objects.
///
/// The lease must be dropped without locks, because dropping the object runs user code.
pub(crate) struct Lease<T> {
    record: Arc<Record<T>>,
}

impl<T> Record<T> {
    /// Decodes the object to find out whether it can be decoded, and keeps the decoded object as long as the lease
    /// exists. Returns `None` if the object is already decoded, or if it cannot be decoded.
    pub(super) fn lend(self: &Arc<Self>) -> Option<Lease<T>> {
        match self.begin_read() {
            Begun::Ready(_) | Begun::Unreadable => None,
            Begun::Empty => self.fill(false).map(|_| Lease { record: self.clone() }),
        }
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.record.end_lease();
    }
}
