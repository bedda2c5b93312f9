//! Resets HTTP/2 streams whose responses have missed their deadlines, without affecting other streams of the
//! connection.

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

/// Runs the futures that hyper spawns for the streams of a connection.
///
/// A request without a body is polled once on the task of the connection. Most requests complete during this poll,
/// which avoids waking another thread, and lets hyper send several responses together. A request that is still pending
/// after this poll moves to a separate task, which ends with the connection, or when the response misses its deadline.
/// hyper resets a stream whose future is dropped before the response ends.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Whether the server has received the entire latest request.
    is_whole: Arc<AtomicBool>,
}

impl Streams {
    /// Sets whether the server has received the request of the next stream in full.
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
        // Read the deadline after polling the stream, because the stream may change it.
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
        // A no-op waker is enough, because a pending stream is polled again on its own task.
        let is_served = self.is_whole.load(Ordering::Relaxed)
            && serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !is_served {
            tokio::spawn(serving);
        }
    }
}

/// Sets the deadline of the current response if it is sent on an HTTP/2 stream.
pub fn answer_by(deadline: Instant) {
    // Ignore the error: `DEADLINE` is not set for HTTP/1 requests, whose deadlines `Activity` enforces.
    let _ = DEADLINE.try_with(|end| end.set(Some(deadline)));
}
