//! Writes events to a server.

mod core;
mod series;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pintle_meta::{ApiError, ErrorKind, ObjectKey, Reason};
use pintle_ratelimit::Jitter;
use tokio_util::sync::CancellationToken;

pub(crate) use self::core::CoreSink;
pub(crate) use self::series::SeriesSink;

#[derive(Clone, Debug)]
pub(crate) struct Retry {
    pub(crate) tries: u32,
    pub(crate) pause: Duration,
    /// Cancelled when the broadcaster shuts down, after which the sink makes one last attempt to write each event.
    pub(crate) stop: CancellationToken,
}

impl Retry {
    pub(crate) async fn wait_before_retry(&self, nth: u32, error: &ApiError) -> bool {
        if nth >= self.tries || self.stop.is_cancelled() {
            return false;
        }
        tracing::debug!(%error, nth, "cannot write an event yet");
        // Randomize the first pause, so that the clients of a failing server do not retry at the same time.
        let pause = if nth == 1 { Jitter::new(fastrand::u64(..)).up_to(self.pause) } else { self.pause };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.stop.cancelled() => {}
        }
        true
    }
}

/// Runs a write with the user's `Api` and converts a panic into an error. After a panic, it is unknown whether the
/// event was written.
async fn isolated<T>(write: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    let mut write = pin!(write);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| write.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(ApiError::transport("the API panicked"))))
    })
    .await
}

/// Returns `true` if another attempt to write the event may succeed. A rejection by the server is final. A response
/// without a `Status` comes from a proxy, and the event may not have reached the server.
fn is_retryable(error: &ApiError) -> bool {
    match error.kind {
        ErrorKind::Status(_) => error.is_unexpected_server_error(),
        ErrorKind::InvalidRequest(_) | ErrorKind::Throttled(_) => false,
        _ => true,
    }
}

/// Returns `true` if the object already exists and an earlier attempt, whose response was lost, may have created it.
fn is_own(error: &ApiError, nth: u32) -> bool {
    error.is_already_exists() && (nth > 1 || error.earlier.is_some())
}

fn log_rejected(key: &ObjectKey, reason: &str, error: &ApiError) {
    // Log expected errors at debug level: an existing event, or a namespace that is being deleted.
    let is_terminating = error.status().is_some_and(|status| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.map(|cause| &*cause.reason).any(|cause| cause == "NamespaceTerminating")
            || (status.reason == Some(Reason::Forbidden) && status.message.contains("being terminated"))
    });
    if error.is_already_exists() || is_terminating {
        tracing::debug!(%key, reason, %error, "an event was rejected")
    } else {
        tracing::warn!(%key, reason, %error, "an event could not be written")
    }
}
