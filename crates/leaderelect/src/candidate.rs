//! The candidate of a coordinated election: what one publishes of itself, for the control plane to choose by.

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

use crate::watching::{Events, Told, follow, watch_one};
use crate::{Clocks, Deadline, SystemClocks, TimePrecision};

/// The strategy that Kubernetes has built in: the lowest emulation version leads, of these the lowest binary version, and of
/// these who has been there for longest. So an upgrade of a fleet does not move to new behaviour before all can follow.
pub const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

/// A `LeaseCandidate` of `coordination.k8s.io/v1beta1`, which is that of `v1alpha2` too. It is named like the identity of its
/// contender, and lives beside the Lease.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct LeaseCandidate {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is to be known of the contender.
    #[serde(default)]
    pub spec: LeaseCandidateSpec,
}

pintle_meta::resource!(LeaseCandidate, "coordination.k8s.io/v1beta1", "LeaseCandidate", "leasecandidates", Namespaced);

/// What is to be known of a contender.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseCandidateSpec {
    /// The Lease that it contends for. It never changes.
    pub lease_name: String,
    /// When the control plane last asked whether it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_time: Option<MicroTime>,
    /// When it last said so. After half an hour it counts as gone.
    pub renew_time: Option<MicroTime>,
    /// The version of its program, such as `1.36.0`, without a `v`.
    pub binary_version: String,
    /// The version as which it behaves, not above that of the program. [`OLDEST_EMULATION_VERSION`] requires it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emulation_version: String,
    /// How the holder is to be chosen: [`OLDEST_EMULATION_VERSION`], or a `domain/name` that somebody else's controller knows.
    pub strategy: String,
    /// Fields that this struct does not name.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl LeaseCandidateSpec {
    /// A contender for that Lease, which behaves as the version that it has, to be chosen by [`OLDEST_EMULATION_VERSION`].
    pub fn new(lease_name: &str, version: &str) -> Self {
        Self {
            lease_name: lease_name.into(),
            binary_version: version.into(),
            emulation_version: version.into(),
            strategy: OLDEST_EMULATION_VERSION.into(),
            ..Self::default()
        }
    }

    /// Whether the control plane waits for an answer.
    fn is_pinged(&self) -> bool {
        self.ping_time.is_some_and(|pinged| self.renew_time.is_none_or(|renewed| renewed.0 < pinged.0))
    }
}

/// A contender of a coordinated election (KEP-4355): it publishes a [`LeaseCandidate`], keeps it fresh, and answers when the control
/// plane asks whether it is there. client-go's `leaderelection.LeaseCandidate`, which `NewCandidate` makes.
///
/// An elector that is [coordinated](crate::LeaderElectionConfig::coordinated) runs beside it, with the same identity. Servers have
/// this by the feature `CoordinatedLeaderElection`, as `v1beta1` since 1.33 and as `v1alpha2` since 1.32; to which `api` is, the
/// object is written. The times of day of all contenders and of the control plane have to agree to a few seconds, as told there.
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
    /// Reads, writes and watches the candidate.
    pub api: A,
    /// Which object it is. It is created if it does not exist, and again if it is deleted.
    pub key: ObjectKey,
    /// What is published. The two times are not taken from here.
    pub spec: LeaseCandidateSpec,
    /// Where the time is read and waited for.
    pub clocks: Arc<dyn Clocks>,
}

/// How often it is renewed unasked: client-go's `requeueInterval`.
const RENEWAL: Duration = Duration::from_secs(5 * 60);

/// How often it is looked for a ping while no watch tells of one. The control plane waits for 5 s.
const POLL: Duration = Duration::from_secs(2);

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl<A: ObjectApi<LeaseCandidate> + ListWatch<Object = LeaseCandidate>> Candidate<A> {
    /// The contender `identity`, for a Lease in `namespace`. Nothing happens before it [runs](Self::run).
    pub fn new(api: A, namespace: &str, identity: &str, spec: LeaseCandidateSpec) -> Self {
        Self { api, key: ObjectKey::new(namespace, identity), spec, clocks: Arc::new(SystemClocks::new()) }
    }

    /// Is a candidate, until `stop` is cancelled. The object stays, and expires half an hour after it was last renewed. What fails
    /// is tried again, later each time, and logged.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is as good as a stop.
    pub async fn run(&self, stop: &CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.stand() => {}
        }
    }

    async fn stand(&self) {
        let retries = BackoffConfig { base: Duration::from_millis(250), cap: POLL * 8, ..BackoffConfig::default() };
        let mut pauses = Backoff::new(retries, fastrand::u64(..));
        let (to_us, mut told) = mpsc::channel(8);
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
                        match std::mem::replace(&mut failing, true) {
                            false => tracing::warn!(candidate = %self.key, %error, "cannot renew the candidate"),
                            true => tracing::debug!(candidate = %self.key, %error, "still cannot renew the candidate"),
                        }
                        look_at = now + pauses.next(error.retry_after);
                    }
                }
            }
            tokio::select! {
                biased;
                Some(told) = told.recv() => match told {
                    Told::Up => watched = true,
                    Told::Down => {
                        watched = false;
                        look_at = look_at.min(self.clocks.now().monotonic + POLL);
                    }
                    // Unless the server has asked for patience.
                    Told::Event(()) if !failing => look_at = Duration::ZERO,
                    Told::Event(()) => {}
                },
                () = &mut following => {}
                () = self.clocks.sleep_until(Deadline::monotonic(look_at)) => {}
            }
        }
    }

    /// Looks after the object, and says whether it was written: because it was missing, pinged, or `due`.
    async fn look(&self, due: bool) -> Result<bool, ApiError> {
        let found = match self.api.get(&self.key).await {
            Ok(found) => Some(found),
            Err(error) if error.is_not_found() => None,
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

    /// The object as it is to be written now.
    fn renewed(&self, found: Option<LeaseCandidate>) -> LeaseCandidate {
        let kind = self.api.api_resource();
        let found = found.unwrap_or_else(|| LeaseCandidate {
            metadata: ObjectMeta::new(self.key.namespace().unwrap_or_default(), self.key.name()),
            ..LeaseCandidate::default()
        });
        let LeaseCandidateSpec { ping_time, other, .. } = found.spec;
        // An answer is later than the question, even if the clocks of the two differ.
        let answer = ping_time.and_then(|pinged| pinged.0.checked_add(TimePrecision::Micros.step()).ok());
        let wall = self.clocks.now().wall;
        let renew_time = Some(TimePrecision::Micros.cut(answer.map_or(wall, |answer| answer.max(wall))));
        LeaseCandidate {
            types: TypeMeta { api_version: kind.group_version.to_string(), kind: kind.kind },
            metadata: found.metadata,
            spec: LeaseCandidateSpec { ping_time, renew_time, other, ..self.spec.clone() },
        }
    }

    /// Gives up what takes too long, so that the next try may have a better connection.
    async fn patiently<T>(&self, request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let late = Deadline::monotonic(self.clocks.now().monotonic + PATIENCE);
        tokio::select! {
            biased;
            answer = request => answer,
            () = self.clocks.sleep_until(late) => Err(ApiError::timeout("no answer in time")),
        }
    }

    /// Tells when there is something to do.
    async fn watch(&self) -> Result<Option<Events<()>>, ApiError> {
        let asks = |event: WatchEvent<LeaseCandidate>| match event {
            WatchEvent::Added(candidate) | WatchEvent::Modified(candidate) => candidate.spec.is_pinged().then_some(()),
            event => matches!(event, WatchEvent::Deleted(_)).then_some(()),
        };
        watch_one(&self.api, &self.key, asks).await.map(Some)
    }
}
