//! A trait that hides the key type of a controller.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_workqueue::Counts;

use crate::blocking::Watched;
use crate::controller::Controller;
use crate::error::{ControllerError, UnfinishedKeys};
use crate::explain::Explanation;
use crate::history::KeyHistory;
use crate::key::{RequestKey, text};
use crate::stop::Stop;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Controller`] whose keys are converted to strings. Each method calls the controller's method of the same name.
pub(super) trait AnyController: fmt::Debug + Send + Sync {
    fn name(&self) -> &str;
    fn warm_up(&self);
    fn sources(&self) -> Vec<(String, Option<String>)>;
    fn unsynced(&self) -> Vec<(String, String)>;
    fn queue_counts(&self) -> Option<Counts>;
    fn max_concurrent_reconciles(&self) -> usize;
    fn blocked_calls(&self) -> Vec<(String, Duration)>;
    fn explain(&self, key: &str) -> Option<Explanation<String>>;
    fn most_failing(&self, limit: usize) -> Vec<Explanation<String>>;
    fn slowest(&self, limit: usize) -> Vec<Explanation<String>>;
    fn most_active(&self, limit: usize) -> Vec<Explanation<String>>;
    fn run_within<'a>(
        &'a self,
        stop: &'a Stop,
        leadership: Option<&'a Leadership>,
    ) -> BoxFuture<'a, Result<(), ControllerError>>;
    fn ended(&self) -> BoxFuture<'_, ()>;
    fn blocked(&self) -> Option<String>;
    fn unfinished(&self) -> Option<UnfinishedKeys>;
    fn polls(&self) -> Arc<dyn Watched>;
    fn panicked(&self, part: &str, panic: String) -> ControllerError;
    fn still_blocked(&self, after: Duration) -> ControllerError;
}

impl<K: RequestKey> AnyController for Controller<K> {
    fn name(&self) -> &str {
        self.name()
    }

    fn warm_up(&self) {
        self.warm_up();
    }

    fn sources(&self) -> Vec<(String, Option<String>)> {
        self.sources()
    }

    fn unsynced(&self) -> Vec<(String, String)> {
        self.unsynced()
    }

    fn queue_counts(&self) -> Option<Counts> {
        self.queue_counts()
    }

    fn max_concurrent_reconciles(&self) -> usize {
        self.max_concurrent_reconciles()
    }

    fn blocked_calls(&self) -> Vec<(String, Duration)> {
        self.blocked_calls().into_iter().map(|(key, lasts)| (text(&key), lasts)).collect()
    }

    fn explain(&self, key: &str) -> Option<Explanation<String>> {
        let Explanation { key, state, history } = self.explain(&self.key_of(key)?);
        Some(Explanation { key: text(&key), state, history })
    }

    fn most_failing(&self, limit: usize) -> Vec<Explanation<String>> {
        with_states(self, self.most_failing(limit))
    }

    fn slowest(&self, limit: usize) -> Vec<Explanation<String>> {
        with_states(self, self.slowest(limit))
    }

    fn most_active(&self, limit: usize) -> Vec<Explanation<String>> {
        with_states(self, self.most_active(limit))
    }

    fn run_within<'a>(
        &'a self,
        stop: &'a Stop,
        leadership: Option<&'a Leadership>,
    ) -> BoxFuture<'a, Result<(), ControllerError>> {
        Box::pin(self.run_within(stop, leadership))
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.ended())
    }

    fn blocked(&self) -> Option<String> {
        self.blocked()
    }

    fn unfinished(&self) -> Option<UnfinishedKeys> {
        self.unfinished()
    }

    fn polls(&self) -> Arc<dyn Watched> {
        self.polls()
    }

    fn panicked(&self, part: &str, panic: String) -> ControllerError {
        self.panicked(part, panic)
    }

    fn still_blocked(&self, after: Duration) -> ControllerError {
        self.still_blocked(after)
    }
}

fn with_states<K: RequestKey>(controller: &Controller<K>, keys: Vec<(K, KeyHistory)>) -> Vec<Explanation<String>> {
    let explained = keys.into_iter().map(|(key, history)| Explanation {
        key: text(&key),
        state: controller.state_of(&key),
        history: Some(history),
    });
    explained.collect()
}

/// The status of one controller of a manager, for probes and debug pages. Each method returns the current status of the
/// controller.
///
/// Keys are strings, because the controllers of a manager can have different key types. `ObjectKey`s are formatted as
/// `namespace/name`. For other key types, see [`RequestKey`].
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Controller, Manager, ReconcileRequest, Trigger};
/// use pintle_meta::ObjectKey;
///
/// let trigger = Trigger::new();
/// let sites = Controller::named("sites").source(trigger.clone());
/// let sites = sites.reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) });
/// let tenants = Controller::named("tenants");
/// let tenants = tenants.reconciler(|_: ReconcileRequest<(String, u8)>| async { Ok(Action::await_change()) });
/// let status = Manager::new().controller(sites).controller(tenants).status();
///
/// trigger.trigger(ObjectKey::new("team-a", "blog"));
/// let [sites, tenants] = &status.controllers()[..] else { panic!("two controllers were added") };
/// assert_eq!((sites.name(), tenants.name()), ("sites", "tenants"));
/// println!("{}", sites.explain("team-a/blog").unwrap());
/// assert_eq!(tenants.explain(r#"("acme", 1)"#), None);
/// ```
#[derive(Clone)]
pub struct ControllerStatus(pub(super) Arc<dyn AnyController>);

impl ControllerStatus {
    /// Returns the controller's name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the name of each source. If a source has not synced, the second value of its pair is the reason. See
    /// [`Controller::sources`].
    pub fn sources(&self) -> Vec<(String, Option<String>)> {
        self.0.sources()
    }

    /// Returns the sources that have not synced or are outdated, with the reasons. See [`Controller::unsynced`].
    pub fn unsynced(&self) -> Vec<(String, String)> {
        self.0.unsynced()
    }

    /// Returns the number of keys in each state. Returns `None` if the controller is not running.
    pub fn queue_counts(&self) -> Option<Counts> {
        self.0.queue_counts()
    }

    /// Returns the current limit on concurrent reconciliations.
    pub fn max_concurrent_reconciles(&self) -> usize {
        self.0.max_concurrent_reconciles()
    }

    /// Returns the keys whose reconciliations [block their thread](crate::ControllerConfig::blocked_after), with the
    /// duration of each block.
    pub fn blocked_calls(&self) -> Vec<(String, Duration)> {
        self.0.blocked_calls()
    }

    /// Explains why a key is queued, delayed or in flight. See [`Controller::explain`].
    ///
    /// Returns `None` if `key` is unknown. For controllers with the key type `ObjectKey`, every valid key is known,
    /// even if the object does not exist. For other key types, a key is known only if it is in the queue or has a
    /// history. For key types other than `ObjectKey`, the duration of the search is proportional to the length of the
    /// queue.
    pub fn explain(&self, key: &str) -> Option<Explanation<String>> {
        self.0.explain(key)
    }

    /// Returns up to `limit` keys whose last reconciliation failed. Keys with the most consecutive failures come first.
    pub fn most_failing(&self, limit: usize) -> Vec<Explanation<String>> {
        self.0.most_failing(limit)
    }

    /// Returns up to `limit` keys whose last reconciliations took the longest.
    pub fn slowest(&self, limit: usize) -> Vec<Explanation<String>> {
        self.0.slowest(limit)
    }

    /// Returns up to `limit` keys that were added most often. A key that is added very often may be part of a loop, in
    /// which the reconciler's own writes trigger further reconciliations.
    pub fn most_active(&self, limit: usize) -> Vec<Explanation<String>> {
        self.0.most_active(limit)
    }
}

impl fmt::Debug for ControllerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
