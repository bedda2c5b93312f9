//! Sources of keys.

mod every;
mod kind;
mod trigger;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use every::Every;
pub use kind::Kind;
pub use trigger::Trigger;

pub(crate) use kind::{KindSource, Relation};

use pintle_meta::ObjectKey;

use crate::key::RequestKey;
use crate::panic::catch;
use crate::requests::Requests;

/// A source of keys for a controller, like controller-runtime's `Source`. `K` is the type of the keys: see
/// [`RequestKey`].
///
/// A source may be started again after a run has ended. A restarted source starts from the beginning.
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
///             let mut minutes = tokio::time::interval(Duration::from_secs(60)); // The first tick completes immediately.
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
pub trait Source<K = ObjectKey>: Send + Sync + 'static {
    /// Returns the name of the source for logs and errors.
    fn name(&self) -> &str;

    /// Receives the handle that adds keys to the controller's queue. This method is called once, when the controller is
    /// built. A source that also listens between runs stores a clone of the handle. The controller keeps keys that the
    /// source adds between runs for its next run.
    fn attach(&self, _requests: &Requests<K>) {}

    /// Starts to fill the caches of the source before the source is first started. A manager calls this method on
    /// standby replicas.
    fn warm_up(&self) {}

    /// Returns the reason why the source is not synced or not up to date. Returns `None` if the source is synced and up
    /// to date.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Starts to add keys to `requests`. The source need not do anything until one of the returned futures is polled.
    fn start(&self, requests: Requests<K>) -> Feed;
}

/// A wrapper that catches panics of a source's `name` and `problem`.
pub(crate) struct Named<K> {
    /// The name of the source, or the message of a panic.
    pub(crate) name: Result<String, String>,
    /// The result of `attach`, or the message of a panic.
    pub(crate) attached: Result<(), String>,
    pub(crate) source: Box<dyn Source<K>>,
}

impl<K: RequestKey> Named<K> {
    pub(crate) fn new(source: impl Source<K>) -> Self {
        Self { name: catch(|| source.name().to_owned()), attached: Ok(()), source: Box::new(source) }
    }

    pub(crate) fn attach(&mut self, requests: &Requests<K>) {
        self.attached = catch(|| self.source.attach(requests));
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("(its name panicked)")
    }

    /// Returns the reason why the source is not synced or not up to date. Returns `None` if the source is synced and up
    /// to date. If the source panics, returns an error with the panic message.
    pub(crate) fn problem(&self) -> Result<Option<String>, String> {
        catch(|| self.source.problem())
    }
}

/// A future that completes when a source has synced or can no longer sync.
pub(crate) type Synced = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The futures of a running source.
pub struct Feed {
    /// A future that completes with `true` when all keys that existed at the start are in the queue. The future
    /// completes with `false` if these keys can no longer be added.
    pub synced: Synced,
    /// A future that adds keys until it is dropped. If the future completes, the source has ended.
    pub run: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}
