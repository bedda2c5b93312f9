//! Elector configuration.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{InvalidSelector, ObjectKey};
use pintle_metrics::Provider;
use pintle_ratelimit::BackoffConfig;
use thiserror::Error;

use crate::callbacks::LeaderEvent;
use crate::clocks::{Clocks, SystemClocks};

/// The maximum jitter of the pause between a candidate's attempts, as a multiple of the retry period.
pub(crate) const JITTER_FACTOR: f64 = 1.2;

/// Configures an elector, like client-go's `LeaderElectionConfig`. The default durations are the defaults of the
/// Kubernetes core components.
///
/// A candidate takes over if the record stays unchanged for the lease duration in the record. A leader's work ends
/// `renew_deadline` after the last successful renewal was sent. `lease_duration` exceeds `renew_deadline` (by 5 s with
/// the defaults), because clocks can run at different rates.
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
    /// This contender's identity. Each process needs a new identity every time it starts. Two contenders with the same
    /// identity can lead at the same time. The default is a [unique identity](unique_identity).
    pub identity: String,
    /// The time after which a candidate takes over the lock if the record has not changed. The lock stores this
    /// duration rounded up to whole seconds. The default is 15 s.
    pub lease_duration: Duration,
    /// The length of a term, measured from the moment when the last successful renewal was sent. A term is extended at
    /// most once per second, so `renew_deadline` should be longer than one second plus `retry_period`. The default is
    /// 10 s.
    pub renew_deadline: Duration,
    /// The pause between the renewals of a leader, and the minimum pause between the attempts of a candidate. The
    /// default is 2 s.
    pub retry_period: Duration,
    /// Whether the elector releases the lock after the leader's work has ended, to let another replica lead
    /// immediately. The default is `true`. The release is safe, because it happens only after the leader's work has
    /// ended. The lock is always released for a [preferred holder](crate::EndReason::Preferred), even if this field is
    /// `false`.
    pub release_on_cancel: bool,
    /// Whether the elector adopts every record with its own identity. The default is `false`, because another process
    /// that is still running may have written the record. If `true`, a process with a fixed identity can lead
    /// immediately after a restart, without waiting for its old record to expire. If `true`, an elector does not wait
    /// for permits of other electors in the same process.
    pub reuse_identity: bool,
    /// Whether a candidate waits for a lease duration after it has noticed that the lock was deleted, replaced or
    /// restored from a backup. The default is `true`. The wait is necessary, because the holder may not have noticed
    /// this, and can stay active for up to `renew_deadline` after its last renewal. A candidate that has never observed
    /// the lock does not wait. A former leader does not wait if it held the lock until the end of its term.
    pub wait_after_deletion: bool,
    /// Whether the control plane chooses the leader from the [`Candidate`](crate::Candidate)s. The default is `false`.
    /// The [`Candidate`](crate::Candidate) must have the same `identity` as this elector.
    ///
    /// If `true`, the elector never creates the lock or takes it from another holder. The elector leads once the
    /// control plane has set the elector's identity as the holder of the lock. If the lock names another preferred
    /// holder, the elector stops renewing, asks the leader's work to finish, and then releases the lock.
    ///
    /// The control plane compares the last renew time with its own wall clock to decide whether the lock has expired.
    /// In a coordinated election, the clocks of the candidates and the control plane must differ by less than
    /// `lease_duration` minus `renew_deadline`. With a larger difference, two contenders can lead at the same time.
    pub coordinated: bool,
    /// The seed for the jitter. `None`, the default, selects a random seed.
    pub seed: Option<u64>,
    /// The metrics provider. The elector keeps the metrics provider until the elector is dropped. `None`, the default,
    /// uses the metrics provider of the lock, if the lock has one. The label `name` of each metric is the name of the
    /// lock:
    ///
    /// | name | kind | value |
    /// |---|---|---|
    /// | `leader_election_master_status` | gauge | 1 while this elector leads, otherwise 0 |
    /// | `leader_election_slowpath_total` | counter | renewals that read the lock first |
    /// | `leader_election_terms_total` | counter | terms that began; this metric and those below are not in client-go |
    /// | `leader_election_term_ends_total` | counter | terms that ended, with an [`EndReason`](crate::EndReason) in the additional label `reason` |
    /// | `leader_election_validity_seconds` | gauge | time until the term ends if it is not renewed; 0 without a term |
    /// | `leader_election_renewals_total` | counter | renewals that extended a deadline |
    /// | `leader_election_renewal_duration_seconds` | histogram | time from sending a renewal that extended a deadline to its response |
    /// | `leader_election_malformed_records_total` | counter | responses with an unreadable record; of consecutive ones, only the first is logged |
    pub metrics: Option<Arc<dyn Provider>>,
    /// The event hook, which is called at the beginning and at the end of each term. For example, the hook can record
    /// an Event for the lock object, like client-go's `RecordEvent`. `None`, the default, uses the event hook of the
    /// lock, if the lock has one.
    pub events: Option<EventHook>,
    /// The clocks for deadlines and pauses. The default is [`SystemClocks`](crate::SystemClocks).
    pub clocks: Arc<dyn Clocks>,
}

pub(crate) type EventHook = Arc<dyn Fn(&LeaderEvent) + Send + Sync>;

/// The metrics provider and the event hook of a lock, like the event recorder of client-go's locks.
///
/// If the metrics provider or the event hook in [`LeaderElectionConfig`] is `None`, an elector uses the observer of its
/// [`Lock`](crate::Lock) instead.
#[derive(Clone, Default)]
pub struct Observers {
    /// The metrics provider: see [`LeaderElectionConfig::metrics`].
    pub metrics: Option<Arc<dyn Provider>>,
    /// The event hook: see [`LeaderElectionConfig::events`].
    pub events: Option<EventHook>,
}

pintle_meta::debug_struct!(Observers |self| { metrics = self.metrics.is_some(), events = self.events.is_some() });

impl Default for LeaderElectionConfig {
    /// Returns a configuration with a [unique identity](unique_identity) and the default durations: 15 s, 10 s and 2 s.
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

pintle_meta::debug_struct!(LeaderElectionConfig {
    identity,
    lease_duration,
    renew_deadline,
    retry_period,
    release_on_cancel,
    reuse_identity,
    wait_after_deletion,
    coordinated,
    ..
});

impl LeaderElectionConfig {
    /// Checks the rules in [`InvalidConfig`] that apply to every lock.
    ///
    /// # Errors
    ///
    /// Returns the first violated rule.
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

    /// Returns a warning for each valid value that is probably a mistake.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        if renew.saturating_add(retry) >= lease {
            warnings.push(format!(
                "renew deadline {renew:?} and retry period {retry:?} leave no margin in the lease duration {lease:?} for \
                 clocks of different rates and for work that ends slowly"
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
                "renew deadline {renew:?}: only one renewal a second extends a term, so a term may end before the next such renewal"
            ));
        }
        warnings
    }

    /// Returns the lease duration in whole seconds, which is the value that the lock stores.
    pub(crate) fn published_seconds(&self) -> Option<i32> {
        let whole = self.lease_duration.as_secs().saturating_add(u64::from(self.lease_duration.subsec_nanos() > 0));
        i32::try_from(whole).ok()
    }

    /// Returns the pause between a candidate's attempts, which is the retry period plus jitter.
    pub(crate) fn retries(&self) -> BackoffConfig {
        let retry = self.retry_period;
        BackoffConfig {
            base: retry,
            factor: 1.0,
            cap: retry,
            jitter: JITTER_FACTOR,
            // After a longer pause, a candidate would detect a dead leader too late.
            longest_retry_after: self.lease_duration,
            ..BackoffConfig::default()
        }
    }

    pub(crate) fn watch_retries(&self) -> BackoffConfig {
        BackoffConfig { factor: 2.0, cap: self.retry_period.saturating_mul(16), ..self.retries() }
    }

    /// Returns the configured seed, or a random seed.
    #[doc(hidden)]
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..))
    }

    /// Returns the request timeout. With this timeout, a term survives one request that gets no response.
    #[doc(hidden)]
    pub fn request_timeout(&self) -> Duration {
        self.renew_deadline / 3
    }
}

/// Returns a new identity that consists of the host name and a random number. In a pod, the host name is the name of
/// the pod.
pub fn unique_identity() -> String {
    let non_empty = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().and_then(non_empty);
    let host = host.or_else(|| std::env::var("HOSTNAME").ok().and_then(non_empty));
    format!("{}_{:032x}", host.as_deref().unwrap_or("unknown"), fastrand::u128(..))
}

/// A rule that a [`LeaderElectionConfig`] violates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// The lease duration must be longer than the renew deadline. With a shorter lease duration, a candidate could take
    /// over while the leader's work is still running.
    #[error("lease_duration {lease:?} must be greater than renew_deadline {renew:?}")]
    LeaseNotAboveRenew {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// The renew deadline must leave time for a retry after a failed renewal.
    #[error("renew_deadline {renew:?} must be greater than {JITTER_FACTOR} times retry_period {retry:?}")]
    RenewNotAboveRetry {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// The retry period must not be zero, because there would be no pause between retries.
    #[error("retry_period must be greater than zero")]
    ZeroRetry,
    /// The lease duration must be at least one second, because a Lease stores whole seconds.
    #[error("lease_duration {lease:?} must be at least one second")]
    LeaseBelowOneSecond {
        /// The lease duration.
        lease: Duration,
    },
    /// The lease duration must fit into the Lease's integer field.
    #[error("lease_duration {lease:?} exceeds the 2147483647 s that a Lease can state")]
    LeaseTooLong {
        /// The lease duration.
        lease: Duration,
    },
    /// The identity must not be empty, because an empty holder means that the lock is free.
    #[error("identity must not be empty")]
    NoIdentity,
    /// A coordinated election requires a Lease, because the control plane assigns leadership by writing Leases.
    #[error(
        "coordinated requires a Lease as the lock, but {kind} {key} is not one: use leases, or set coordinated to false"
    )]
    CoordinatedWithoutLease {
        /// The kind of object that stores the lock.
        kind: String,
        /// The key of the object that stores the lock.
        key: ObjectKey,
    },
    /// Shards cannot be coordinated, because the control plane would choose one holder for all shards.
    #[error("shards cannot be coordinated, because each replica claims its own share: set coordinated to false")]
    CoordinatedShards,
    /// The [labels](crate::LeaseGroupConfig::labels) of a [`LeaseGroup`](crate::LeaseGroup) must be valid Kubernetes
    /// labels.
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
        let error = config.validate().map_or_else(|error| error.to_string(), |()| String::new());
        assert!(
            error.starts_with(expected) && error.is_empty() == expected.is_empty(),
            "{lease} {renew} {retry}: {error}"
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
    fn unique_identity_differs_on_each_call() {
        let (one, other) = (unique_identity(), unique_identity());
        assert_ne!(one, other);
        assert!(!one.starts_with('_') && !one.contains('\n'), "{one:?}");
    }

    #[test]
    fn published_duration_is_rounded_up() {
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
    fn unusual_durations_produce_warnings() {
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
        assert_eq!(for_ever.warnings().len(), 2, "an invalid configuration also has warnings");
        let (lease_duration, renew_deadline) = (seconds(10), Duration::from_millis(9_500));
        let retry_period = Duration::from_millis(500);
        let tight = LeaderElectionConfig { lease_duration, renew_deadline, retry_period, ..tight };
        assert_eq!(tight.warnings().len(), 2);
        let (lease_duration, renew_deadline) = (seconds(3), seconds(1));
        let brief = LeaderElectionConfig { lease_duration, renew_deadline, ..tight };
        assert!(brief.warnings()[1].starts_with("renew deadline 1s"), "{:?}", brief.warnings());
        // The next renewal that extends the term may be sent at the deadline itself.
        let renew_deadline = Duration::from_millis(1_500);
        let brief = LeaderElectionConfig { renew_deadline, ..brief };
        assert!(brief.warnings()[1].starts_with("renew deadline 1.5s"), "{:?}", brief.warnings());
    }
}
