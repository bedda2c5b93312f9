//! Panics of users' code, caught where it is called.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;

/// Calls `part`. After a panic, it answers with what that said.
pub(crate) fn catch<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(told)
}

/// Runs `part` to its end. After a panic, it answers with what that said. `part` itself has to be droppable without one.
pub(crate) async fn caught<F: Future>(part: F) -> Result<F::Output, String> {
    AssertUnwindSafe(part).catch_unwind().await.map_err(told)
}

/// What a panic said.
pub(crate) fn told(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".into());
    // What was thrown may panic once more when it is dropped, and what it throws then as well.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        forget(again);
    }
    text
}
