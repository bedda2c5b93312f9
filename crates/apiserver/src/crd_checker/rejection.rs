//! The error of a check.

use std::fmt;

use pintle_meta::{Reason, Status};

use crate::failure::Failure;

/// The error that the server would send.
#[derive(Clone)]
pub struct Rejection(Box<Status>);

impl Rejection {
    /// Returns the error as the Status of the response. Its details have one cause for each error of a field.
    pub fn status(&self) -> &Status {
        &self.0
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self(Box::new(Status::failure(400, Reason::BadRequest, message)))
    }
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        Self(failure.status)
    }
}

/// Prints the message of the server.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

/// Prints the message only, because a failed test prints the error in this form.
impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Rejection {}
