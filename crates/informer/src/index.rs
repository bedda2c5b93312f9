//! Cache indices and index functions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pintle_delta_fifo::BoxError;
use pintle_meta::{Metadata, Object, ObjectKey};

use crate::error::{IndexFailed, UnknownIndex};
use crate::panic::catch;
use crate::store::NAMESPACES;
use crate::stored::Stored;

/// The name of the namespace index. Every [`Cache`](crate::Cache) has this index.
pub const NAMESPACE_INDEX: &str = "namespace";

/// The result of an index function: the index values of the object, or an error.
///
/// An index function that cannot fail returns a `Vec<String>`, or an `Option<String>` if there is at most one value.
pub trait IndexValues {
    /// Converts the result into the object's index values.
    ///
    /// # Errors
    ///
    /// Returns the error of the index function.
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

/// The reason why an index was not added to a cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddIndexError {
    /// An index with this name already exists.
    #[error("an index named {name:?} already exists")]
    Exists {
        /// The name of the index.
        name: String,
    },
    /// The function failed or panicked on an existing object.
    #[error("cannot index {}: {_0}", _0.key)]
    Failed(#[source] IndexFailed),
}

pub(crate) struct Index<T> {
    pub(crate) name: Arc<str>,
    pub(crate) number: u32,
    /// The index function, or `None` for the namespace index and for every index after the informer has ended.
    function: Option<Function<T>>,
    /// The stamp (number) of the first commit whose objects are all in the index, or `u64::MAX` if the index is not
    /// ready.
    ready: Arc<AtomicU64>,
    failure: Arc<OnceLock<IndexFailed>>,
}

pub(crate) enum Function<T> {
    OfObject(Arc<OfObject<T>>),
    OfMetadata(Arc<OfMetadata>),
}

type OfObject<T> = dyn Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync;

type OfMetadata = dyn Fn(&dyn Metadata) -> Result<Vec<String>, BoxError> + Send + Sync;

impl<T> Clone for Function<T> {
    fn clone(&self) -> Self {
        match self {
            Self::OfObject(function) => Self::OfObject(function.clone()),
            Self::OfMetadata(function) => Self::OfMetadata(function.clone()),
        }
    }
}

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

    pub(crate) fn new(name: &str, number: u32, function: Function<T>) -> Self {
        let ready = Arc::new(AtomicU64::new(u64::MAX));
        Self { name: name.into(), number, function: Some(function), ready, failure: Arc::default() }
    }

    pub(crate) fn set_ready(&self, stamp: u64) {
        self.ready.store(stamp, Ordering::Release);
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) < u64::MAX
    }

    /// Records that the index function failed before the index became ready. The index then never becomes ready.
    pub(crate) fn fail(&self, error: IndexFailed) {
        // If a failure is already recorded, `set` ignores this failure.
        _ = self.failure.set(error);
    }

    pub(crate) fn failure(&self) -> Option<&IndexFailed> {
        self.failure.get()
    }

    pub(crate) fn calls_user_code(&self) -> bool {
        self.function.is_some()
    }

    /// Returns `true` if the index function needs decoded objects.
    pub(crate) fn reads_objects(&self) -> bool {
        matches!(self.function, Some(Function::OfObject(_)))
    }

    pub(crate) fn values(&self, key: &ObjectKey, object: &Stored<T>) -> Result<Vec<String>, IndexFailed> {
        let called = match &self.function {
            None => return Ok(Vec::new()),
            Some(Function::OfMetadata(function)) => catch(|| function(object.metadata())),
            Some(Function::OfObject(function)) => match object.read() {
                Some(object) => catch(|| function(&object)),
                None => return Ok(Vec::new()),
            },
        };
        let error = match called {
            Ok(Ok(values)) => return Ok(values),
            Ok(Err(error)) => format!("the function of the index {:?} failed: {error}", self.name),
            Err(panic) => format!("the function of the index {:?} panicked: {panic}", self.name),
        };
        Err(IndexFailed { key: key.clone(), index: self.name.to_string(), error })
    }
}

impl<T> Index<T> {
    pub(crate) fn without_function(&self) -> Self {
        Self { function: None, ..self.clone() }
    }
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        let (name, function, ready) = (self.name.clone(), self.function.clone(), self.ready.clone());
        Self { name, number: self.number, function, ready, failure: self.failure.clone() }
    }
}

/// Returns the values of an object in all indices and the failures of index functions. Each value has the `number` of
/// its index. If an index is not ready, its failure is recorded in the index instead of being returned.
pub(crate) fn values<T: Object>(
    indices: &[Index<T>],
    key: &ObjectKey,
    object: &Stored<T>,
) -> (Vec<(u32, String)>, Vec<IndexFailed>) {
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

pub(crate) fn find<T>(indices: &[Index<T>], name: &str, stamp: u64) -> Result<u32, UnknownIndex> {
    let mut ready = indices.iter().filter(|index| index.ready.load(Ordering::Acquire) <= stamp);
    let found = ready.clone().find(|index| *index.name == *name).map(|index| index.number);
    found.ok_or_else(|| UnknownIndex {
        name: name.into(),
        known: ready.by_ref().map(|index| index.name.to_string()).collect(),
    })
}
