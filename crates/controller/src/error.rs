//! Why a run of a controller or of a manager failed.

use std::error::Error;
use std::time::Duration;

use pintle_meta::ObjectKey;
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
    /// The stop took too long, and these reconciliations were dropped.
    #[error("controller {controller:?}: still at work {after:?} after it was asked to stop: {}", list(.in_flight))]
    StopTimedOut {
        /// The controller.
        controller: String,
        /// The keys that were being reconciled.
        in_flight: Vec<ObjectKey>,
        /// How long was waited.
        after: Duration,
    },
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
    /// Some parts were asked to stop, did not in their share of the time, and were dropped.
    #[error("the stop could take {after:?}, and these had to be dropped: {}", .left.join(", "))]
    StopTimedOut {
        /// What they are called: controllers with their keys in flight, services, the leader election if the lease could not be
        /// released, informers.
        left: Vec<String>,
        /// How long the stop could take in all.
        after: Duration,
    },
}

fn within(after: &Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(" within {after:?}"))
}

pub(crate) fn list(keys: &[ObjectKey]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = keys.iter().take(SHOWN).map(ObjectKey::as_str).collect();
    match keys.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}
