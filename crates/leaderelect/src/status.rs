//! What an elector knows, for others to ask.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use thiserror::Error;
use tokio::sync::watch;

use crate::{Clocks, LeaderElectionConfig, Leadership};

/// What an elector knows, for everyone who has to ask: health checks, logs, web pages.
///
/// It is for information. Work asks its [`Leadership`].
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{ElectionStatus, RenewalOverdue};
/// use std::time::Duration;
///
/// fn liveness(status: &ElectionStatus) -> Result<(), RenewalOverdue> {
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
    renew_deadline: Duration,
    clocks: Arc<dyn Clocks>,
    observed: watch::Receiver<Observed>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) leader: Option<String>,
    /// The term whose work runs, or may still run.
    pub(crate) term: Option<Leadership>,
}

impl ElectionStatus {
    pub(crate) fn new(lock: ObjectKey, config: &LeaderElectionConfig, observed: watch::Receiver<Observed>) -> Self {
        let (lease_duration, renew_deadline) = (config.lease_duration, config.renew_deadline);
        Self { lock, lease_duration, renew_deadline, clocks: config.clocks.clone(), observed }
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
        self.observed.borrow().term.clone()
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
    /// [`RenewalOverdue`] if a term was last confirmed more than the lease duration and `tolerance` ago, and its work has not
    /// ended. A candidate always passes.
    pub fn check(&self, tolerance: Duration) -> Result<(), RenewalOverdue> {
        let Some(leadership) = self.leadership() else { return Ok(()) };
        let confirmed = leadership.deadline().monotonic.saturating_sub(self.renew_deadline);
        // By the clock that stands still while the machine is suspended, when nothing could be confirmed.
        let age = self.clocks.now().monotonic.saturating_sub(confirmed);
        match age > self.lease_duration.saturating_add(tolerance) {
            true => Err(RenewalOverdue { lock: self.lock.clone(), age }),
            false => Ok(()),
        }
    }
}

/// A term was not confirmed for too long, and its work still runs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("leader election by {lock}: still leading {age:?} after the last renewal")]
pub struct RenewalOverdue {
    /// The lock.
    pub lock: ObjectKey,
    /// The time since the term was last confirmed.
    pub age: Duration,
}
