//! Why a run of a controller or of a manager failed.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_workqueue::ShutdownReport;
use thiserror::Error;

/// Why a run of a controller failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// It runs already. One set of caches feeds one queue at a time.
    #[error("controller {controller:?} runs already")]
    AlreadyRunning {
        /// The controller.
        controller: String,
    },
    /// A source could not be completed: in time, or at all.
    #[error("controller {controller:?}: its source {source_name:?} did not sync{}: {problem}", within(.after))]
    NotSynced {
        /// The controller.
        controller: String,
        /// The source.
        source_name: String,
        /// What keeps it from being complete.
        problem: String,
        /// How long was waited; none if there was nothing to wait for.
        after: Option<Duration>,
    },
    /// A source ended, so that changes would go unnoticed.
    #[error("controller {controller:?}: its source {source_name:?} has ended")]
    SourceEnded {
        /// The controller.
        controller: String,
        /// The source.
        source_name: String,
    },
    /// Something that the run cannot do without panicked: a source, the queue's setup or order, a worker outside of any
    /// reconciliation.
    #[error("controller {controller:?}: {part} panicked: {panic}")]
    Panicked {
        /// The controller.
        controller: String,
        /// What panicked.
        part: String,
        /// What the panic said.
        panic: String,
    },
    /// A call of an earlier run blocks its thread, so it could not be dropped, and this run may not begin beside it.
    #[error(
        "controller {controller:?}: a call of an earlier run blocks its thread, {after:?} after its end: {blocked}"
    )]
    Blocked {
        /// The controller.
        controller: String,
        /// The calls, with their keys.
        blocked: String,
        /// How long was waited.
        after: Duration,
    },
    /// The stop took too long, and these reconciliations were dropped.
    #[error("controller {controller:?}: still at work {after:?} after it was asked to stop: {unfinished}")]
    StopTimedOut {
        /// The controller.
        controller: String,
        /// The keys that were left.
        unfinished: Box<Leftover>,
        /// How long was waited.
        after: Duration,
    },
}

/// The keys that a run leaves undone. They come again in the next run of the same controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// The keys that are being reconciled.
    pub in_flight: Vec<ObjectKey>,
    /// The keys that have work to do and were not begun.
    pub queued: Vec<ObjectKey>,
    /// The keys that wait for a retry, or for a time that the reconciler named.
    pub delayed: Vec<ObjectKey>,
}

impl Leftover {
    pub(crate) fn of(report: &ShutdownReport<ObjectKey>) -> Self {
        let ShutdownReport { in_flight, queued, delayed, .. } = report.clone();
        Self { in_flight, queued, delayed }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.queued.is_empty() && self.delayed.is_empty()
    }
}

impl fmt::Display for Leftover {
    /// Names the first five keys of each sort.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("in flight", &self.in_flight), ("queued", &self.queued), ("delayed", &self.delayed)];
        let parts = parts.into_iter().filter(|(_, keys)| !keys.is_empty());
        let told: Vec<_> = parts.map(|(sort, keys)| format!("{sort}: {}", list(keys))).collect();
        f.write_str(&told.join("; "))
    }
}

/// Why a run of a manager failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A controller failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// Something that runs beside the controllers failed: a service, or the leader election.
    #[error("{name}: {cause}")]
    Runnable {
        /// What it is called.
        name: String,
        /// Its error.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// Two controllers have one name, so their logs, metrics and checks could not be told apart.
    #[error("two controllers are named {name:?}; give one of them another name by `Builder::name`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Some parts were asked to stop, did not in their share of the time, and were dropped.
    #[error("the stop could take {after:?}, and these had to be dropped: {}", .left.join(", "))]
    StopTimedOut {
        /// What they are called: controllers with their unfinished keys, services, the leader election if the lease could not be
        /// released, informers.
        left: Vec<String>,
        /// How long the stop could take in all.
        after: Duration,
    },
}

fn within(after: &Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(" within {after:?}"))
}

fn list(keys: &[ObjectKey]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = keys.iter().take(SHOWN).map(ObjectKey::as_str).collect();
    match keys.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}
