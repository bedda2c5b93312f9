//! What an elector knows, for others to ask.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use thiserror::Error;
use tokio::sync::watch;

use crate::{Clocks, Leadership};

/// What an elector knows, for everyone who has to ask: health checks, logs, web pages.
///
/// It is for information. Work asks its [`Leadership`].
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{ElectionStatus, Wedged};
/// use std::time::Duration;
///
/// fn liveness(status: &ElectionStatus) -> Result<(), Wedged> {
///     status.check(Duration::from_secs(20))
/// }
///
/// async fn report(mut status: ElectionStatus) {
///     while status.changed().await {
///         println!("{:?} leads; it is this process: {}", status.leader(), status.is_leader());
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ElectionStatus {
    lock: ObjectKey,
    lease_duration: Duration,
    clocks: Arc<dyn Clocks>,
    observed: watch::Receiver<Observed>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) leader: Option<String>,
    pub(crate) term: Option<Open>,
}

/// A term that has not been closed: its work may still run.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) leadership: Leadership,
    /// When it was last confirmed, as time since the clock's start.
    pub(crate) confirmed: Duration,
}

impl ElectionStatus {
    pub(crate) fn new(
        lock: ObjectKey,
        lease_duration: Duration,
        clocks: Arc<dyn Clocks>,
        observed: watch::Receiver<Observed>,
    ) -> Self {
        Self { lock, lease_duration, clocks, observed }
    }

    /// The holder that was last observed; empty if nobody holds the lock, none before the first look.
    pub fn leader(&self) -> Option<String> {
        self.observed.borrow().leader.clone()
    }

    /// Whether this elector has a term whose deadline has not passed.
    pub fn is_leader(&self) -> bool {
        self.leadership().is_some_and(|leadership| leadership.check().is_ok())
    }

    /// The term whose work this elector runs, whether it is over or not; none if there is none.
    pub fn leadership(&self) -> Option<Leadership> {
        Some(self.observed.borrow().term.as_ref()?.leadership.clone())
    }

    /// Waits for the next change of anything that this type tells. False once the elector is dropped.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn changed(&mut self) -> bool {
        self.observed.changed().await.is_ok()
    }

    /// For a liveness probe: finds a process that hangs and so has not stopped leading.
    ///
    /// # Errors
    ///
    /// [`Wedged`] if a term was last confirmed more than the lease duration and `tolerance` ago, and its work has not
    /// ended. A candidate always passes.
    pub fn check(&self, tolerance: Duration) -> Result<(), Wedged> {
        let observed = self.observed.borrow();
        let Some(open) = &observed.term else { return Ok(()) };
        let age = self.clocks.now().elapsed.saturating_sub(open.confirmed);
        match age > self.lease_duration.saturating_add(tolerance) {
            true => Err(Wedged { lock: self.lock.clone(), age }),
            false => Ok(()),
        }
    }
}

/// A term was not confirmed for too long, and its work still runs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("leader election by {lock}: still leading {age:?} after the last renewal")]
pub struct Wedged {
    /// The lock.
    pub lock: ObjectKey,
    /// The time since the term was last confirmed.
    pub age: Duration,
}
