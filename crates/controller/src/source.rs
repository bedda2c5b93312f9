//! Where keys come from.

mod kind;
mod trigger;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use kind::Kind;
pub use trigger::Trigger;

pub(crate) use kind::KindSource;

use crate::Requests;
use crate::panic::catch;

/// Feeds a controller with keys: controller-runtime's `Source`.
///
/// It may be started again after a run has ended; then it begins anew.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_controller::{Action, Controller, Feed, ReconcileRequest, Requests, Source};
/// use pintle_meta::ObjectKey;
/// use tokio_util::sync::CancellationToken;
///
/// struct EachMinute;
///
/// impl Source for EachMinute {
///     fn name(&self) -> &str {
///         "each minute"
///     }
///
///     fn start(&self, requests: Requests) -> Feed {
///         let run = async move {
///             let mut minutes = tokio::time::interval(Duration::from_secs(60)); // The first one is over at once.
///             loop {
///                 minutes.tick().await;
///                 requests.add(ObjectKey::new("", "report"));
///             }
///         };
///         Feed { synced: Box::pin(async { true }), run: Box::pin(run) }
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::named("reports").source(EachMinute).reconciler(move |request: ReconcileRequest| {
///         assert_eq!(request.key.as_str(), "report");
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
pub trait Source: Send + Sync + 'static {
    /// What it is called in logs and errors.
    fn name(&self) -> &str;

    /// Learns where the keys of its controller go. Called once, when the controller is made. A source that listens between runs stores
    /// a clone: what it adds then is kept for the next run.
    fn attach(&self, _requests: &Requests) {}

    /// Begins to fill caches, if there are any, ahead of the first start. A replica that waits for leadership does this.
    fn warm_up(&self) {}

    /// What keeps it from being complete or up to date, if anything does.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Begins to put keys into `requests`. Nothing may be running before, or without, a poll of what is returned.
    fn start(&self, requests: Requests) -> Feed;
}

/// A source whose `name` and `problem` do not panic.
pub(crate) struct Named {
    /// What it has called itself, or what a panic said then.
    pub(crate) name: Result<String, String>,
    /// Whether it was attached, or what a panic said then.
    pub(crate) attached: Result<(), String>,
    pub(crate) source: Box<dyn Source>,
}

impl Named {
    pub(crate) fn new(source: impl Source) -> Self {
        Self { name: catch(|| source.name().to_owned()), attached: Ok(()), source: Box::new(source) }
    }

    pub(crate) fn attach(&mut self, requests: &Requests) {
        self.attached = catch(|| self.source.attach(requests));
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("(its name panicked)")
    }

    /// What keeps it from being complete or up to date, or what a panic said when it was asked.
    pub(crate) fn problem(&self) -> Result<Option<String>, String> {
        catch(|| self.source.problem())
    }
}

/// Ends when a source is complete, or cannot be any more.
pub(crate) type Synced = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A source at work.
pub struct Feed {
    /// Ends with true when all that was there at the start has been put into the queue, and with false if that cannot happen
    /// any more.
    pub synced: Synced,
    /// Feeds, until it is dropped. That it ends means that the source has run dry.
    pub run: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}
