//! A source for keys that the program adds.

use std::future::pending;
use std::mem::take;
use std::sync::Arc;

use pintle_meta::__private::Mutex;
use pintle_meta::ObjectKey;

use super::{Feed, Source};
use crate::kept::{Kept, MAX_KEPT, Origin};
use crate::key::RequestKey;
use crate::requests::{Requests, WeakRequests};

/// A source to which the program can add keys from any thread, like controller-runtime's `Channel`. `K` is the key
/// type: see [`RequestKey`].
///
/// Clones add keys to the same controllers. If several controllers use a trigger, each controller receives all keys. A
/// controller that is not running stores the keys for its next run, without duplicates. A controller also receives keys
/// that were triggered before the controller was built, unless one of the trigger's controllers has already run.
///
/// With [sharded](crate::Manager::sharded) controllers, only the controller whose shard contains the key receives the
/// key. If another replica leads the key's shard, the local controller stores the key and reconciles it only after
/// taking over the shard. Call [`trigger`](Self::trigger) on every replica. If only one replica receives the signal for
/// a reconciliation, write to the object instead of calling `trigger`.
///
/// To limit its memory, a standby stores only the newest 100,000 added keys. The first time that the standby drops a
/// key, it logs a warning. Keys of the controller's main kind are not lost, because each run reconciles all existing
/// objects of this kind.
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
// The state stays consistent even if a key's `Ord` or `Clone` panics.
#[derive(Clone, Debug)]
pub struct Trigger<K = ObjectKey>(Arc<Mutex<State<K>>>);

#[derive(Debug)]
struct State<K> {
    controllers: Vec<WeakRequests<K>>,
    has_run: bool,
    /// Keys for controllers that will be built later. The program adds these keys before the first run, or while the
    /// trigger has no controller.
    waiting: Kept<K>,
}

impl<K> Default for Trigger<K> {
    fn default() -> Self {
        let state = State { controllers: Vec::new(), has_run: false, waiting: Kept::default() };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl<K: RequestKey> Trigger<K> {
    /// Creates a trigger. Pass the trigger to [`Builder::source`](crate::Builder::source).
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `key` to the queues of all controllers that use this trigger.
    pub fn trigger(&self, key: K) {
        let mut state = self.0.lock();
        let controllers = state.live();
        if controllers.is_empty() || !state.has_run {
            state.waiting.insert(key.clone(), 0, Origin::Program, MAX_KEPT);
        }
        drop(state);
        controllers.into_iter().for_each(|requests| requests.add(key.clone()));
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
        let mut state = self.0.lock();
        let is_first = state.live().is_empty();
        // Add each key once per controller, even if the trigger was added to a controller several times.
        if !state.controllers.iter().any(|controller| requests.same_as(controller)) {
            state.controllers.push(requests.downgrade());
        }
        let mut waiting = if is_first && state.has_run { take(&mut state.waiting) } else { state.waiting.clone() };
        drop(state);
        waiting.take().into_iter().for_each(|(key, _)| requests.add(key));
    }

    fn start(&self, _: Requests<K>) -> Feed {
        let trigger = self.clone();
        let run = async move {
            let waiting = {
                let mut state = trigger.0.lock();
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
        assert_eq!(trigger.0.lock().controllers.len(), 1);
        trigger.attach(&Requests::new("second", None));
        assert_eq!(trigger.0.lock().controllers.len(), 2);
    }
}
