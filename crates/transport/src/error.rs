//! The error for an invalid configuration, and a function that iterates over the sources of an error.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pintle_meta::ApiError;
use thiserror::Error as ThisError;

/// An error of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The reason why a client cannot be created. Each message contains the name of the invalid configuration field.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum ConfigError {
    /// The configuration sets two fields that exclude each other.
    #[error("{first} and {second} exclude each other; set one of them")]
    Conflict {
        /// The first field.
        first: &'static str,
        /// The second field.
        second: &'static str,
    },
    /// A file cannot be read.
    #[error("{field}: {path} cannot be read: {source}", path = path.display())]
    File {
        /// The name of the field that contains the file's path.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: Arc<io::Error>,
    },
    /// The configuration sets a field, but does not set a second field that the first field requires.
    #[error("{present} is set, but {missing} is not; set both or none")]
    Missing {
        /// The name of the field that the configuration sets.
        present: &'static str,
        /// The name of the field that is missing.
        missing: &'static str,
    },
    /// A value cannot be used.
    #[error("{field}: {why}")]
    Value {
        /// The field.
        field: &'static str,
        /// The reason why the value of the field is invalid.
        why: String,
    },
    /// The server's address is invalid.
    #[error("server {server:?}: {why}")]
    Server {
        /// The address of the server, without user and password.
        server: String,
        /// The reason why the address is invalid.
        why: String,
    },
}

impl From<ConfigError> for ApiError {
    fn from(error: ConfigError) -> Self {
        Self::invalid_request(error)
    }
}

/// Returns an iterator that starts with an error and continues with its sources.
pub fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| StdError::source(*error))
}
