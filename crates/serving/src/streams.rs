//! Resets HTTP/2 streams with overdue responses. Other streams of the connection are not affected.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until};

use super::activity::ANSWER_GRACE;

tokio::task_local! {
    static DEADLINE: Cell<Option<Instant>>;
}

/// Runs the futures that hyper spawns for one connection's streams.
///
/// A request without a body is first polled once on the connection's task. Most requests complete during this poll, which wakes no other
/// thread and lets several responses be sent together. A request that is still pending after the poll gets a separate task. The task ends
/// with the connection, or when the response misses its deadline. hyper resets a stream that is dropped before its end.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Whether the latest request has been received completely.
    is_whole: Arc<AtomicBool>,
}

impl Streams {
    /// Sets whether the next stream's request has been received completely.
    pub fn set_next(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Ordering::Relaxed);
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let mut overdue = None;
        // On each poll, read the deadline after the stream was polled, because polling the stream can set the deadline.
        let overdue = poll_fn(move |context| {
            let Some(end) = DEADLINE.with(Cell::get) else { return Poll::Pending };
            overdue.get_or_insert_with(|| Box::pin(sleep_until(end + ANSWER_GRACE))).as_mut().poll(context)
        });
        let mut serving = Box::pin(DEADLINE.scope(Cell::new(None), async move {
            tokio::select! {
                biased;
                served = AssertUnwindSafe(stream).catch_unwind() => if served.is_err() {
                    tracing::error!("reset a stream whose handler panicked");
                },
                () = overdue => tracing::debug!("reset a stream that the client does not read"),
            }
        }));
        // The waker does nothing, because a pending stream is polled again on its new task with a real waker.
        let is_served = self.is_whole.load(Ordering::Relaxed)
            && serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !is_served {
            tokio::spawn(serving);
        }
    }
}

/// Sets the deadline of the current response if it belongs to an HTTP/2 stream.
pub fn answer_by(deadline: Instant) {
    // `DEADLINE` is not set for HTTP/1 requests, whose deadline `Activity` enforces.
    let _ = DEADLINE.try_with(|end| end.set(Some(deadline)));
}
