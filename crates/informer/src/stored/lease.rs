//! Decoded objects that have not been read yet.

use std::sync::Arc;

use super::data::Record;
use super::record::ReadStart;

/// Keeps the decoded object of a record in memory. A lease is created if an object is decoded only to check whether it
/// can be decoded, for example before an event is delivered. When the lease is dropped, the decoded object is also
/// dropped, unless it has been read since. Objects that are never read therefore do not use the memory budget for
/// decoded objects.
///
/// Do not drop a lease while holding a lock, because dropping the object runs user code.
pub(crate) struct Lease<T> {
    record: Arc<Record<T>>,
}

impl<T> Record<T> {
    /// Decodes the object to check whether decoding succeeds. The returned lease keeps the decoded object in memory
    /// until it is dropped. Returns `None` if the object is already decoded, or if it cannot be decoded.
    pub(super) fn lend(self: &Arc<Self>) -> Option<Lease<T>> {
        match self.begin_read() {
            ReadStart::Ready(_) | ReadStart::Unreadable => None,
            ReadStart::Empty => self.fill(false).map(|_| Lease { record: self.clone() }),
        }
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.record.end_lease();
    }
}
