//! Calls user code that may panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        let panic = catch_unwind(AssertUnwindSafe(call)).err();
        self.0 = self.0.take().or(panic);
    }

    /// Resumes the stored panic, unless the thread is already unwinding. A second panic during unwinding would abort
    /// the process.
    pub(crate) fn pass_on(self) {
        if let Some(panic) = self.0
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
