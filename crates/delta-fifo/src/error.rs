//! The errors of queues and stores. All errors come from user-supplied functions, except for errors about closed
//! queues.

use std::error::Error;
use std::fmt;

/// An error from a user-supplied function.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The error that a key function returns if it cannot compute the key of an object.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{DeltaFifo, DeltaFifoConfig, KeyError};
///
/// let key_of = |name: &&'static str| match *name {
///     "" => Err(KeyError::new("it has no name")),
///     name => Ok(name),
/// };
/// let mut fifo = DeltaFifo::new(key_of, DeltaFifoConfig::default());
/// let error = fifo.add("").unwrap_err();
/// assert_eq!(error.to_string(), "cannot compute the key of an object: it has no name");
/// ```
#[derive(Debug)]
pub struct KeyError {
    cause: BoxError,
}

impl KeyError {
    /// Creates an error from its cause.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self { cause: cause.into() }
    }

    /// Returns the innermost cause of this error.
    pub fn root_cause(&self) -> &(dyn Error + 'static) {
        let mut root: &(dyn Error + 'static) = &*self.cause;
        while let Some(cause) = root.source() {
            root = cause;
        }
        root
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot compute the key of an object: {}", self.cause)
    }
}

impl Error for KeyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}

/// The reason why a store or a queue rejected an object.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The object has no key.
    Key(KeyError),
    /// The transformer rejected the object.
    Transform(BoxError),
    /// An index function failed for the object.
    Index(BoxError),
    /// The queue is closed and accepts no more objects.
    Closed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Transform(cause) => write!(f, "cannot transform an object: {cause}"),
            Self::Index(cause) => write!(f, "cannot index an object: {cause}"),
            Self::Closed => f.write_str("the queue is closed and accepts no more objects"),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Key(error) => error.source(),
            Self::Transform(cause) | Self::Index(cause) => Some(&**cause),
            Self::Closed => None,
        }
    }
}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// The error of a [transaction](crate::Store::transaction) with failed writes. All other writes of the transaction were
/// applied.
#[derive(Debug)]
pub struct TransactionError {
    /// The indices of the writes that were applied, in ascending order.
    pub successful: Vec<usize>,
    /// The total number of writes.
    pub total: usize,
    /// The errors of the failed writes, in the order of the writes.
    pub causes: Vec<StoreError>,
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} writes failed", self.causes.len(), self.total)?;
        for (index, cause) in self.causes.iter().enumerate() {
            write!(f, "{} {cause}", if index == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl Error for TransactionError {}

/// The queue is closed and empty, so no more items will arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoClosed;

impl fmt::Display for FifoClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is closed and empty")
    }
}

impl Error for FifoClosed {}
