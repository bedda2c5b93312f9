//! What can be configured of an elector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{InvalidSelector, ObjectKey};
use pintle_metrics::Provider;
use pintle_ratelimit::BackoffConfig;
use thiserror::Error;

use crate::{Clocks, LeaderEvent, SystemClocks};

/// How far a candidate's pause may grow beyond the retry period, as a share of it.
pub(crate) const JITTER_FACTOR: f64 = 1.2;

/// How an elector contends: the `LeaderElectionConfig` of client-go, with the defaults of the core components.
///
/// A candidate takes over once it has seen the record unchanged for the `lease_duration` that the record states. A leader's
/// work ends `renew_deadline` after the sending of the last renewal that was stored. The difference of the two, 5 s by
/// default, is the margin for clocks of different rates.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{InvalidConfig, LeaderElectionConfig};
/// use std::time::Duration;
///
/// let mut config = LeaderElectionConfig::default();
/// assert_eq!(config.validate(), Ok(()));
/// config.renew_deadline = Duration::from_secs(15);
/// assert!(matches!(config.validate(), Err(InvalidConfig::LeaseNotAboveRenew { .. })));
/// ```
#[derive(Clone)]
pub struct LeaderElectionConfig {
    /// The name of this contender. It has to be unique for each start of each process: two contenders of one name both lead.
    pub identity: String,
    /// For how long a candidate has to see no change before it takes over. Published in whole seconds, rounded up.
    pub lease_duration: Duration,
    /// How long a term outlives the sending of its last stored renewal. Renewals count once a second at most, so it is to be longer than
    /// a second and a `retry_period`.
    pub renew_deadline: Duration,
    /// The pause between renewals, and the least pause between a candidate's tries.
    pub retry_period: Duration,
    /// Whether the lock is released when the work has ended, so that a successor need not wait. True by default, which is safe
    /// here since the lock is never released while the work runs. What is given up for [another one](crate::EndReason::Preferred) is
    /// released in any case.
    pub release_on_cancel: bool,
    /// Whether a record with this identity that this elector did not write counts as its own. False by default: the record
    /// may belong to a process that still runs. If true, a restart with a fixed identity need not wait; nor does it wait for what another
    /// elector of this process has permitted.
    pub reuse_identity: bool,
    /// Whether a candidate that finds a lock deleted which it has seen, or another one in its place, waits for a lease duration from
    /// then on. True by default: its holder may not have noticed yet, and works until `renew_deadline` after the sending of its last
    /// renewal, which came before the deletion. One that never saw the lock does not wait, nor does one that led by it to its end.
    pub wait_after_deletion: bool,
    /// Whether the control plane says who leads, to which each contender is a [`Candidate`](crate::Candidate) of
    /// this `identity`. False by default. If true, the elector neither creates the lock nor takes it from anyone: it leads once
    /// the lock names it. When the lock says that another one is preferred, the term is not renewed any more, its work is asked to end,
    /// and then the lock is given up. The control plane counts from the time of day at which a renewal says that it was sent, so the times
    /// of day have to agree, with its own, to less than `lease_duration` less `renew_deadline`, or two may lead.
    pub coordinated: bool,
    /// The seed of the jitter; none for a random one.
    pub seed: Option<u64>,
    /// Who is told how the election goes, from the making of the elector until it is dropped. None: nobody. Each metric has the
    /// label `name`, which is that of the lock:
    ///
    /// | name | kind | says |
    /// |---|---|---|
    /// | `leader_election_master_status` | gauge | whether this elector leads |
    /// | `leader_election_slowpath_total` | counter | renewals that had to read the lock first |
    /// | `leader_election_terms_total` | counter | terms that began; not in client-go, as all below |
    /// | `leader_election_term_ends_total` | counter | terms that ended, by the label `reason` too: a [`EndReason`](crate::EndReason) |
    /// | `leader_election_validity_seconds` | gauge | how long the term lasts without another renewal; 0 without one |
    /// | `leader_election_renewals_total` | counter | renewals that moved a deadline |
    /// | `leader_election_renewal_duration_seconds` | histogram | how long these took, from their sending |
    /// | `leader_election_malformed_records_total` | counter | answers about the lock that could not be read; logged once in a row |
    pub metrics: Option<Arc<dyn Provider>>,
    /// Is called at each term's beginning and end, so that it can record an Event about the lock: client-go's `RecordEvent`.
    pub events: Option<EventHook>,
    /// Where the time is read and waited for.
    pub clocks: Arc<dyn Clocks>,
}

/// Called with what is worth an Event.
pub(crate) type EventHook = Arc<dyn Fn(&LeaderEvent) + Send + Sync>;

/// Where the electors of a lock report: client-go's locks have their recorder in the same way.
///
/// An elector uses what its [`LeaderElectionConfig`] names, and the observers of its [`Lock`](crate::Lock) for what that leaves at `None`.
#[derive(Clone, Default)]
pub struct Observers {
    /// As [`LeaderElectionConfig::metrics`].
    pub metrics: Option<Arc<dyn Provider>>,
    /// As [`LeaderElectionConfig::events`].
    pub events: Option<EventHook>,
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers")
            .field("metrics", &self.metrics.is_some())
            .field("events", &self.events.is_some())
            .finish()
    }
}

impl Default for LeaderElectionConfig {
    /// A contender with [an identity of its own](unique_identity) and the default durations: 15 s, 10 s and 2 s.
    fn default() -> Self {
        Self {
            identity: unique_identity(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_cancel: true,
            reuse_identity: false,
            wait_after_deletion: true,
            coordinated: false,
            seed: None,
            metrics: None,
            events: None,
            clocks: Arc::new(SystemClocks::new()),
        }
    }
}

impl fmt::Debug for LeaderElectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElectionConfig")
            .field("identity", &self.identity)
            .field("lease_duration", &self.lease_duration)
            .field("renew_deadline", &self.renew_deadline)
            .field("retry_period", &self.retry_period)
            .field("release_on_cancel", &self.release_on_cancel)
            .field("reuse_identity", &self.reuse_identity)
            .field("wait_after_deletion", &self.wait_after_deletion)
            .field("coordinated", &self.coordinated)
            .finish_non_exhaustive()
    }
}

impl LeaderElectionConfig {
    /// Checks the rules that [`InvalidConfig`] lists.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        if lease <= renew {
            return Err(InvalidConfig::LeaseNotAboveRenew { lease, renew });
        }
        if renew.as_secs_f64() <= JITTER_FACTOR * retry.as_secs_f64() {
            return Err(InvalidConfig::RenewNotAboveRetry { renew, retry });
        }
        if retry.is_zero() {
            return Err(InvalidConfig::ZeroRetry);
        }
        if lease < Duration::from_secs(1) {
            return Err(InvalidConfig::LeaseBelowOneSecond { lease });
        }
        if self.published_seconds().is_none() {
            return Err(InvalidConfig::LeaseTooLong { lease });
        }
        if self.identity.is_empty() {
            return Err(InvalidConfig::NoIdentity);
        }
        Ok(())
    }

    /// What is allowed but rarely wanted: a sentence for a log each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        if renew.saturating_add(retry) >= lease {
            warnings.push(format!(
                "renew deadline {renew:?} and retry period {retry:?} leave nothing of the lease duration {lease:?} for \
                 clocks of different rates and for work that is slow to end"
            ));
        }
        if retry < Duration::from_secs(1) {
            warnings.push(format!(
                "retry period {retry:?}: candidates of client-go cannot tell renewals within one second apart, so only \
                 one a second counts"
            ));
        }
        if renew <= retry.saturating_add(Duration::from_secs(1)) {
            warnings.push(format!(
                "renew deadline {renew:?}: only one renewal a second counts, so a term may be over before the next one does"
            ));
        }
        warnings
    }

    /// The lease duration as it is published.
    pub(crate) fn published_seconds(&self) -> Option<i32> {
        let whole = self.lease_duration.as_secs().saturating_add(u64::from(self.lease_duration.subsec_nanos() > 0));
        i32::try_from(whole).ok()
    }

    /// The pauses between a candidate's tries: all alike but for jitter.
    pub(crate) fn retries(&self) -> BackoffConfig {
        let retry = self.retry_period;
        BackoffConfig {
            base: retry,
            factor: 1.0,
            cap: retry,
            jitter: JITTER_FACTOR,
            // Whoever waits for longer than that finds a dead leader late.
            longest_retry_after: self.lease_duration,
            ..BackoffConfig::default()
        }
    }

    /// The pauses between failing watches of the lock.
    pub(crate) fn watch_retries(&self) -> BackoffConfig {
        BackoffConfig { factor: 2.0, cap: self.retry_period.saturating_mul(16), ..self.retries() }
    }

    /// The seed, or a random one.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..))
    }

    /// How long one request may take, so that a hung one never costs the term.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.renew_deadline / 3
    }
}

/// A name that no other start of any process has: the host's name, which in a pod is the pod's, and a random number.
pub fn unique_identity() -> String {
    let told = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().and_then(told);
    let host = host.or_else(|| std::env::var("HOSTNAME").ok().and_then(told));
    format!("{}_{:032x}", host.as_deref().unwrap_or("unknown"), fastrand::u128(..))
}

/// Which rule a [`LeaderElectionConfig`] breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// A candidate could take over before the leader gives up.
    #[error("lease_duration {lease:?} must be greater than renew_deadline {renew:?}")]
    LeaseNotAboveRenew {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// Not even one retry would fit.
    #[error("renew_deadline {renew:?} must be greater than {JITTER_FACTOR} times retry_period {retry:?}")]
    RenewNotAboveRetry {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// It would try without a pause.
    #[error("retry_period must be greater than zero")]
    ZeroRetry,
    /// Leases are published in whole seconds.
    #[error("lease_duration {lease:?} must be at least one second")]
    LeaseBelowOneSecond {
        /// The lease duration.
        lease: Duration,
    },
    /// It does not fit the field.
    #[error("lease_duration {lease:?} exceeds the 2147483647 s that a Lease can state")]
    LeaseTooLong {
        /// The lease duration.
        lease: Duration,
    },
    /// A vacant lock has an empty holder.
    #[error("identity must not be empty")]
    NoIdentity,
    /// A control plane writes Leases, and an annotation has no room for its wishes.
    #[error(
        "coordinated needs a lock that is a Lease alone; {kind} {key} is none: use leases, or set coordinated to false"
    )]
    CoordinatedWithoutLease {
        /// The kind of the object that holds the lock.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
    /// The control plane chooses one holder, so it would give all shards to one replica.
    #[error("shards cannot be coordinated: each replica takes its share itself; set coordinated to false")]
    CoordinatedShards,
    /// The [labels](crate::LeaseGroupConfig::labels) of many electors cannot be those of a lease.
    #[error("labels: {0}")]
    Labels(InvalidSelector),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lease: u64, renew: u64, retry: u64, expected: &str) {
        let millis = Duration::from_millis;
        let config = LeaderElectionConfig {
            identity: "me".into(),
            lease_duration: millis(lease),
            renew_deadline: millis(renew),
            retry_period: millis(retry),
            ..LeaderElectionConfig::default()
        };
        let told = config.validate().map_or_else(|error| error.to_string(), |()| String::new());
        assert!(
            told.starts_with(expected) && told.is_empty() == expected.is_empty(),
            "{lease} {renew} {retry}: {told}"
        );
    }

    #[test]
    fn each_rule_has_its_own_error() {
        check(15_000, 10_000, 2_000, "");
        check(10_000, 10_000, 2_000, "lease_duration 10s must be greater than renew_deadline 10s");
        check(15_000, 2_400, 2_000, "renew_deadline 2.4s must be greater than 1.2 times retry_period 2s");
        check(15_000, 2_401, 2_000, "");
        check(15_000, 10_000, 0, "retry_period must be greater than zero");
        check(0, 0, 0, "lease_duration 0ns must be greater");
        check(900, 500, 100, "lease_duration 900ms must be at least one second");
        check(3_000_000_000_000, 10_000, 2_000, "lease_duration 3000000000s exceeds");
        assert_eq!(
            LeaderElectionConfig { identity: "".into(), ..LeaderElectionConfig::default() }.validate(),
            Err(InvalidConfig::NoIdentity)
        );
    }

    #[test]
    fn an_identity_is_never_made_twice() {
        let (one, other) = (unique_identity(), unique_identity());
        assert_ne!(one, other);
        assert!(!one.starts_with('_') && !one.contains('\n'), "{one:?}");
    }

    #[test]
    fn the_published_duration_is_never_shorter_than_the_guarded_one() {
        let mut config = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
        let second = Duration::from_secs(1);
        for (lease, published) in [
            (15 * second, Some(15)),
            (15 * second + Duration::from_nanos(1), Some(16)),
            (16 * second - Duration::from_nanos(1), Some(16)),
            (i32::MAX as u32 * second, Some(i32::MAX)),
            (i32::MAX as u32 * second + Duration::from_nanos(1), None),
            (Duration::MAX, None),
        ] {
            config.lease_duration = lease;
            assert_eq!(config.published_seconds(), published, "{lease:?}");
        }
    }

    #[test]
    fn what_is_seldom_meant_is_warned_about() {
        let seconds = Duration::from_secs;
        assert!(
            LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() }.warnings().is_empty()
        );
        let tight = LeaderElectionConfig {
            identity: "me".into(),
            lease_duration: seconds(11),
            renew_deadline: seconds(10),
            retry_period: Duration::from_millis(900),
            ..LeaderElectionConfig::default()
        };
        assert_eq!(tight.warnings().len(), 1);
        let for_ever = LeaderElectionConfig { renew_deadline: Duration::MAX, ..tight.clone() };
        assert_eq!(for_ever.warnings().len(), 2, "it is no valid one, and can be asked");
        let (lease_duration, renew_deadline) = (seconds(10), Duration::from_millis(9_500));
        let retry_period = Duration::from_millis(500);
        let tight = LeaderElectionConfig { lease_duration, renew_deadline, retry_period, ..tight };
        assert_eq!(tight.warnings().len(), 2);
        let (lease_duration, renew_deadline) = (seconds(3), seconds(1));
        let brief = LeaderElectionConfig { lease_duration, renew_deadline, ..tight };
        assert!(brief.warnings()[1].starts_with("renew deadline 1s"), "{:?}", brief.warnings());
        // The next renewal that counts may come at the very end.
        let renew_deadline = Duration::from_millis(1_500);
        let brief = LeaderElectionConfig { renew_deadline, ..brief };
        assert!(brief.warnings()[1].starts_with("renew deadline 1.5s"), "{:?}", brief.warnings());
    }
}
