//! The observable status of an elector, for health checks and logs.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use thiserror::Error;
use tokio::sync::watch;

use crate::clocks::Clocks;
use crate::config::LeaderElectionConfig;
use crate::leadership::Leadership;

/// The state of an election, for health checks, logs and status pages.
///
/// The status may be outdated, so do not use it to decide whether the leader's work may run. Use the [`Leadership`] to
/// decide whether to act as the leader.
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
    /// The term, as long as its work or callbacks may be running.
    pub(crate) term: Option<Leadership>,
    pub(crate) read_outage: Option<Outage>,
    /// The failed writes since the last successful write or the last change of the lock.
    pub(crate) write_outage: Option<Outage>,
    /// The failed list requests for the leases of `Shards` (in the crate `pintle-sharding`) since the last successful
    /// list. Only the status of the membership lease reports an outage of list requests.
    pub(crate) list_outage: Option<Outage>,
}

#[derive(Clone, Debug)]
pub(crate) struct Outage {
    /// The monotonic time of the first failure.
    pub(crate) since: Duration,
    pub(crate) error: String,
}

impl Outage {
    /// Adds a failure to an outage. Returns `true` if it is the first failure of the outage.
    pub(crate) fn add(outage: &mut Option<Self>, now: Duration, error: String) -> bool {
        let is_first = outage.is_none();
        outage.get_or_insert_with(|| Self { since: now, error: String::new() }).error = error;
        is_first
    }
}

/// Reports failed list requests for the leases of a fleet in the status of an elector.
#[derive(Debug)]
pub struct ListOutage(pub(crate) watch::Sender<Observed>);

impl ListOutage {
    /// Adds a failure. `now` is a time on the monotonic clock.
    pub fn add(&self, now: Duration, error: String) {
        self.0.send_if_modified(|observed| Outage::add(&mut observed.list_outage, now, error));
    }

    /// Clears all failures after a successful list.
    pub fn end(&self) {
        self.0.send_if_modified(|observed| observed.list_outage.take().is_some());
    }
}

impl ElectionStatus {
    pub(crate) fn new(lock: ObjectKey, config: &LeaderElectionConfig, observed: watch::Receiver<Observed>) -> Self {
        let (lease_duration, renew_deadline) = (config.lease_duration, config.renew_deadline);
        Self { lock, lease_duration, renew_deadline, clocks: config.clocks.clone(), observed }
    }

    /// Returns the key of the object that stores the lock.
    pub fn lock(&self) -> &ObjectKey {
        &self.lock
    }

    /// Returns the last observed holder. Returns an empty string if the lock is free, or `None` before the first read.
    pub fn leader(&self) -> Option<String> {
        self.observed.borrow().leader.clone()
    }

    /// Returns `true` if this elector leads and the deadline of its term has not passed.
    pub fn is_leader(&self) -> bool {
        self.leadership().is_some_and(|leadership| leadership.check().is_ok())
    }

    /// Returns the leadership whose work or callbacks this elector is running, even if the term is already over.
    /// Returns `None` if no work and no callback is running.
    pub fn leadership(&self) -> Option<Leadership> {
        self.observed.borrow().term.clone()
    }

    /// Returns the error of the last failed request for the lock. Returns `None` if the last read and the last write
    /// both succeeded, or if another contender changed the lock after a failed write.
    pub fn last_error(&self) -> Option<String> {
        self.outage().map(|outage| outage.error)
    }

    /// Returns an error if this elector cannot lead because it was unable to read or write the lock for longer than the
    /// lease duration. Use this check for a readiness probe.
    ///
    /// # Errors
    ///
    /// Returns [`LockUnavailable`], for example if the server forbids access to the lock.
    pub fn check_lock(&self) -> Result<(), LockUnavailable> {
        let Some(Outage { since, error }) = self.outage() else { return Ok(()) };
        let age = self.clocks.now().monotonic.saturating_sub(since);
        if age > self.lease_duration { Err(LockUnavailable { lock: self.lock.clone(), age, error }) } else { Ok(()) }
    }

    fn outage(&self) -> Option<Outage> {
        let observed = self.observed.borrow();
        let outages = [&observed.read_outage, &observed.write_outage, &observed.list_outage];
        outages.into_iter().flatten().min_by_key(|one| one.since).cloned()
    }

    /// Waits until the status changes. Returns `false` if the elector was dropped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no change is lost.
    pub async fn changed(&mut self) -> bool {
        self.observed.changed().await.is_ok()
    }

    /// Returns an error if the elector hangs while it is the leader. Use this check for a liveness probe.
    ///
    /// # Errors
    ///
    /// Returns [`RenewalOverdue`] if the last successful renewal is older than the lease duration plus `tolerance`, and
    /// the leader's work or a callback for the end of the term is still running. Renewals that are stored after the
    /// work has ended do not count. Always returns `Ok` if there is no term.
    pub fn check(&self, tolerance: Duration) -> Result<(), RenewalOverdue> {
        let Some(leadership) = self.leadership() else { return Ok(()) };
        let confirmed = leadership.deadline().monotonic.saturating_sub(self.renew_deadline);
        // Use the monotonic clock, which stops during a suspend, because a suspended machine cannot renew.
        let age = self.clocks.now().monotonic.saturating_sub(confirmed);
        if age > self.lease_duration.saturating_add(tolerance) {
            Err(RenewalOverdue { lock: self.lock.clone(), age })
        } else {
            Ok(())
        }
    }
}

/// The error of [`ElectionStatus::check`]: the leader's work or a callback is still running although the last renewal
/// is too old.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("leader election by {lock}: still leading {age:?} after the last renewal")]
pub struct RenewalOverdue {
    /// The key of the lock object.
    pub lock: ObjectKey,
    /// The time since the last successful renewal.
    pub age: Duration,
}

/// The error of [`ElectionStatus::check_lock`]: the elector is unable to read or write the lock.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("leader election by {lock}: cannot read or write the lock for {} s: {error}", age.as_secs())]
pub struct LockUnavailable {
    /// The key of the lock object.
    pub lock: ObjectKey,
    /// The time since the first failed request.
    pub age: Duration,
    /// The last error.
    pub error: String,
}
