//! Calls of user code that can panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// The first of several panics of user code.
#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    /// Calls user code. Stores its panic if it is the first.
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        let panic = catch_unwind(AssertUnwindSafe(call)).err();
        self.0 = self.0.take().or(panic);
    }

    /// Resumes the panic, unless the thread is already unwinding: a second panic would abort the process.
    pub(crate) fn pass_on(self) {
        if let Some(panic) = self.0
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
