//! The errors of controllers and managers.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use pintle_workqueue::ShutdownReport;
use thiserror::Error;

use crate::key::{RequestKey, text};

/// The reason why a run of a controller failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The controller is already running. A controller can have only one run at a time, because all its runs use the
    /// same caches and queue.
    #[error("controller {controller:?} is already running")]
    AlreadyRunning {
        /// The name of the controller.
        controller: String,
    },
    /// A source did not sync in time, or cannot sync.
    #[error("controller {controller:?}: its source {source_name:?} did not sync{}: {problem}", within(.after))]
    NotSynced {
        /// The name of the controller.
        controller: String,
        /// The name of the source.
        source_name: String,
        /// The reason why the source has not synced.
        problem: String,
        /// How long the run waited for the source. `None` if the run did not wait, because the source cannot sync.
        after: Option<Duration>,
    },
    /// A source has ended, so the controller would miss changes.
    #[error("controller {controller:?}: its source {source_name:?} has ended")]
    SourceEnded {
        /// The name of the controller.
        controller: String,
        /// The name of the source.
        source_name: String,
    },
    /// A part of the controller panicked outside of a reconciliation: a source, a worker, or the code that sets up or
    /// orders the queue.
    #[error("controller {controller:?}: {part} panicked: {panic}")]
    Panicked {
        /// The name of the controller.
        controller: String,
        /// The part of the controller that panicked.
        part: String,
        /// The panic message.
        panic: String,
    },
    /// A call of an earlier run blocks its thread and could not be dropped. A new run must not overlap with this call.
    #[error(
        "controller {controller:?}: a call of an earlier run still blocks its thread {after:?} after the run ended: {blocked}"
    )]
    Blocked {
        /// The name of the controller.
        controller: String,
        /// The blocked calls, with their keys.
        blocked: String,
        /// How long the run waited for these calls.
        after: Duration,
    },
    /// The controller did not stop in time, so it dropped the remaining reconciliations.
    #[error("controller {controller:?}: still running {after:?} after the stop: {unfinished}")]
    StopTimedOut {
        /// The name of the controller.
        controller: String,
        /// The keys that the run did not finish.
        unfinished: Box<UnfinishedKeys>,
        /// How long the run waited for its reconciliations.
        after: Duration,
    },
}

/// The keys that a run did not finish, as text. The next run of the same controller reconciles these keys.
///
/// An `ObjectKey` has the text `namespace/name`. For other types of keys, see [`RequestKey`](crate::RequestKey).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedKeys {
    /// The keys whose reconciliation was running.
    pub in_flight: Vec<String>,
    /// The keys that were ready, but whose reconciliation had not started.
    pub queued: Vec<String>,
    /// The keys that wait for a retry or for a delay that the reconciler set.
    pub delayed: Vec<String>,
}

impl UnfinishedKeys {
    pub(crate) fn of<K: RequestKey>(report: &ShutdownReport<K>) -> Self {
        let texts = |keys: &[K]| keys.iter().map(text).collect();
        Self { in_flight: texts(&report.in_flight), queued: texts(&report.queued), delayed: texts(&report.delayed) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.queued.is_empty() && self.delayed.is_empty()
    }
}

impl fmt::Display for UnfinishedKeys {
    /// `Display` names the first five keys of each list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("in flight", &self.in_flight), ("queued", &self.queued), ("delayed", &self.delayed)];
        let parts = parts.into_iter().filter(|(_, keys)| !keys.is_empty());
        let text: Vec<_> = parts.map(|(sort, keys)| format!("{sort}: {}", list(keys))).collect();
        f.write_str(&text.join("; "))
    }
}

/// The reason why a run of a manager failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A controller failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// A service or the leader election failed.
    #[error("{name}: {cause}")]
    Runnable {
        /// The name of the service, or of the leader election.
        name: String,
        /// The error of the service or of the leader election.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// Two controllers have the same name, so their logs, metrics and checks would be indistinguishable.
    #[error("two controllers are named {name:?}; rename one of them with `Builder::name`")]
    DuplicateName {
        /// The name that both controllers have.
        name: String,
    },
    /// Some parts of the manager did not stop in time and were dropped.
    #[error("the stop timed out after {after:?}; these parts were dropped: {}", .left.join(", "))]
    StopTimedOut {
        /// The parts that were dropped. These can be controllers with their unfinished keys, services, informers, and
        /// the leader election if the lease could not be released.
        left: Vec<String>,
        /// The time limit for stopping the whole manager.
        after: Duration,
    },
}

fn within(after: &Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(" within {after:?}"))
}

fn list(keys: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = keys.iter().take(SHOWN).map(String::as_str).collect();
    match keys.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}
