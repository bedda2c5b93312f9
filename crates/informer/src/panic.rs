//! Panics of users' code, caught where it is called.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Calls `part`. After a panic, it answers with what that said.
pub(crate) fn catch<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(told)
}

/// Runs `part` to its end. After a panic, it answers with what that said.
pub(crate) async fn caught<F: Future>(part: F) -> Result<F::Output, String> {
    let mut part = pin!(part);
    poll_fn(|context| match catch(|| part.as_mut().poll(context)) {
        Ok(output) => output.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn told(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".into());
    // What was thrown may panic once more when it is dropped, and what it throws then as well.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        forget(again);
    }
    text
}
