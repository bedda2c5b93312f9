//! Configuration errors, and an iterator over the sources of an error.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pintle_meta::ApiError;
use thiserror::Error as ThisError;

/// A boxed error of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An error in the configuration of a client. The message names the invalid field.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum ConfigError {
    /// Two fields are set, but only one of them is allowed.
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
        /// The field that contains the path of the file.
        field: &'static str,
        /// The file's path.
        path: PathBuf,
        /// The I/O error.
        source: Arc<io::Error>,
    },
    /// A field is set without another field that it requires.
    #[error("{present} is set, but {missing} is not; set both or none")]
    Missing {
        /// The field that is set.
        present: &'static str,
        /// The missing field.
        missing: &'static str,
    },
    /// The value of a field is invalid.
    #[error("{field}: {why}")]
    Value {
        /// The field.
        field: &'static str,
        /// A description of the problem.
        why: String,
    },
    /// The server's address is invalid.
    #[error("server {server:?}: {why}")]
    Server {
        /// The address of the server, without user name and password.
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

/// Returns an iterator over `error` and its sources.
pub fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| StdError::source(*error))
}
