//! Candidates for coordinated elections.

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

/// Kubernetes' built-in strategy. The strategy prefers the candidate with the lowest emulation version, then the lowest
/// binary version, and then the oldest candidate. During an upgrade, the replicas keep the old behavior until all
/// replicas support the new behavior.
pub const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

/// A `LeaseCandidate` of `coordination.k8s.io/v1beta1`. A `LeaseCandidate` of the API version `v1alpha2` has the same
/// fields. The name of the LeaseCandidate object is the candidate's identity. The LeaseCandidate must be in the same
/// namespace as the Lease.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct LeaseCandidate {
    /// The `apiVersion` and the `kind` of the object.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The name of the Lease, and the candidate's versions and strategy.
    #[serde(default)]
    pub spec: LeaseCandidateSpec,
}

pintle_meta::resource!(LeaseCandidate, "coordination.k8s.io/v1beta1", "LeaseCandidate", "leasecandidates", Namespaced);

/// Describes a candidate in a coordinated election.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseCandidateSpec {
    /// The name of the Lease, which is immutable.
    pub lease_name: String,
    /// The time of the last ping from the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_time: Option<MicroTime>,
    /// The time at which the candidate last renewed this object or responded to a ping. The candidate expires 30 minutes
    /// after this time.
    pub renew_time: Option<MicroTime>,
    /// The version of the program without a leading `v`, such as `1.36.0`.
    pub binary_version: String,
    /// The version whose behavior the program emulates, which must not exceed `binary_version`.
    /// [`OLDEST_EMULATION_VERSION`] requires this field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emulation_version: String,
    /// The strategy that selects the holder, which is [`OLDEST_EMULATION_VERSION`] or a strategy of a third-party
    /// controller, such as `domain/name`.
    pub strategy: String,
    /// The fields of `spec` that this type does not declare. Writes keep these fields.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl LeaseCandidateSpec {
    /// Creates a spec for the Lease `lease_name` with the strategy [`OLDEST_EMULATION_VERSION`], and with `version` as
    /// the binary and emulation version.
    pub fn new(lease_name: &str, version: &str) -> Self {
        Self {
            lease_name: lease_name.into(),
            binary_version: version.into(),
            emulation_version: version.into(),
            strategy: OLDEST_EMULATION_VERSION.into(),
            ..Self::default()
        }
    }

    fn is_pinged(&self) -> bool {
        self.ping_time.is_some_and(|pinged| self.renew_time.is_none_or(|renewed| renewed.0 < pinged.0))
    }
}

/// Publishes a [`LeaseCandidate`] for a coordinated election (KEP-4355). The candidate renews this object and responds
/// to pings from the control plane, like client-go's `leaderelection.LeaseCandidate`.
///
/// Run the candidate together with a [coordinated](crate::LeaderElectionConfig::coordinated) elector that has the same
/// identity. The feature gate `CoordinatedLeaderElection` must be enabled on the server. Kubernetes has supported the
/// API version `v1alpha2` since 1.32, and `v1beta1` since 1.33. The API version of `api` determines the API version of
/// the LeaseCandidate. The clocks of all candidates and of the control plane must agree to within a few seconds: see
/// [`coordinated`](crate::LeaderElectionConfig::coordinated).
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
    /// The API client for the LeaseCandidate.
    pub api: A,
    /// The key of the LeaseCandidate object. The candidate creates this object if it is missing or was deleted.
    pub key: ObjectKey,
    /// The published spec. The candidate ignores the fields `ping_time` and `renew_time` of this spec.
    pub spec: LeaseCandidateSpec,
    /// The clocks that measure pauses. The default is [`SystemClocks`].
    pub clocks: Arc<dyn Clocks>,
}

/// How often the candidate renews itself without a ping, like client-go's `requeueInterval`.
const RENEWAL: Duration = Duration::from_secs(5 * 60);

/// How often the candidate reads its object when it has no watch. The control plane waits 5 s for the response to a
/// ping.
const POLL: Duration = Duration::from_secs(2);

const PATIENCE: Duration = Duration::from_secs(5);

impl<A: ObjectApi<LeaseCandidate> + ListWatch<Object = LeaseCandidate>> Candidate<A> {
    /// Creates a candidate with the given identity for a Lease in `namespace`. Call [`run`](Self::run) to publish the
    /// candidate.
    pub fn new(api: A, namespace: &str, identity: &str, spec: LeaseCandidateSpec) -> Self {
        Self { api, key: ObjectKey::new(namespace, identity), spec, clocks: Arc::new(SystemClocks::new()) }
    }

    /// Runs the candidate until the `stop` token is cancelled. The LeaseCandidate is not deleted, but expires 30
    /// minutes after its last renewal. Failed requests are logged, and retried with increasing delays.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is equivalent to cancelling `stop`.
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
                match self.with_timeout(self.look(now >= renew_at)).await {
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
                    // While requests fail, keep the pause, because the server may have requested it.
                    WatchMessage::Event(()) if !failing => look_at = Duration::ZERO,
                    WatchMessage::Event(()) => {}
                },
                () = &mut following => {}
                () = self.clocks.sleep_until(Deadline::monotonic(look_at)) => {}
            }
        }
    }

    /// Reads the LeaseCandidate object. Writes the object if it is missing, if it was pinged, or if `due` is `true`.
    /// Returns `true` if the LeaseCandidate was written.
    async fn look(&self, due: bool) -> Result<bool, ApiError> {
        let options = WriteOptions::default();
        match self.api.get_opt(&self.key).await? {
            None => self.api.create(&self.renewed(None), &options).await.map(|_| true),
            Some(found) if due || found.spec.is_pinged() => {
                self.api.update(&self.renewed(Some(found)), &options).await.map(|_| true)
            }
            Some(_) => Ok(false),
        }
    }

    /// Returns the LeaseCandidate to write, whose renew time acknowledges the last ping.
    fn renewed(&self, found: Option<LeaseCandidate>) -> LeaseCandidate {
        let kind = self.api.api_resource();
        let found = found.unwrap_or_else(|| LeaseCandidate {
            metadata: ObjectMeta::new(self.key.namespace().unwrap_or_default(), self.key.name()),
            ..LeaseCandidate::default()
        });
        let LeaseCandidateSpec { ping_time, other, .. } = found.spec;
        // The renew time must be later than the ping, even if the clocks of the candidate and the control plane differ.
        let answer = ping_time.and_then(|pinged| pinged.0.checked_add(TimePrecision::Micros.step()).ok());
        let wall = self.clocks.now().wall;
        let renew_time = Some(TimePrecision::Micros.cut(answer.map_or(wall, |answer| answer.max(wall))));
        LeaseCandidate {
            types: TypeMeta { api_version: kind.group_version.to_string(), kind: kind.kind },
            metadata: found.metadata,
            spec: LeaseCandidateSpec { ping_time, renew_time, other, ..self.spec.clone() },
        }
    }

    /// Awaits a request, but cancels it after a timeout. A retry after the timeout may succeed over another connection.
    async fn with_timeout<T>(&self, request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let late = Deadline::monotonic(self.clocks.now().monotonic + PATIENCE);
        tokio::select! {
            biased;
            answer = request => answer,
            () = self.clocks.sleep_until(late) => Err(ApiError::timeout("no response before the timeout")),
        }
    }

    async fn watch(&self) -> Result<Option<Events<()>>, ApiError> {
        let pings = |event: WatchEvent<LeaseCandidate>| match event {
            WatchEvent::Added(candidate) | WatchEvent::Modified(candidate) => candidate.spec.is_pinged().then_some(()),
            event => matches!(event, WatchEvent::Deleted(_)).then_some(()),
        };
        watch_one(&self.api, &self.key, pings).await.map(Some)
    }
}
