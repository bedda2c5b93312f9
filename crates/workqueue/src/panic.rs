//! Functions that call user code that may panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

pub(crate) type Panic = Box<dyn Any + Send>;

/// Makes all calls, even if one of them panics. Returns the first panic.
#[must_use = "a panic of user code must be propagated, or dropped for a stated reason"]
pub(crate) fn call_all<F: FnOnce()>(calls: impl IntoIterator<Item = F>) -> Option<Panic> {
    let mut first = None;
    for call in calls {
        let panic = catch(call).err();
        first = first.or(panic);
    }
    first
}

/// Makes the call and catches a panic. This function can also be called while the thread is panicking.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Resumes a panic unless the thread is already panicking, because a second panic would abort the process.
pub(crate) fn pass_on(panic: Option<Panic>) {
    if let Some(panic) = panic
        && !thread::panicking()
    {
        resume_unwind(panic);
    }
}
