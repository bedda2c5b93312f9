//! What a cache held at one moment.

use std::sync::Arc;

/// The objects that were in a cache together at one moment. It does not change any more.
pub struct Snapshot<T> {
    objects: Vec<Arc<T>>,
    resource_version: String,
}

impl<T> Snapshot<T> {
    pub(crate) fn new(objects: Vec<Arc<T>>, resource_version: String) -> Self {
        Self { objects, resource_version }
    }

    /// The objects, in no particular order.
    pub fn objects(&self) -> &[Arc<T>] {
        &self.objects
    }

    /// The revision up to which the cache had all changes; empty before the first list.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl<T> IntoIterator for Snapshot<T> {
    type Item = Arc<T>;
    type IntoIter = std::vec::IntoIter<Arc<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.objects.into_iter()
    }
}
