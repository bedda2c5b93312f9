//! Adds and updates the indices of a cache.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pintle_meta::{Metadata, Object, ObjectKey};

use super::Cache;
use super::writes::{Indexed, Refused};
use crate::error::IndexFailed;
use crate::index::{AddIndexError, Function, Index, IndexValues, NAMESPACE_INDEX, values};
use crate::store::{Write, Writer};
use crate::stored::Stored;
use crate::undecodable::Undecodable;

thread_local! {
    /// The address of the cache whose index function is running on this thread, or 0 if no index function is running.
    static INDEXED: Cell<usize> = const { Cell::new(0) };
}

/// Runs `call`, and meanwhile records in [`INDEXED`] that this thread runs an index function of the cache at `address`.
fn indexing<R>(address: usize, call: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            INDEXED.set(self.0);
        }
    }
    let _restore = Restore(INDEXED.replace(address));
    call()
}

impl<T: Object> Cache<T> {
    /// Adds an index that contains the values that `function` returns for each object. The new index also contains the
    /// objects that are already stored. Other threads can read and write the cache during the call.
    ///
    /// `function` returns a `Vec<String>`, an `Option<String>`, or a `Result` of either. The returned values must
    /// depend only on the object. The cache holds no lock while it calls `function`.
    ///
    /// An informer's cache drops `function` when the informer ends. A cache without an informer drops `function` when
    /// the cache is dropped. If `function` captures a handle to the informer, this handle keeps the informer running. A
    /// captured [`Lister`](crate::Lister) keeps the informer running only until `function` first uses the lister.
    ///
    /// # Errors
    ///
    /// Returns [`AddIndexError::Exists`] if an index with this name exists. Returns [`AddIndexError::Failed`] if
    /// `function` fails or panics on an object that is stored before or during the call. If an error is returned, no
    /// index is added, and the objects in the cache are unchanged.
    pub fn add_index<V: IndexValues>(
        &self,
        name: impl Into<String>,
        function: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Result<(), AddIndexError> {
        self.add(name.into(), Function::OfObject(Arc::new(move |object: &T| function(object).into_values())))
    }

    /// Adds an index like [`add_index`](Self::add_index). `function` receives only the metadata of an object, so the
    /// cache decodes no objects to compute the index.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add_index`](Self::add_index).
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_informer::Cache;
    /// use pintle_meta::{Metadata, PartialObject};
    ///
    /// let pods = Cache::<PartialObject>::new();
    /// pods.add_metadata_index("owner", |pod: &dyn Metadata| pod.controller().map(|owner| owner.uid.to_owned()))?;
    /// # Ok::<(), pintle_informer::AddIndexError>(())
    /// ```
    pub fn add_metadata_index<V: IndexValues>(
        &self,
        name: impl Into<String>,
        function: impl Fn(&dyn Metadata) -> V + Send + Sync + 'static,
    ) -> Result<(), AddIndexError> {
        self.add(name.into(), Function::OfMetadata(Arc::new(move |metadata| function(metadata).into_values())))
    }

    fn add(&self, name: String, function: Function<T>) -> Result<(), AddIndexError> {
        // Once the new index is in `indices`, each write also computes its values, so the code below only adds the
        // values of existing objects.
        let writer = self.store.writer();
        let mut indices = self.indices().to_vec();
        if indices.iter().any(|index| *index.name == *name) {
            return Err(AddIndexError::Exists { name });
        }
        let number = indices.iter().map(|index| index.number).max().unwrap_or_default() + 1;
        let index = Index::new(&name, number, function);
        indices.push(index.clone());
        let before = self.set_indices(indices);
        let (pin, ()) = self.store.pin(|_| ());
        drop(writer);
        drop(before);

        let mut found = Vec::with_capacity(pin.len());
        pin.visit_keys(|key, stamp, object| {
            if index.failure().is_none() {
                match indexing(self.address(), || index.values(key, object)) {
                    Ok(values) => found.push((key.clone(), stamp, values)),
                    Err(error) => index.fail(error),
                }
            }
        });
        if index.failure().is_none() {
            for (key, stamp, values) in found {
                self.store.writer().add_values(&key, stamp, number, &values);
            }
        }
        // Replace the list of indices, which forces a writer that prepared its write with the old list to prepare the
        // write again. A write that was prepared with the old list is therefore never committed.
        let mut writer = self.store.writer();
        let mut indices = self.indices().to_vec();
        let failure = index.failure().cloned();
        match &failure {
            None => index.set_ready(writer.stamp()),
            Some(_) => {
                indices.retain(|index| index.number != number);
                writer.forget_index(number);
            }
        }
        let before = self.set_indices(indices);
        drop(writer);
        drop(before);
        if self.is_closed.load(Ordering::Acquire) {
            self.drop_functions();
        }
        failure.map_or(Ok(()), |error| Err(AddIndexError::Failed(error)))
    }

    pub(crate) fn has_value(&self, name: &str, value: &str, key: &ObjectKey, object: &Arc<T>) -> bool {
        if name == NAMESPACE_INDEX {
            return key.namespace() == Some(value);
        }
        let indices = self.indices();
        let Some(index) = indices.iter().find(|index| *index.name == *name) else { return false };
        let values = indexing(self.address(), || index.values(key, &object.clone().into()));
        values.is_ok_and(|values| values.iter().any(|found| found == value))
    }

    pub(crate) fn is_indexing(&self) -> bool {
        INDEXED.get() == self.address()
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.store).addr()
    }

    pub(crate) fn indices(&self) -> Arc<Vec<Index<T>>> {
        self.indices.read().clone()
    }

    /// Prepares a write without locks, and commits the write while holding the writer lock. If the indices have changed
    /// since the preparation, this method prepares the write again.
    pub(super) fn commit<P, R>(
        &self,
        prepare: impl Fn(&[Index<T>]) -> P,
        commit: impl FnOnce(&mut Writer<'_, Stored<T>>, P) -> R,
    ) -> R {
        loop {
            let indices = self.indices();
            let prepared = prepare(&indices);
            let mut guard = self.begin_commit();
            // Closing the cache only removes index functions, so values that were already prepared remain valid.
            if self.is_closed.load(Ordering::Acquire) || Arc::ptr_eq(&indices, &self.indices.read()) {
                let committed = commit(&mut guard.writer, prepared);
                // `committed` contains the replaced objects, which may run user code when they are dropped after the
                // lock is released.
                drop(guard);
                return committed;
            }
        }
    }

    /// Computes an object's index values. If an index function fails, an informer's cache stores the object without
    /// values in the failed index. The failure therefore does not affect other users of the informer. A cache without
    /// an informer rejects the object.
    pub(super) fn put(
        &self,
        indices: &[Index<T>],
        key: &ObjectKey,
        object: &Stored<T>,
    ) -> Result<Indexed<T>, Box<Refused>> {
        let (values, mut unindexed) = indexing(self.address(), || values(indices, key, object));
        if self.is_strict && !unindexed.is_empty() {
            let error = unindexed.swap_remove(0);
            let entry = error.entry(object);
            let was_replaced = self.was_replaced(key, &entry);
            return Err(Box::new(Refused { error, entry, was_replaced }));
        }
        Ok(Indexed { write: Write { key: key.clone(), value: Some(object.clone()), values }, unindexed })
    }

    /// Replaces the indices and returns the previous ones. The caller must hold the writer lock, and must release it
    /// before dropping the returned `Arc`.
    #[must_use = "the caller must drop it without locks"]
    fn set_indices(&self, indices: Vec<Index<T>>) -> Arc<Vec<Index<T>>> {
        std::mem::replace(&mut *self.indices.write(), Arc::new(indices))
    }

    pub(super) fn drop_functions(&self) {
        let writer = self.store.writer();
        let indices = self.indices().iter().map(|index| index.without_function()).collect();
        let before = self.set_indices(indices);
        drop(writer);
        drop(before);
    }
}

impl IndexFailed {
    pub(crate) fn entry(&self, object: &impl Object) -> Undecodable {
        Undecodable {
            key: self.key.clone(),
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
            error: self.error.clone(),
        }
    }
}
