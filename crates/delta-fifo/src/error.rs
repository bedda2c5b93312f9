//! What can go wrong, which is never more than what the functions of the user return.

use std::error::Error;
use std::fmt;

/// Any error that a function of the user returns.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An object has no key.
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
/// assert_eq!(error.to_string(), "cannot tell the key of an object: it has no name");
/// ```
#[derive(Debug)]
pub struct KeyError {
    cause: BoxError,
}

impl KeyError {
    /// The error that `cause` is the reason of.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self { cause: cause.into() }
    }

    /// The error at the bottom of all that wrap it.
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
        write!(f, "cannot tell the key of an object: {}", self.cause)
    }
}

impl Error for KeyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}

/// Why a store or a queue did not accept an object.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// It has no key.
    Key(KeyError),
    /// The transformer refused it.
    Transform(BoxError),
    /// An index function failed on it.
    Index(BoxError),
    /// The queue is closed, and takes nothing any more.
    Closed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Transform(cause) => write!(f, "cannot transform an object: {cause}"),
            Self::Index(cause) => write!(f, "cannot index an object: {cause}"),
            Self::Closed => f.write_str("the queue is closed, and takes nothing any more"),
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

/// Some writes of a [transaction](crate::Store::transaction) failed; the others were done.
#[derive(Debug)]
pub struct TransactionError {
    /// The indices of the writes that were done, in order.
    pub successful: Vec<usize>,
    /// How many writes there were.
    pub total: usize,
    /// Why the others failed, in their order.
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

/// The queue is closed, and nothing is left in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoClosed;

impl fmt::Display for FifoClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is closed and empty")
    }
}

impl Error for FifoClosed {}
