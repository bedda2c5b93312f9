//! Calls of foreign code that must not keep each other from happening.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// The first of several panics of foreign code.
#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    /// Calls foreign code, and keeps its panic if it is the first.
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        let panic = catch_unwind(AssertUnwindSafe(call)).err();
        self.0 = self.0.take().or(panic);
    }

    /// Goes on with the panic, unless the thread is unwinding already: a second panic would abort the process.
    pub(crate) fn pass_on(self) {
        if let Some(panic) = self.0
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
