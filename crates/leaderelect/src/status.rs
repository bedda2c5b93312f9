//! The state of an elector that other code can observe.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use thiserror::Error;
use tokio::sync::watch;

use crate::clocks::Clocks;
use crate::config::LeaderElectionConfig;
use crate::leadership::Leadership;

/// The state of an election, for use in health checks, logs and status pages.
///
/// The status is only for information. Do not use the status to decide whether to work. Instead, work must check its
/// [`Leadership`].
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
    /// The leadership term whose work still runs or may still run.
    pub(crate) term: Option<Leadership>,
    /// The reads that have failed since the last successful read, if there are any.
    pub(crate) read_outage: Option<Outage>,
    /// The writes that have failed since the last successful write, if there are any. A change of the lock clears this
    /// field.
    pub(crate) write_outage: Option<Outage>,
    /// The failures of lists of the [`Shards`](crate::Shards)' leases since the last successful list, if there are any.
    /// This field is set only in the status of the membership lease.
    pub(crate) list_outage: Option<Outage>,
}

#[derive(Clone, Debug)]
pub(crate) struct Outage {
    /// The time of the first failure, on the monotonic clock.
    pub(crate) since: Duration,
    /// The last error.
    pub(crate) error: String,
}

impl Outage {
    /// Adds a failure. Returns whether it is the first failure.
    pub(crate) fn add(outage: &mut Option<Self>, now: Duration, error: String) -> bool {
        let is_first = outage.is_none();
        outage.get_or_insert_with(|| Self { since: now, error: String::new() }).error = error;
        is_first
    }
}

impl ElectionStatus {
    pub(crate) fn new(lock: ObjectKey, config: &LeaderElectionConfig, observed: watch::Receiver<Observed>) -> Self {
        let (lease_duration, renew_deadline) = (config.lease_duration, config.renew_deadline);
        Self { lock, lease_duration, renew_deadline, clocks: config.clocks.clone(), observed }
    }

    /// Returns the namespace and the name of the lock's object.
    pub fn lock(&self) -> &ObjectKey {
        &self.lock
    }

    /// Returns the last observed holder. The holder is an empty string if the lock is free, and `None` before the first
    /// read.
    pub fn leader(&self) -> Option<String> {
        self.observed.borrow().leader.clone()
    }

    /// Returns whether this elector leads and the deadline of its leadership term has not passed.
    pub fn is_leader(&self) -> bool {
        self.leadership().is_some_and(|leadership| leadership.check().is_ok())
    }

    /// Returns the leadership term whose work this elector runs. This leadership term may already be over. `None` if no
    /// work runs.
    pub fn leadership(&self) -> Option<Leadership> {
        self.observed.borrow().term.clone()
    }

    /// Returns the last error of the requests for the lock. Returns `None` if the last read and the last write have
    /// succeeded, or if another contender has changed the lock after a failed write.
    pub fn last_error(&self) -> Option<String> {
        self.outage().map(|outage| outage.error)
    }

    /// Returns an error if this elector could not read or write the lock for longer than the lease duration. Until a
    /// request succeeds, the elector cannot lead. Use this method for a readiness probe.
    ///
    /// # Errors
    ///
    /// [`LockUnavailable`], for example if the server forbids the requests.
    pub fn check_lock(&self) -> Result<(), LockUnavailable> {
        let Some(Outage { since, error }) = self.outage() else { return Ok(()) };
        let age = self.clocks.now().monotonic.saturating_sub(since);
        if age > self.lease_duration { Err(LockUnavailable { lock: self.lock.clone(), age, error }) } else { Ok(()) }
    }

    /// Returns the outage that began first.
    fn outage(&self) -> Option<Outage> {
        let observed = self.observed.borrow();
        let outages = [&observed.read_outage, &observed.write_outage, &observed.list_outage];
        outages.into_iter().flatten().min_by_key(|one| one.since).cloned()
    }

    /// Waits until this status changes. Returns `false` if the elector was dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not lose any changes.
    pub async fn changed(&mut self) -> bool {
        self.observed.changed().await.is_ok()
    }

    /// Returns an error if the elector hangs while it leads. Use this method for a liveness probe.
    ///
    /// # Errors
    ///
    /// [`RenewalOverdue`] if the work of a term has not ended, and the last confirmed renewal is older than the lease
    /// duration plus `tolerance`. While the elector is a candidate, the check always succeeds.
    pub fn check(&self, tolerance: Duration) -> Result<(), RenewalOverdue> {
        let Some(leadership) = self.leadership() else { return Ok(()) };
        let confirmed = leadership.deadline().monotonic.saturating_sub(self.renew_deadline);
        // Use the monotonic clock. While the machine is suspended, no renewal is possible and this clock stops.
        let age = self.clocks.now().monotonic.saturating_sub(confirmed);
        if age > self.lease_duration.saturating_add(tolerance) {
            Err(RenewalOverdue { lock: self.lock.clone(), age })
        } else {
            Ok(())
        }
    }
}

/// The error of [`ElectionStatus::check`]. The error means that the work of a leadership term still runs although the
/// last renewal is too old.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("leader election by {lock}: still leading {age:?} after the last renewal")]
pub struct RenewalOverdue {
    /// The lock.
    pub lock: ObjectKey,
    /// The time since the last confirmed renewal.
    pub age: Duration,
}

/// The error of [`ElectionStatus::check_lock`]. The error means that this elector cannot use the lock.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("leader election by {lock}: cannot read or write the lock for {} s: {error}", age.as_secs())]
pub struct LockUnavailable {
    /// The lock.
    pub lock: ObjectKey,
    /// The time since the first failure.
    pub age: Duration,
    /// The last error.
    pub error: String,
}
