//! Calls user code that may panic, such as wakers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// The payload of a panic.
pub type Panic = Box<dyn Any + Send>;

/// Performs all calls, even if one of them panics. Returns the first panic.
#[must_use = "a panic of user code must be propagated, or dropped for a stated reason"]
pub fn call_all<F: FnOnce()>(calls: impl IntoIterator<Item = F>) -> Option<Panic> {
    let mut first = None;
    for call in calls {
        let panic = catch_unwind(AssertUnwindSafe(call)).err();
        first = first.or(panic);
    }
    first
}

/// Resumes a panic unless the thread is already unwinding, because a second panic would abort the process.
pub fn pass_on(panic: Option<Panic>) {
    if let Some(panic) = panic
        && !thread::panicking()
    {
        resume_unwind(panic);
    }
}
