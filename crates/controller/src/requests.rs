//! The keys that wait to be reconciled.

use std::fmt;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{AddOptions, QueueConfig, WorkQueue};

pub(crate) type Queue = WorkQueue<ObjectKey, TokioClock>;

/// The keys that wait to be reconciled, as sources see them.
///
/// # Examples
///
/// ```
/// use std::{future, time::Duration};
///
/// use pintle_controller::{Action, Controller, Feed, LOW_PRIORITY, ReconcileRequest, Requests, Source};
/// use pintle_meta::ObjectKey;
/// use pintle_workqueue::AddOptions;
/// use tokio_util::sync::CancellationToken;
///
/// struct Startup;
///
/// impl Source for Startup {
///     fn name(&self) -> &str {
///         "startup"
///     }
///
///     fn start(&self, requests: Requests) -> Feed {
///         let run = async move {
///             requests.add(ObjectKey::new("team-a", "now"));
///             let low = AddOptions { priority: LOW_PRIORITY, ..AddOptions::default() };
///             requests.add_with(ObjectKey::new("team-a", "now-or-later"), low);
///             requests.add_after(ObjectKey::new("team-a", "later"), Duration::from_secs(60));
///             future::pending().await
///         };
///         Feed { synced: Box::pin(future::ready(true)), run: Box::pin(run) }
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::named("sites").source(Startup).reconciler(move |request: ReconcileRequest| {
///         println!("{}", request.key);
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Requests {
    queue: Queue,
}

impl Requests {
    pub(crate) fn new(controller: &str, mut config: QueueConfig<ObjectKey, TokioClock>) -> Self {
        config.name = controller.into();
        Self { queue: WorkQueue::new(config) }
    }

    /// Has `key` reconciled, as soon as a worker is free. Many adds before that are one; one during the reconciliation of the
    /// key has it reconciled once more.
    pub fn add(&self, key: ObjectKey) {
        self.queue.add(key);
    }

    /// Has `key` reconciled after a time, or sooner if it is added in another way.
    pub fn add_after(&self, key: ObjectKey, after: Duration) {
        self.queue.add_after(key, after);
    }

    /// Has `key` reconciled as the options say: with a priority, say, for a queue whose order looks at it.
    pub fn add_with(&self, key: ObjectKey, options: AddOptions) {
        self.queue.add_with(key, options);
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requests").field(&self.queue).finish()
    }
}
