//! The streams of HTTP/2: one whose answer is not out in time is reset, and the others on its connection go on.

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
    /// By when the answer of the stream that is served has to be out.
    static END: Cell<Option<Instant>>;
}

/// The streams of one connection. A request without a body is begun on the connection's own task: most are answered there, so that no
/// other thread is woken for them, and answers go out together. Whatever has to wait gets a task, which ends with its connection, or once
/// its answer is overdue. A stream that is dropped before its end is reset.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    /// Whether all of the request that came last is there.
    is_whole: Arc<AtomicBool>,
}

impl Streams {
    /// Says of the stream that comes next whether all of its request is there.
    pub(super) fn next(&self, is_whole: bool) {
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
        // What serves the stream says it, and is asked first.
        let overdue = poll_fn(move |context| {
            let Some(end) = END.with(Cell::get) else { return Poll::Pending };
            overdue.get_or_insert_with(|| Box::pin(sleep_until(end + ANSWER_GRACE))).as_mut().poll(context)
        });
        let mut serving = Box::pin(END.scope(Cell::new(None), async move {
            tokio::select! {
                biased;
                served = AssertUnwindSafe(stream).catch_unwind() => if served.is_err() {
                    tracing::error!("a stream was reset, since what serves it panicked");
                },
                () = overdue => tracing::debug!("a stream was reset, since nobody reads what it answers"),
            }
        }));
        // A task begins by asking it again, with a waker of its own.
        let is_served = self.is_whole.load(Ordering::Relaxed)
            && serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !is_served {
            tokio::spawn(serving);
        }
    }
}

/// By when the answer to the request that is served has to be out, if it is one of HTTP/2.
pub(super) fn answer_by(deadline: Instant) {
    // Elsewhere the connection's own activity says it.
    let _ = END.try_with(|end| end.set(Some(deadline)));
}
