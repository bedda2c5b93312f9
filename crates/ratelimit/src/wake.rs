//! Calls user code that may panic, such as wakers.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// The payload of a panic.
pub type Panic = Box<dyn Any + Send>;

/// Performs all calls, even if one of them panics. Returns the first panic.
#[must_use = "a panic of user code must be propagated, or dropped for a stated reason"]
pub fn call_all<F: FnOnce()>(calls: impl IntoIterator<Item = F>) -> Option<Panic> {
    calls.into_iter().map(|call| catch_unwind(AssertUnwindSafe(call)).err()).fold(None, first)
}

/// Returns the first of two panics, and discards the second panic.
pub fn first(earlier: Option<Panic>, later: Option<Panic>) -> Option<Panic> {
    if earlier.is_none() {
        return later;
    }
    discard(later);
    earlier
}

/// Drops a panic that must not propagate. The panic hook has already reported it. If the `Drop` of the payload panics,
/// the payload of this second panic is leaked, because its `Drop` may panic as well.
pub fn discard(panic: Option<Panic>) {
    forget(call_all([|| drop(panic)]));
}

/// Resumes a panic unless the thread is already unwinding, because a second panic would abort the process.
pub fn pass_on(panic: Option<Panic>) {
    match panic {
        Some(panic) if !thread::panicking() => resume_unwind(panic),
        panic => discard(panic),
    }
}
