//! Calls of foreign code that must not keep each other from happening.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// A panic that was caught.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Calls each of them, also if an earlier one panics. Returns the first panic.
#[must_use = "a panic of foreign code is passed on, or dropped with a reason"]
pub(crate) fn call_all<F: FnOnce()>(calls: impl IntoIterator<Item = F>) -> Option<Panic> {
    let mut first = None;
    for call in calls {
        let panic = catch(call).err();
        first = first.or(panic);
    }
    first
}

/// Calls it, and catches its panic. Works while the thread is unwinding too.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Goes on with a panic, unless the thread is unwinding already: a second panic would abort the process.
pub(crate) fn pass_on(panic: Option<Panic>) {
    if let Some(panic) = panic
        && !thread::panicking()
    {
        resume_unwind(panic);
    }
}
