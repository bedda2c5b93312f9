//! Index functions, which are the user's: how they are called, and how they fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pintle_delta_fifo::BoxError;
use pintle_meta::{Object, ObjectKey};

use crate::panic::catch;
use crate::store::NAMESPACES;
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

/// An index by its name, as the store knows it by its number.
pub(crate) struct Index<T> {
    pub(crate) name: Arc<str>,
    pub(crate) number: u32,
    /// The index of namespaces has none.
    function: Option<Arc<Function<T>>>,
    /// From which stamp on it has all objects.
    ready: Arc<AtomicU64>,
}

type Function<T> = dyn Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync;

impl<T: Object> Index<T> {
    pub(crate) fn namespaces() -> Self {
        Self { name: NAMESPACE_INDEX.into(), number: NAMESPACES, function: None, ready: Arc::default() }
    }

    /// It is not ready yet.
    pub(crate) fn new(name: &str, number: u32, function: Arc<Function<T>>) -> Self {
        let ready = Arc::new(AtomicU64::new(u64::MAX));
        Self { name: name.into(), number, function: Some(function), ready }
    }

    pub(crate) fn set_ready(&self, stamp: u64) {
        self.ready.store(stamp, Ordering::Release);
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
        Self { name, number: self.number, function, ready }
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

/// The values of all indices for an object, each with the number of its index.
pub(crate) fn values<T: Object>(
    indices: &[Index<T>],
    key: &ObjectKey,
    object: &T,
) -> Result<Vec<(u32, String)>, IndexFailed> {
    let mut all = Vec::new();
    for index in indices {
        all.extend(index.values(key, object)?.into_iter().map(|value| (index.number, value)));
    }
    Ok(all)
}

/// The number of the index of that name, if it has all that is to be seen at `stamp`.
pub(crate) fn find<T>(indices: &[Index<T>], name: &str, stamp: u64) -> Result<u32, UnknownIndex> {
    let mut ready = indices.iter().filter(|index| index.ready.load(Ordering::Acquire) <= stamp);
    let found = ready.clone().find(|index| *index.name == *name).map(|index| index.number);
    found.ok_or_else(|| UnknownIndex { name: name.into(), known: ready.by_ref().map(|index| index.name.to_string()).collect() })
}
