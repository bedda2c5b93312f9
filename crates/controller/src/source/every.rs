//! A timer that adds keys at regular intervals.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use tokio::task::consume_budget;
use tokio::time::sleep;

use super::{Feed, Source};
use crate::key::RequestKey;
use crate::requests::Requests;

const SHORTEST: Duration = Duration::from_millis(1);

/// A source that adds keys after the controller's caches have synced, and then periodically. `K` is the key type: see
/// [`RequestKey`].
///
/// A key that is already queued is not added a second time. Like a change to an object, the timer ends a delay that the
/// reconciler has requested with [`requeue_after`](crate::Action::requeue_after). For a failed key, the timer may
/// shorten or end the backoff. If a key has a delay from [`Requests::add_after`], the key is reconciled when the timer
/// fires, and again after the delay. Keys from the timer have [`LOW_PRIORITY`](crate::LOW_PRIORITY), so changed objects
/// are processed first. Periods shorter than 1 ms are increased to 1 ms.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_controller::{Action, Controller, Every, ReconcileRequest};
/// use pintle_meta::ObjectKey;
/// use tokio_util::sync::CancellationToken;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let hourly = Every::new(Duration::from_secs(3_600), ObjectKey::cluster("report"));
///     let controller = Controller::named("reports").source(hourly).reconciler(move |request: ReconcileRequest| {
///         assert_eq!(request.key.name(), "report");
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Every<K = ObjectKey> {
    period: Duration,
    /// The delay between the sync of the caches and the first added keys.
    first: Duration,
    keys: Arc<dyn Fn() -> Keys<K> + Send + Sync>,
}

type Keys<K> = Box<dyn Iterator<Item = K> + Send>;

impl<K: RequestKey> Every<K> {
    /// Creates a timer that adds one key.
    pub fn new(period: Duration, key: K) -> Self {
        Self::keys(period, move || [key.clone()])
    }

    /// Creates a timer that calls `keys` and adds the returned keys, for example the keys of all objects in a lister.
    /// `keys` is first called after the controller's caches have synced. If `keys` or its iterator panics, the
    /// controller's run fails.
    ///
    /// To avoid collecting all keys in memory, return a lazy iterator. The timer yields to other tasks while it adds
    /// many keys.
    pub fn keys<I>(period: Duration, keys: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = K>,
        I::IntoIter: Send + 'static,
    {
        let keys = move || Box::new(keys().into_iter()) as Keys<K>;
        Self { period: period.max(SHORTEST), first: Duration::ZERO, keys: Arc::new(keys) }
    }

    pub(crate) fn after_first_period(self) -> Self {
        Self { first: self.period, ..self }
    }
}

impl<K: RequestKey> Source<K> for Every<K> {
    fn name(&self) -> &str {
        "timer"
    }

    fn start(&self, requests: Requests<K>) -> Feed {
        let (period, first, keys) = (self.period, self.first, self.keys.clone());
        let run = async move {
            // Wait until the caches have synced, so that `keys` does not read from empty caches.
            requests.synced().await;
            sleep(first).await;
            loop {
                for key in keys() {
                    requests.tick(key);
                    consume_budget().await;
                }
                sleep(period).await;
            }
        };
        Feed { synced: Box::pin(ready(true)), run: Box::pin(run) }
    }
}

pintle_meta::debug_struct!(Every<K> { period, .. });
