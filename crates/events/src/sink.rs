//! What writes events to a server.

mod core;
mod series;

use std::time::Duration;

use pintle_meta::{ApiError, ErrorKind, ObjectKey, Reason};
use pintle_ratelimit::Jitter;
use tokio_util::sync::CancellationToken;

pub(crate) use self::core::CoreSink;
pub(crate) use self::series::SeriesSink;

/// How often to try, and how long to wait in between.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    pub(crate) tries: u32,
    pub(crate) pause: Duration,
    /// From then on, each event gets one last try.
    pub(crate) stop: CancellationToken,
}

impl Retry {
    /// Whether it is worth another try after the nth failed. The pause in between has passed then.
    pub(crate) async fn again(&self, nth: u32, error: &ApiError) -> bool {
        if nth >= self.tries || self.stop.is_cancelled() {
            return false;
        }
        tracing::debug!(%error, nth, "cannot write an event yet");
        // The first pause is random, so that not all who lost the server come back to it at once.
        let pause = if nth == 1 { Jitter::new(fastrand::u64(..)).up_to(self.pause) } else { self.pause };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.stop.cancelled() => {}
        }
        true
    }
}

/// What the server has refused it would refuse again.
fn is_worth_a_retry(error: &ApiError) -> bool {
    !matches!(error.kind, ErrorKind::Status(_) | ErrorKind::InvalidRequest(_))
}

/// Whether a create finds what an attempt before it has made: one of which no answer came.
fn is_own(error: &ApiError, nth: u32) -> bool {
    error.is_already_exists() && (nth > 1 || error.earlier_may_have_acted)
}

fn refused(key: &ObjectKey, reason: &str, error: &ApiError) {
    // The event is there already, or its namespace is about to go: nobody will miss it.
    let is_terminating = error.status().is_some_and(|status| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.map(|cause| &*cause.reason).any(|cause| cause == "NamespaceTerminating")
            || (status.reason == Some(Reason::Forbidden) && status.message.contains("being terminated"))
    });
    match error.is_already_exists() || is_terminating {
        true => tracing::debug!(%key, reason, %error, "an event was refused"),
        false => tracing::warn!(%key, reason, %error, "an event could not be written"),
    }
}
