//! A source that is fed by hand.

use std::collections::BTreeSet;
use std::future::pending;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;
use pintle_workqueue::{AddOptions, Added};

use super::{Feed, Source};
use crate::Requests;

/// A source that is fed by hand, from anywhere: controller-runtime's `Channel`.
///
/// Clones feed the same controller. Keys that come while it does not run are kept, each once, for its next run.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Controller, ReconcileRequest, Trigger};
/// use pintle_meta::ObjectKey;
/// use tokio_util::sync::CancellationToken;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let trigger = Trigger::new();
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::named("sites").source(trigger.clone()).reconciler(move |request: ReconcileRequest| {
///         assert_eq!(request.key.as_str(), "team-a/blog");
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     trigger.trigger(ObjectKey::new("team-a", "blog"));
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trigger(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    requests: Option<Requests>,
    waiting: BTreeSet<ObjectKey>,
}

impl Trigger {
    /// A source that nobody listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `key` reconciled.
    pub fn trigger(&self, key: ObjectKey) {
        let mut state = self.lock();
        let add = |requests: &Requests| requests.queue().add_with(key.clone(), AddOptions::default());
        if matches!(state.requests.as_ref().map(add), None | Some(Added::ShutDown)) {
            state.waiting.insert(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Trigger {
    fn name(&self) -> &str {
        "trigger"
    }

    fn start(&self, requests: Requests) -> Feed {
        let connection = Connection(self.clone());
        let run = async move {
            {
                let mut state = connection.0.lock();
                take(&mut state.waiting).into_iter().for_each(|key| requests.add(key));
                state.requests = Some(requests);
            }
            pending::<()>().await;
            drop(connection);
        };
        Feed { synced: Box::pin(async { true }), run: Box::pin(run) }
    }
}

/// Ends with the run.
struct Connection(Trigger);

impl Drop for Connection {
    fn drop(&mut self) {
        // Not under the lock, since this may be the last handle to a queue that has a user's order and limiter.
        let requests = self.0.lock().requests.take();
        drop(requests);
    }
}
