//! The cause of an informer's end.

use std::fmt;

/// The reason why an informer has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// `stop` or `shutdown` was called, or the last handle was dropped.
    ShutDown,
    /// The informer's tokio runtime was shut down.
    RuntimeGone,
    /// The informer's source panicked, or an object's `Metadata` panicked after the informer had read the object's
    /// identity.
    Panicked {
        /// The panic message.
        message: String,
    },
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShutDown => f.write_str("it was shut down"),
            Self::RuntimeGone => f.write_str("its runtime was shut down"),
            Self::Panicked { message } => write!(f, "it panicked: {message}"),
        }
    }
}
