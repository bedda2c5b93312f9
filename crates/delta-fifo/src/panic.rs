//! Calls user code that may panic.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        let panic = Self(catch_unwind(AssertUnwindSafe(call)).err());
        match self.0 {
            None => *self = panic,
            Some(_) => panic.discard(),
        }
    }

    /// Drops the panic instead of propagating it. If the payload's `Drop` panics, leaks the second payload, whose
    /// `Drop` may also panic.
    pub(crate) fn discard(self) {
        forget(catch_unwind(AssertUnwindSafe(|| drop(self))));
    }

    /// Resumes the stored panic, unless the thread is already unwinding. A second panic during unwinding would abort
    /// the process.
    pub(crate) fn pass_on(self) {
        match self.0 {
            Some(panic) if !thread::panicking() => resume_unwind(panic),
            panic => Self(panic).discard(),
        }
    }
}
