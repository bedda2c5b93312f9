//! Candidates of coordinated elections.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{
    ApiError, ListWatch, MicroTime, ObjectApi, ObjectKey, ObjectMeta, TypeMeta, WatchEvent, WriteOptions,
};
use pintle_ratelimit::{Backoff, BackoffConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clocks::{Clocks, Deadline, SystemClocks};
use crate::record::TimePrecision;
use crate::watching::{Events, WatchMessage, follow, watch_one};

/// The built-in strategy of Kubernetes. The control plane chooses the candidate with the lowest emulation version. If
/// several candidates have the same emulation version, the control plane chooses the lowest binary version, and then
/// the oldest candidate. During an upgrade, the replicas therefore keep the old behavior until all of them support the
/// new behavior.
pub const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

/// A `LeaseCandidate` in the API version `coordination.k8s.io/v1beta1`. The API version `v1alpha2` has the same fields.
/// The name of this object is the identity of the contender. The object must be in the namespace of the Lease.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct LeaseCandidate {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The contender's Lease, versions and strategy.
    #[serde(default)]
    pub spec: LeaseCandidateSpec,
}

pintle_meta::resource!(LeaseCandidate, "coordination.k8s.io/v1beta1", "LeaseCandidate", "leasecandidates", Namespaced);

/// The description of a contender for a coordinated election.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseCandidateSpec {
    /// The name of the Lease. The name never changes.
    pub lease_name: String,
    /// The time when the control plane last pinged the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_time: Option<MicroTime>,
    /// The time when the candidate last renewed this object or answered a ping. The candidate expires half an hour
    /// after this time.
    pub renew_time: Option<MicroTime>,
    /// The version of the contender's program, without a leading `v`, such as `1.36.0`.
    pub binary_version: String,
    /// The version whose behavior the contender's program emulates. The emulation version must not be higher than the
    /// binary version. [`OLDEST_EMULATION_VERSION`] requires it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emulation_version: String,
    /// The strategy that chooses the holder. The strategy is [`OLDEST_EMULATION_VERSION`], or a name such as
    /// `domain/name` that a third-party controller supports.
    pub strategy: String,
    /// The fields of `spec` that this type does not declare. Writes keep them.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl LeaseCandidateSpec {
    /// Creates the description of a contender for the Lease named `lease_name`. The contender uses `version` as both
    /// its binary version and its emulation version. The strategy is [`OLDEST_EMULATION_VERSION`].
    pub fn new(lease_name: &str, version: &str) -> Self {
        Self {
            lease_name: lease_name.into(),
            binary_version: version.into(),
            emulation_version: version.into(),
            strategy: OLDEST_EMULATION_VERSION.into(),
            ..Self::default()
        }
    }

    /// Returns whether the control plane is waiting for the answer to a ping.
    fn is_pinged(&self) -> bool {
        self.ping_time.is_some_and(|pinged| self.renew_time.is_none_or(|renewed| renewed.0 < pinged.0))
    }
}

/// Takes part in a coordinated election (KEP-4355) as a candidate. The candidate publishes a [`LeaseCandidate`], renews
/// it, and answers pings from the control plane. This type corresponds to client-go's `leaderelection.LeaseCandidate`,
/// which `NewCandidate` creates.
///
/// Run the candidate together with a [coordinated](crate::LeaderElectionConfig::coordinated) elector. The candidate and
/// the elector must have the same identity. The server must enable the feature gate `CoordinatedLeaderElection`.
/// Kubernetes supports the API version `v1alpha2` since 1.32, and `v1beta1` since 1.33. The candidate writes the object
/// in the API version of the field `api`. The clocks of all contenders and of the control plane may differ by at most a
/// few seconds: see [`coordinated`](crate::LeaderElectionConfig::coordinated).
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{
///     Candidate, InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease, LeaseCandidate,
///     LeaseCandidateSpec, LeaseLock,
/// };
/// use pintle_meta::{ListWatch, ObjectApi};
/// use tokio_util::sync::CancellationToken;
///
/// async fn contend<L, C>(leases: L, candidates: C, stop: &CancellationToken) -> Result<(), InvalidConfig>
/// where
///     L: ObjectApi<Lease> + ListWatch<Object = Lease>,
///     C: ObjectApi<LeaseCandidate> + ListWatch<Object = LeaseCandidate>,
/// {
///     let config = LeaderElectionConfig { coordinated: true, ..LeaderElectionConfig::default() };
///     let spec = LeaseCandidateSpec::new("website-controller", env!("CARGO_PKG_VERSION"));
///     let candidate = Candidate::new(candidates, "kube-system", &config.identity, spec);
///     let mut elector = LeaderElector::new(LeaseLock::new(leases, "kube-system", "website-controller"), config)?;
///     let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
///     tokio::join!(candidate.run(stop), elector.run(stop, work));
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Candidate<A> {
    /// The `Api` that the candidate uses to read, write and watch its object.
    pub api: A,
    /// The key of the object. The candidate creates this object if it does not exist, and creates it again after it is
    /// deleted.
    pub key: ObjectKey,
    /// The published description. The candidate ignores `ping_time` and `renew_time` in this field.
    pub spec: LeaseCandidateSpec,
    /// The clocks.
    pub clocks: Arc<dyn Clocks>,
}

/// The interval between renewals if the control plane sends no ping. This interval corresponds to client-go's
/// `requeueInterval`.
const RENEWAL: Duration = Duration::from_secs(5 * 60);

/// The interval at which the candidate reads its object to find pings, if there is no watch. The control plane waits 5
/// s for an answer to a ping.
const POLL: Duration = Duration::from_secs(2);

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(5);

impl<A: ObjectApi<LeaseCandidate> + ListWatch<Object = LeaseCandidate>> Candidate<A> {
    /// Creates the candidate `identity` for a Lease in the namespace `namespace`. The candidate does nothing until
    /// [`run`](Self::run) is called.
    pub fn new(api: A, namespace: &str, identity: &str, spec: LeaseCandidateSpec) -> Self {
        Self { api, key: ObjectKey::new(namespace, identity), spec, clocks: Arc::new(SystemClocks::new()) }
    }

    /// Runs the candidate until `stop` is cancelled. The candidate does not delete its object when it stops. The object
    /// expires half an hour after its last renewal. The candidate logs failed requests and retries them with growing
    /// pauses.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as a cancellation of `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.participate() => {}
        }
    }

    async fn participate(&self) {
        let retries = BackoffConfig { base: Duration::from_millis(250), cap: POLL * 8, ..BackoffConfig::default() };
        let mut pauses = Backoff::new(retries, fastrand::u64(..));
        let (to_us, mut messages) = mpsc::channel(8);
        let watches = Backoff::new(retries, fastrand::u64(..));
        let mut following = pin!(async {
            follow(&self.key, || self.watch(), self.clocks.clone(), watches, to_us).await;
            pending().await
        });
        let (mut watched, mut failing) = (false, false);
        let (mut look_at, mut renew_at) = (Duration::ZERO, Duration::ZERO);
        loop {
            let now = self.clocks.now().monotonic;
            if now >= look_at {
                match self.patiently(self.look(now >= renew_at)).await {
                    Ok(renewed) => {
                        if renewed {
                            renew_at = now + RENEWAL;
                        }
                        look_at = if watched { renew_at } else { renew_at.min(now + POLL) };
                        failing = false;
                        pauses.reset();
                    }
                    Err(error) => {
                        if std::mem::replace(&mut failing, true) {
                            tracing::debug!(candidate = %self.key, %error, "still cannot renew the candidate")
                        } else {
                            tracing::warn!(candidate = %self.key, %error, "cannot renew the candidate")
                        }
                        look_at = now + pauses.next(error.retry_after);
                    }
                }
            }
            tokio::select! {
                biased;
                Some(message) = messages.recv() => match message {
                    WatchMessage::Up => watched = true,
                    WatchMessage::Down => {
                        watched = false;
                        look_at = look_at.min(self.clocks.now().monotonic + POLL);
                    }
                    // While requests fail, do not shorten the pause, because the server may have requested it.
                    WatchMessage::Event(()) if !failing => look_at = Duration::ZERO,
                    WatchMessage::Event(()) => {}
                },
                () = &mut following => {}
                () = self.clocks.sleep_until(Deadline::monotonic(look_at)) => {}
            }
        }
    }

    /// Reads the object. Writes the object if it does not exist, if the control plane has pinged it, or if `due` is
    /// set. Returns whether the object was written.
    async fn look(&self, due: bool) -> Result<bool, ApiError> {
        let found = match self.api.get(&self.key).await {
            Ok(found) => Some(found),
            Err(error) if error.is_object_not_found() => None,
            Err(error) => return Err(error),
        };
        let options = WriteOptions::default();
        match found {
            None => self.api.create(&self.renewed(None), &options).await.map(|_| true),
            Some(found) if due || found.spec.is_pinged() => {
                self.api.update(&self.renewed(Some(found)), &options).await.map(|_| true)
            }
            Some(_) => Ok(false),
        }
    }

    /// Returns the object to write, if a write is needed now.
    fn renewed(&self, found: Option<LeaseCandidate>) -> LeaseCandidate {
        let kind = self.api.api_resource();
        let found = found.unwrap_or_else(|| LeaseCandidate {
            metadata: ObjectMeta::new(self.key.namespace().unwrap_or_default(), self.key.name()),
            ..LeaseCandidate::default()
        });
        let LeaseCandidateSpec { ping_time, other, .. } = found.spec;
        // The time of the answer must be later than the time of the ping. The clocks of the candidate and the control
        // plane may differ.
        let answer = ping_time.and_then(|pinged| pinged.0.checked_add(TimePrecision::Micros.step()).ok());
        let wall = self.clocks.now().wall;
        let renew_time = Some(TimePrecision::Micros.cut(answer.map_or(wall, |answer| answer.max(wall))));
        LeaseCandidate {
            types: TypeMeta { api_version: kind.group_version.to_string(), kind: kind.kind },
            metadata: found.metadata,
            spec: LeaseCandidateSpec { ping_time, renew_time, other, ..self.spec.clone() },
        }
    }

    /// Cancels a request that exceeds its timeout. The next attempt may use another connection.
    async fn patiently<T>(&self, request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let late = Deadline::monotonic(self.clocks.now().monotonic + PATIENCE);
        tokio::select! {
            biased;
            answer = request => answer,
            () = self.clocks.sleep_until(late) => Err(ApiError::timeout("no response before the timeout")),
        }
    }

    /// Watches the object to detect pings and its deletion.
    async fn watch(&self) -> Result<Option<Events<()>>, ApiError> {
        let pings = |event: WatchEvent<LeaseCandidate>| match event {
            WatchEvent::Added(candidate) | WatchEvent::Modified(candidate) => candidate.spec.is_pinged().then_some(()),
            event => matches!(event, WatchEvent::Deleted(_)).then_some(()),
        };
        watch_one(&self.api, &self.key, pings).await.map(Some)
    }
}
