//! Resets HTTP/2 streams whose responses are overdue. The other streams of the connection are not affected.

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
    /// The deadline for the response of the stream that is being polled.
    static DEADLINE: Cell<Option<Instant>>;
}

/// Runs the futures that hyper creates for the streams of one connection.
///
/// If a request has no body, the connection's task polls it once. Most requests complete during this poll. Therefore, no other thread is
/// woken, and several responses can be sent together. A request that is still pending after this poll gets a separate task. The task of the
/// request ends when the connection ends, or when the response misses its deadline. If a stream is dropped before its end, hyper resets it.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Whether the latest request has been received completely.
    is_whole: Arc<AtomicBool>,
}

impl Streams {
    /// Sets whether the request of the next stream has been received completely.
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
        // The deadline is read on each poll. The stream is polled before the deadline is read, because the stream sets the deadline.
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
        // The waker does nothing. If the stream is still pending, the new task polls the stream again and registers a real waker.
        let is_served = self.is_whole.load(Ordering::Relaxed)
            && serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !is_served {
            tokio::spawn(serving);
        }
    }
}

/// Sets the deadline of the current response if the response belongs to an HTTP/2 stream.
pub fn answer_by(deadline: Instant) {
    // The task-local variable `DEADLINE` is not set for HTTP/1 requests. `Activity` enforces its deadline.
    let _ = DEADLINE.try_with(|end| end.set(Some(deadline)));
}
