//! Decoded objects that no reader has read yet.

use std::sync::Arc;

use super::record::Record;

/// Keeps the decoded object of a record in memory. A lease exists if an object was decoded only to find out whether it
/// can be decoded, for example before an event with the object is delivered. When the lease is dropped, the decoded
/// object is dropped too, unless it was read meanwhile. So objects that are never read do not use up the memory budget
/// for decoded objects.
///
/// The lease must be dropped without locks, because dropping the object runs user code.
pub(crate) struct Lease<T> {
    record: Arc<Record<T>>,
}

impl<T> Lease<T> {
    pub(super) fn new(record: &Arc<Record<T>>) -> Self {
        Self { record: record.clone() }
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.record.end_lease();
    }
}
