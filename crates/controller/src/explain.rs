//! Explains the state of a key.

use std::fmt;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_workqueue::{DelayKind, KeyState};
use tokio::time::Instant;

use crate::controller::Controller;
use crate::history::{KeyHistory, LastCall};
use crate::key::{RequestKey, Text, parse, text};
use crate::requests::Queue;

/// The reason why a key is queued, delayed, in flight or idle. The `Display` implementation writes a human-readable
/// explanation.
///
/// `K` is the key type: see [`RequestKey`]. Explanations from a [`ControllerStatus`](crate::ControllerStatus) have keys
/// of type `String`.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Controller, Trigger};
/// use pintle_meta::ObjectKey;
///
/// fn print_reason(controller: &Controller) {
///     println!("{}", controller.explain(&ObjectKey::new("team-a", "blog")));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation<K = ObjectKey> {
    /// The key that this explanation describes.
    pub key: K,
    /// Whether the key is in flight, queued, delayed or idle.
    pub state: WorkState,
    /// The recent causes that added the key to the queue, and the last reconciliation of the key. This field is `None`
    /// if the controller has no history for the key.
    pub history: Option<KeyHistory>,
}

/// The state of a key in a controller's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// A worker is reconciling the key. If `queued_again` is set, the key is queued again when the reconciliation ends.
    InFlight {
        /// Whether the key was added again during the reconciliation.
        queued_again: bool,
    },
    /// The key is waiting for a worker.
    Queued,
    /// The key is waiting for a retry, because its last reconciliation failed.
    RetryIn(Duration),
    /// The key is waiting for the requeue delay that the reconciler requested.
    RequeueIn(Duration),
    /// The key is not in the queue. The next change adds the key to the queue.
    Idle,
    /// The controller is not running, for example because this replica is not the leader.
    NotRunning,
}

impl WorkState {
    pub(crate) fn of<K>(state: &KeyState<K>, now: Instant) -> Self {
        match state {
            KeyState { in_flight: true, dirty, .. } => Self::InFlight { queued_again: *dirty },
            KeyState { dirty: true, .. } => Self::Queued,
            KeyState { delay: Some((kind, at)), .. } => {
                let left = at.saturating_duration_since(now.into_std());
                match kind {
                    DelayKind::Retry => Self::RetryIn(left),
                    _ => Self::RequeueIn(left),
                }
            }
            _ => Self::Idle,
        }
    }
}

impl<K: RequestKey> Controller<K> {
    /// Explains why a key is queued, delayed or in flight. The result contains the state of the key, its newest causes
    /// and its last reconciliation.
    ///
    /// The controller remembers the causes of at least the 5,000 most recently active keys. The duration of this method
    /// does not depend on the length of the queue.
    pub fn explain(&self, key: &K) -> Explanation<K> {
        Explanation { key: key.clone(), state: self.state_of(key), history: self.histories().get(key) }
    }

    /// Returns the key whose text form is `key`. If the key type cannot be parsed, this method finds only keys that
    /// have a history or are in the queue.
    pub(crate) fn key_of(&self, key: &str) -> Option<K> {
        if let Some(key) = parse(key) {
            return Some(key);
        }
        let find = |mut keys: Vec<K>| {
            let at = keys.iter().position(|found| text(found) == key)?;
            Some(keys.swap_remove(at))
        };
        find(self.histories().keys()).or_else(|| {
            let queue = self.with_queue(Queue::snapshot)?;
            find(queue.into_iter().map(|state| state.key).collect())
        })
    }

    /// Returns the state of a key in the queue.
    pub fn state_of(&self, key: &K) -> WorkState {
        match self.with_queue(|queue| queue.key_state(key)) {
            None => WorkState::NotRunning,
            Some(state) => state.map_or(WorkState::Idle, |state| WorkState::of(&state, Instant::now())),
        }
    }

    /// Returns up to `limit` keys whose last reconciliation failed. Keys with the most consecutive failures come first.
    pub fn most_failing(&self, limit: usize) -> Vec<(K, KeyHistory)> {
        let failures = |call: &LastCall| Some(call.failures).filter(|failures| *failures > 0);
        self.histories().top(limit, |history| failures(history.last_call.as_ref()?))
    }

    /// Returns up to `limit` keys whose last reconciliations took the longest.
    pub fn slowest(&self, limit: usize) -> Vec<(K, KeyHistory)> {
        self.histories().top(limit, |history| Some(history.last_call.as_ref()?.took))
    }

    /// Returns up to `limit` keys that were added most often, sorted from most to least often. A key that is added very
    /// often may be part of a loop, in which the reconciler's own writes trigger further reconciliations.
    pub fn most_active(&self, limit: usize) -> Vec<(K, KeyHistory)> {
        self.histories().top(limit, |history| Some(history.total))
    }
}

impl fmt::Display for WorkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InFlight { queued_again: false } => f.write_str("in flight"),
            Self::InFlight { queued_again: true } => f.write_str("in flight, and queued again"),
            Self::Queued => f.write_str("queued"),
            Self::RetryIn(left) => write!(f, "waits {left:.1?} for its retry"),
            Self::RequeueIn(left) => write!(f, "waits {left:.1?} for its requeue"),
            Self::Idle => f.write_str("idle: the next change adds it"),
            Self::NotRunning => f.write_str("not handled here: the controller does not run"),
        }
    }
}

impl<K: RequestKey> fmt::Display for Explanation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Text(&self.key), self.state)?;
        let Some(history) = &self.history else { return f.write_str("; no cause is known") };
        if let Some(LastCall { took, error, failures, .. }) = &history.last_call {
            match error {
                None => write!(f, "; the last call succeeded after {took:.1?}")?,
                Some(error) => write!(f, "; failure {failures} after {took:.1?}: {error}")?,
            }
        }
        for cause in history.causes.iter().rev() {
            let ago = cause.at.elapsed().unwrap_or_default();
            write!(f, "\n  {:.1?} ago: {}", ago, cause.reason)?;
        }
        match history.total - history.causes.len() as u64 {
            0 => Ok(()),
            earlier => write!(f, "\n  and {earlier} earlier causes"),
        }
    }
}
