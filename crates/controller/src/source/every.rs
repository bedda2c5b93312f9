//! A timer as a source.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use tokio::task::consume_budget;
use tokio::time::sleep;

use super::{Feed, Source};
use crate::key::RequestKey;
use crate::requests::Requests;

/// The shortest period of a timer.
const SHORTEST: Duration = Duration::from_millis(1);

/// A source that adds keys when the caches of the controller have synced, and then again after each period. `K` is the
/// type of the keys: see [`RequestKey`].
///
/// If a key is still queued or delayed when the next period ends, the key is not added twice. A failed key is retried
/// with its back-off, and also when a period ends, as after a change of an object. The keys have a low priority, so
/// changed objects come first. A period of less than 1 ms counts as 1 ms.
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
pub struct Every<K = ObjectKey> {
    period: Duration,
    keys: Arc<dyn Fn() -> Keys<K> + Send + Sync>,
}

type Keys<K> = Box<dyn Iterator<Item = K> + Send>;

impl<K: RequestKey> Every<K> {
    /// Creates a timer that adds one key.
    pub fn new(period: Duration, key: K) -> Self {
        Self::keys(period, move || [key.clone()])
    }

    /// Creates a timer that adds the keys that `keys` returns at that time, for example the keys of all objects of a
    /// lister. The first call comes after the caches of the controller have synced. If `keys` or its iterator panics, the
    /// controller fails.
    ///
    /// A lazy iterator avoids a list of all keys. While the timer adds many keys, other tasks run in between.
    pub fn keys<I>(period: Duration, keys: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = K>,
        I::IntoIter: Send + 'static,
    {
        let keys = move || Box::new(keys().into_iter()) as Keys<K>;
        Self { period: period.max(SHORTEST), keys: Arc::new(keys) }
    }
}

impl<K: RequestKey> Source<K> for Every<K> {
    fn name(&self) -> &str {
        "timer"
    }

    fn start(&self, requests: Requests<K>) -> Feed {
        let (period, keys) = (self.period, self.keys.clone());
        let run = async move {
            // Before that, the caches from which `keys` reads are empty.
            requests.synced().await;
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

impl<K> Clone for Every<K> {
    fn clone(&self) -> Self {
        Self { period: self.period, keys: self.keys.clone() }
    }
}

impl<K> fmt::Debug for Every<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Every").field("period", &self.period).finish_non_exhaustive()
    }
}
