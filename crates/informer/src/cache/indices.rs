//! Indices of a cache, and index functions, which are the user's: how they are called, and how they fail.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLockReadGuard};

use pintle_delta_fifo::BoxError;
use pintle_meta::{Object, ObjectKey};

use super::Cache;
use super::writes::{Indexed, Refused};
use crate::guarded::Guarded;
use crate::panic::catch;
use crate::store::{NAMESPACES, Write, Writer};
use crate::{NAMESPACE_INDEX, Undecodable, UnknownIndex};

/// What an index function gives for an object: values, or an error.
///
/// An infallible function gives a `Vec<String>`, or an `Option<String>` where an object has one value at most.
pub trait IndexValues {
    /// The values, each of which the object is to be found by.
    ///
    /// # Errors
    ///
    /// The function's.
    fn into_values(self) -> Result<Vec<String>, BoxError>;
}

impl IndexValues for Vec<String> {
    fn into_values(self) -> Result<Vec<String>, BoxError> {
        Ok(self)
    }
}

impl IndexValues for Option<String> {
    fn into_values(self) -> Result<Vec<String>, BoxError> {
        Ok(self.into_iter().collect())
    }
}

impl<V: IndexValues, E: Into<BoxError>> IndexValues for Result<V, E> {
    fn into_values(self) -> Result<Vec<String>, BoxError> {
        self.map_err(Into::into)?.into_values()
    }
}

/// An index function failed on an object, or panicked, so that the object cannot be found by that index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct IndexFailed {
    /// The object.
    pub key: ObjectKey,
    /// The name of the index.
    pub index: String,
    /// Which index function it was, and what it said.
    error: String,
}

/// Why an index was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddIndexError {
    /// There is an index of that name.
    #[error("there is an index named {name:?} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// Its function fails on an object that is there.
    #[error("cannot index {}: {_0}", _0.key)]
    Failed(#[source] IndexFailed),
}

thread_local! {
    /// The address of the cache of which this thread calls an index function; 0: of none.
    static INDEXED: Cell<usize> = const { Cell::new(0) };
}

/// Calls an index function of the cache at that address.
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
    /// Adds an index: objects by the values that `function` gives for them. It is there once all objects that are in the store have
    /// been indexed, and includes them; until then reads go on, and so do writes.
    ///
    /// `function` gives a `Vec<String>`, an `Option<String>`, or a `Result` of either. It has to give the same for the same object each
    /// time, so its values follow from the object alone, and not from what else a store holds. It is called under no lock.
    ///
    /// What `function` captures lives as long as the store, or until the informer that fills the store ends. A captured handle to that
    /// informer therefore keeps the informer running. A captured [`Lister`](crate::Lister) does not, once `function` has read by it.
    ///
    /// # Errors
    ///
    /// [`AddIndexError::Exists`] if the name is taken, and [`AddIndexError::Failed`] if the function fails or panics on an object that is
    /// there, or on one that comes meanwhile; then there is no such index, and the store holds what it would hold without.
    pub fn add_index<V: IndexValues>(
        &self,
        name: impl Into<String>,
        function: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Result<(), AddIndexError> {
        let name = name.into();
        let function = Arc::new(move |object: &T| function(object).into_values());
        // From here on writes bring its values; what is there already is done below.
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
        // Other indices from here on, be they the same ones: a write that was got ready while this one might fail begins anew.
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

    /// Whether an object would have that value in the index of that name.
    pub(crate) fn has_value(&self, name: &str, value: &str, key: &ObjectKey, object: &T) -> bool {
        if name == NAMESPACE_INDEX {
            return key.namespace() == Some(value);
        }
        let indices = self.indices();
        let Some(index) = indices.iter().find(|index| *index.name == *name) else { return false };
        let values = indexing(self.address(), || index.values(key, object));
        values.is_ok_and(|values| values.iter().any(|found| found == value))
    }

    /// Whether this thread calls an index function of this cache.
    pub(crate) fn is_indexing(&self) -> bool {
        INDEXED.get() == self.address()
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.store).addr()
    }

    pub(crate) fn indices(&self) -> Arc<Vec<Index<T>>> {
        self.lock_indices().clone()
    }

    fn lock_indices(&self) -> RwLockReadGuard<'_, Arc<Vec<Index<T>>>> {
        self.indices.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a write ready under no lock, and commits it, unless there is another index by then: then it begins anew.
    pub(super) fn commit<P, R>(
        &self,
        prepare: impl Fn(&[Index<T>]) -> P,
        commit: impl FnOnce(&mut Writer<'_, Guarded<T>>, P) -> R,
    ) -> R {
        loop {
            let indices = self.indices();
            let prepared = prepare(&indices);
            let mut noting = self.noting();
            // Those of a closed cache have lost their functions, and nothing else.
            if self.is_closed.load(Ordering::Acquire) || Arc::ptr_eq(&indices, &self.lock_indices()) {
                let committed = commit(&mut noting.writer, prepared);
                // What it supersedes is in there, too, so that no object of a user's is dropped under the lock.
                drop(noting);
                return committed;
            }
        }
    }

    /// Prepares a write of an object. If an index function fails on it, the cache of an informer stores the object without the values of
    /// that index, since the informer has other users. Another cache refuses the object.
    pub(super) fn put(
        &self,
        indices: &[Index<T>],
        key: &ObjectKey,
        object: &Guarded<T>,
    ) -> Result<Indexed<T>, Box<Refused>> {
        let (values, mut unindexed) = indexing(self.address(), || values(indices, key, object));
        if self.is_strict && !unindexed.is_empty() {
            let error = unindexed.swap_remove(0);
            let entry = error.entry(&***object);
            let is_succeeded = self.is_succeeded(key, &entry);
            return Err(Box::new(Refused { error, entry, is_succeeded }));
        }
        Ok(Indexed { write: Write { key: key.clone(), value: Some(object.clone()), values }, unindexed })
    }

    /// Replaces the indices. Only with the right to write. Returns those before, whose functions are a user's, to be dropped under no lock.
    #[must_use = "it is to be dropped under no lock"]
    fn set_indices(&self, indices: Vec<Index<T>>) -> Arc<Vec<Index<T>>> {
        std::mem::replace(&mut *self.indices.write().unwrap_or_else(PoisonError::into_inner), Arc::new(indices))
    }

    /// Keeps all indices as they are, without their functions.
    pub(super) fn drop_functions(&self) {
        let writer = self.store.writer();
        let indices = self.indices().iter().map(|index| Index { function: None, ..index.clone() }).collect();
        let before = self.set_indices(indices);
        drop(writer);
        drop(before);
    }
}

/// An index by its name, as the store knows it by its number.
pub(crate) struct Index<T> {
    pub(crate) name: Arc<str>,
    pub(crate) number: u32,
    /// The index of namespaces has none.
    function: Option<Arc<Function<T>>>,
    /// From which stamp on it has all objects.
    ready: Arc<AtomicU64>,
    /// On what its function failed before.
    failure: Arc<OnceLock<IndexFailed>>,
}

type Function<T> = dyn Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync;

impl<T: Object> Index<T> {
    pub(crate) fn namespaces() -> Self {
        Self {
            name: NAMESPACE_INDEX.into(),
            number: NAMESPACES,
            function: None,
            ready: Arc::default(),
            failure: Arc::default(),
        }
    }

    /// It is not ready yet.
    pub(crate) fn new(name: &str, number: u32, function: Arc<Function<T>>) -> Self {
        let ready = Arc::new(AtomicU64::new(u64::MAX));
        Self { name: name.into(), number, function: Some(function), ready, failure: Arc::default() }
    }

    fn set_ready(&self, stamp: u64) {
        self.ready.store(stamp, Ordering::Release);
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) < u64::MAX
    }

    /// An index that is not ready yet never will be.
    fn fail(&self, error: IndexFailed) {
        // The first one is as good as any.
        _ = self.failure.set(error);
    }

    fn failure(&self) -> Option<&IndexFailed> {
        self.failure.get()
    }

    /// Calls the function. A panic is an error like others.
    pub(crate) fn values(&self, key: &ObjectKey, object: &T) -> Result<Vec<String>, IndexFailed> {
        let Some(function) = &self.function else { return Ok(Vec::new()) };
        let error = match catch(|| function(object)) {
            Ok(Ok(values)) => return Ok(values),
            Ok(Err(error)) => format!("an index function failed on it: {error} (that of {:?})", self.name),
            Err(panic) => format!("an index function panicked on it: {panic} (that of {:?})", self.name),
        };
        Err(IndexFailed { key: key.clone(), index: self.name.to_string(), error })
    }
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        let (name, function, ready) = (self.name.clone(), self.function.clone(), self.ready.clone());
        Self { name, number: self.number, function, ready, failure: self.failure.clone() }
    }
}

impl IndexFailed {
    /// What keeps the object from being taken up.
    pub(crate) fn entry(&self, object: &impl Object) -> Undecodable {
        Undecodable {
            key: self.key.clone(),
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
            error: self.error.clone(),
        }
    }
}

/// Returns the values of all indices for an object, each with the number of its index, and the failures of index functions. A failure of
/// an index that is not ready yet ends that index and is not returned.
fn values<T: Object>(indices: &[Index<T>], key: &ObjectKey, object: &T) -> (Vec<(u32, String)>, Vec<IndexFailed>) {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for index in indices {
        match index.values(key, object) {
            Ok(values) => all.extend(values.into_iter().map(|value| (index.number, value))),
            Err(error) if index.is_ready() => failures.push(error),
            Err(error) => index.fail(error),
        }
    }
    (all, failures)
}

/// The number of the index of that name, if it has all that is to be seen at `stamp`.
pub(crate) fn find<T>(indices: &[Index<T>], name: &str, stamp: u64) -> Result<u32, UnknownIndex> {
    let mut ready = indices.iter().filter(|index| index.ready.load(Ordering::Acquire) <= stamp);
    let found = ready.clone().find(|index| *index.name == *name).map(|index| index.number);
    found.ok_or_else(|| UnknownIndex {
        name: name.into(),
        known: ready.by_ref().map(|index| index.name.to_string()).collect(),
    })
}
