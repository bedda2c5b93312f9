//! Catches panics in user code.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::thread;

/// Calls `part` and returns its result, or the panic message if `part` panics.
pub fn catch<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(message)
}

/// Awaits `part`, and returns its output or the panic message if polling `part` panics. Dropping `part` must not
/// panic.
pub async fn caught<F: Future>(part: F) -> Result<F::Output, String> {
    let mut part = pin!(part);
    poll_fn(|context| poll_caught(part.as_mut(), context)).await.map_err(message)
}

/// Like [`caught`], but returns the panic's payload. After a panic, `part` is dropped.
pub async fn caught_payload<F: Future>(part: F) -> thread::Result<F::Output> {
    let mut part = pin!(part);
    poll_fn(|context| poll_caught(part.as_mut(), context)).await
}

fn poll_caught<F: Future>(part: Pin<&mut F>, context: &mut Context<'_>) -> Poll<thread::Result<F::Output>> {
    match catch_unwind(AssertUnwindSafe(|| part.poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}

/// Returns the panic's message, or `None` if the payload is not a string.
pub fn text(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

/// Returns the panic's message and drops its payload.
pub fn message(panic: Box<dyn Any + Send>) -> String {
    let text = text(&*panic).unwrap_or("(no message)").to_owned();
    // Dropping the panic's payload may panic. Leak the second payload, because dropping it may panic again.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        forget(again);
    }
    text
}
