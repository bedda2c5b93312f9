//! Catches panics in user code.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;

/// Calls `part` and returns its result. Returns the panic message if `part` panics.
pub(crate) fn catch<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(message)
}

/// Awaits `part`. Returns the output, or the panic message if polling `part` panics. Dropping `part` must not panic.
pub(crate) async fn caught<F: Future>(part: F) -> Result<F::Output, String> {
    AssertUnwindSafe(part).catch_unwind().await.map_err(message)
}

/// Returns a panic payload's message.
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".into());
    // Dropping the payload may panic. The payload of this second panic is leaked, because dropping it may panic again.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        forget(again);
    }
    text
}
