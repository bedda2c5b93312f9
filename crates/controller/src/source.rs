//! Sources, which add keys to a controller's queue.

mod every;
mod kind;
mod trigger;

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

/// Adds keys to a controller's queue, like controller-runtime's `Source`. `K` is the key type: see [`RequestKey`].
///
/// The controller starts its sources again in each run.
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
    /// Returns the source's name for logs and errors.
    fn name(&self) -> &str;

    /// Gives the source a handle for adding keys. The controller calls this method once, when the controller is built.
    /// A source that adds keys between runs must keep a clone of the handle. The controller stores keys that are added
    /// between runs for its next run.
    fn attach(&self, _requests: &Requests<K>) {}

    /// Starts filling the source's caches before a run. Managers call this method on standby replicas.
    fn warm_up(&self) {}

    /// Returns the reason why the source has not synced or is outdated. Returns `None` if the source has synced and is
    /// up to date.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Starts the source, which adds keys to `requests`. The source can delay its work until one of the returned
    /// futures is polled.
    fn start(&self, requests: Requests<K>) -> Feed;
}

/// A source and its name. A `Named` catches panics in the source's `name`, `attach` and `problem` methods.
pub(crate) struct Named<K> {
    pub(crate) name: Result<String, String>,
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

    /// Calls [`Source::problem`], and returns the panic message as an error if the call panics.
    pub(crate) fn problem(&self) -> Result<Option<String>, String> {
        catch(|| self.source.problem())
    }
}

pub(crate) type Synced = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The futures of a started source.
pub struct Feed {
    /// A future that completes with `true` when all keys that existed at the start are in the queue. The future
    /// completes with `false` if the source can no longer add these keys.
    pub synced: Synced,
    /// A future that adds keys until it is dropped. If the future completes, the source has ended and the run fails.
    pub run: Pin<Box<dyn Future<Output = ()> + Send>>,
}

pintle_meta::debug_struct!(Feed { .. });
