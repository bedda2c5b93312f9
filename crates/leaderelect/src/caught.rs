//! Catches panics of futures.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;

/// Awaits `work`, and returns a panic as an error. Drops `work` after a panic.
pub(crate) async fn caught<F: Future>(work: F) -> thread::Result<F::Output> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
