//! The streams of HTTP/2: one whose answer is not out in time is reset, and the others on its connection go on.

use tokio::sync::watch;
use tokio::time::Instant;

use super::activity::ANSWER_GRACE;

tokio::task_local! {
    /// By when the answer of the stream that this task serves has to be out.
    static END: watch::Sender<Option<Instant>>;
}

/// Runs each stream as a task, which ends with its connection, or once its answer is overdue. A stream that is dropped before its
/// end is reset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams;

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let (end, mut ends) = watch::channel(None);
        let overdue = async move {
            // Its sender lives as long as the task.
            if let Ok(Some(end)) = ends.wait_for(Option::is_some).await.map(|end| *end) {
                tokio::time::sleep_until(end + ANSWER_GRACE).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::spawn(END.scope(end, async move {
            tokio::select! {
                _ = stream => (),
                () = overdue => tracing::debug!("a stream was reset, since nobody reads what it answers"),
            }
        }));
    }
}

/// By when the answer to the request that this task serves has to be out, if it is one of HTTP/2.
pub(super) fn answer_by(deadline: Instant) {
    // Elsewhere the connection's own activity says it.
    let _ = END.try_with(|end| end.send_replace(Some(deadline)));
}
