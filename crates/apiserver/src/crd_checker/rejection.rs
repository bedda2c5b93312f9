//! The error type of the CRD checker.

use std::fmt;

use pintle_apimachinery::failure::Failure;
use pintle_meta::{Reason, Status};

/// The server's error for a rejected manifest.
#[derive(Clone, thiserror::Error)]
#[error("{}", .status.message)]
pub struct Rejection {
    status: Box<Status>,
    is_from_server: bool,
}

impl Rejection {
    /// Returns the error as a Status, as in the server's response. The details of the Status contain one cause for each
    /// field error.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Returns `true` if the server checked the manifest and rejected it. Returns `false` if the manifest cannot be
    /// read, if no definition serves its kind and version, or if a webhook must convert the object.
    pub fn is_from_server(&self) -> bool {
        self.is_from_server
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self { status: Box::new(Status::failure(400, Reason::BadRequest, message)), is_from_server: false }
    }
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        Self { status: failure.status, is_from_server: true }
    }
}

/// Prints only the message, because a failed test prints the debug format of the error.
impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
