//! The error types of controllers and managers.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use pintle_workqueue::ShutdownReport;
use thiserror::Error;

use crate::key::{RequestKey, text};

/// The error type of [`Controller::run`](crate::Controller::run).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The controller is already running.
    #[error("controller {controller:?} is already running")]
    AlreadyRunning {
        /// The controller's name.
        controller: String,
    },
    /// A source cannot sync or did not sync before the timeout.
    #[error("controller {controller:?}: its source {source_name:?} did not sync{}: {problem}", within(.after))]
    NotSynced {
        /// The controller's name.
        controller: String,
        /// The source's name.
        source_name: String,
        /// The reason why the source has not synced.
        problem: String,
        /// The timeout that has passed, or `None` if the source failed before the timeout.
        after: Option<Duration>,
    },
    /// A source has ended, so the controller would miss later changes.
    #[error("controller {controller:?}: its source {source_name:?} has ended")]
    SourceEnded {
        /// The controller's name.
        controller: String,
        /// The source's name.
        source_name: String,
    },
    /// User code of the controller panicked outside of a reconciliation: a source, a worker, or the queue's setup or
    /// order.
    #[error("controller {controller:?}: {part} panicked: {panic}")]
    Panicked {
        /// The controller's name.
        controller: String,
        /// The component that panicked, such as a source or a worker.
        part: String,
        /// The panic message.
        panic: String,
    },
    /// A reconciliation of an earlier run still blocks its thread and cannot be dropped. The new run does not start,
    /// because it must not overlap with a reconciliation of an earlier run.
    #[error(
        "controller {controller:?}: a call of an earlier run still blocks its thread {after:?} after the run ended: {blocked}"
    )]
    Blocked {
        /// The controller's name.
        controller: String,
        /// The reconciliations that block their threads, with their keys.
        blocked: String,
        /// The time that the new run or the manager waited for the blocked reconciliations.
        after: Duration,
    },
    /// The controller did not stop within the timeout, and dropped the remaining reconciliations.
    #[error("controller {controller:?}: still running {after:?} after the stop: {unfinished}")]
    StopTimedOut {
        /// The controller's name.
        controller: String,
        /// The keys that the run did not finish.
        unfinished: Box<UnfinishedKeys>,
        /// The shutdown timeout.
        after: Duration,
    },
}

/// The keys that a run did not finish, as text. The next run of the controller reconciles these keys.
///
/// `ObjectKey`s are formatted as `namespace/name`. For other key types, see [`RequestKey`](crate::RequestKey).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedKeys {
    /// The keys whose reconciliation was running.
    pub in_flight: Vec<String>,
    /// The keys that were waiting for a worker.
    pub queued: Vec<String>,
    /// The keys that were waiting for a retry or a requested requeue.
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("in flight", &self.in_flight), ("queued", &self.queued), ("delayed", &self.delayed)];
        let parts = parts.into_iter().filter(|(_, keys)| !keys.is_empty());
        let text: Vec<_> = parts.map(|(sort, keys)| format!("{sort}: {}", list(keys))).collect();
        f.write_str(&text.join("; "))
    }
}

/// The error type of [`Manager::run`](crate::Manager::run).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A controller failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// A service or the leader election failed.
    #[error("{name}: {cause}")]
    Runnable {
        /// The name of the service, or a description of the election.
        name: String,
        /// The error of the service or the election.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// Two controllers have the same name, so logs, metrics and health checks could not distinguish them.
    #[error("two controllers are named {name:?}; give one of them another name with `.name(…)`")]
    DuplicateName {
        /// The duplicate name.
        name: String,
    },
    /// Some components of the manager did not stop within the timeout and were dropped.
    #[error("the stop timed out after {after:?}; these parts were dropped: {}", .left.join(", "))]
    StopTimedOut {
        /// The components that were dropped: controllers with their unfinished keys, services and informers. The leader
        /// election is also listed if the manager did not release the lease.
        left: Vec<String>,
        /// The manager's shutdown timeout.
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
