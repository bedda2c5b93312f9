//! A source to which the program adds keys.

use std::future::pending;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_meta::ObjectKey;

use super::{Feed, Source};
use crate::kept::{Kept, MAX_KEPT, Origin};
use crate::key::RequestKey;
use crate::requests::{Requests, WeakRequests};

/// A source to which the program adds keys from any thread, like controller-runtime's `Channel`. `K` is the type of the
/// keys: see [`RequestKey`].
///
/// Clones are handles to the same trigger. A trigger may belong to several controllers, and each controller receives
/// each key. If keys arrive while a controller is not running, the controller keeps them for its next run, without
/// duplicates. Keys that arrive before the first run of any of these controllers are kept as well. A controller that is
/// built later, but before that run, also receives these keys.
///
/// If the controller is [sharded](crate::Manager::sharded), the key goes to the controller of its shard in this process.
/// If another replica leads the shard, this process keeps the key, and reconciles it when this replica takes the shard
/// over. The other replica does not receive the key. So call [`trigger`](Self::trigger) on every replica, or write to the
/// object if only one replica receives the signal.
///
/// A standby keeps at most the newest 100,000 keys, so a trigger that is used on every replica needs bounded memory. If a
/// controller drops a key, it logs a warning once. A dropped key is not lost if it is the key of an existing object of
/// the controller's main kind, because each run reconciles all these objects.
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
#[derive(Debug)]
pub struct Trigger<K = ObjectKey>(Arc<Mutex<State<K>>>);

#[derive(Debug)]
struct State<K> {
    controllers: Vec<WeakRequests<K>>,
    /// Whether at least one of the controllers has run.
    has_run: bool,
    /// Keys that controllers receive when they are built later. These keys arrived before the first run of any
    /// controller, or when the trigger had no controller.
    waiting: Kept<K>,
}

impl<K> Clone for Trigger<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Trigger<K> {
    fn default() -> Self {
        let state = State { controllers: Vec::new(), has_run: false, waiting: Kept::default() };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl<K: RequestKey> Trigger<K> {
    /// Creates a trigger without a controller.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `key` to the queue of each controller that uses this trigger.
    pub fn trigger(&self, key: K) {
        let mut state = self.lock();
        let controllers = state.live();
        if controllers.is_empty() || !state.has_run {
            state.waiting.insert(key.clone(), 0, Origin::Program, MAX_KEPT);
        }
        drop(state);
        controllers.into_iter().for_each(|requests| requests.add(key.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // If the `Ord` or `Clone` implementation of a key panics, the state is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> State<K> {
    fn live(&mut self) -> Vec<Requests<K>> {
        self.controllers.retain(|controller| controller.upgrade().is_some());
        self.controllers.iter().filter_map(WeakRequests::upgrade).collect()
    }
}

impl<K: RequestKey> Source<K> for Trigger<K> {
    fn name(&self) -> &str {
        "trigger"
    }

    fn attach(&self, requests: &Requests<K>) {
        let mut state = self.lock();
        let is_first = state.live().is_empty();
        // Ignore the trigger if it was already added to this controller.
        if !state.controllers.iter().any(|controller| requests.same_as(controller)) {
            state.controllers.push(requests.downgrade());
        }
        let mut waiting = match is_first && state.has_run {
            true => take(&mut state.waiting),
            false => state.waiting.clone(),
        };
        drop(state);
        waiting.take().into_iter().for_each(|(key, _)| requests.add(key));
    }

    fn start(&self, _: Requests<K>) -> Feed {
        let trigger = self.clone();
        let run = async move {
            let waiting = {
                let mut state = trigger.lock();
                state.has_run = true;
                take(&mut state.waiting)
            };
            drop(waiting);
            pending().await
        };
        Feed { synced: Box::pin(async { true }), run: Box::pin(run) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigger_knows_each_controller_once() {
        let (trigger, first) = (Trigger::<String>::new(), Requests::new("first", None));
        trigger.attach(&first);
        trigger.attach(&first);
        assert_eq!(trigger.lock().controllers.len(), 1);
        trigger.attach(&Requests::new("second", None));
        assert_eq!(trigger.lock().controllers.len(), 2);
    }
}
