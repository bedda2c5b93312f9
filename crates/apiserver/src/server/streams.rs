//! The streams of HTTP/2: one whose answer is not out in time is reset, and the others on its connection go on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::activity::ANSWER_GRACE;

tokio::task_local! {
    /// By when the answer of the stream that is served has to be out.
    static END: watch::Sender<Option<Instant>>;
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
        let (end, mut ends) = watch::channel(None);
        let overdue = async move {
            // Its sender lives as long as the stream.
            if let Ok(Some(end)) = ends.wait_for(Option::is_some).await.map(|end| *end) {
                tokio::time::sleep_until(end + ANSWER_GRACE).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let mut serving = Box::pin(END.scope(end, async move {
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
    let _ = END.try_with(|end| end.send_replace(Some(deadline)));
}
