//! Pairs of locks, which migrate an election from an annotation to a Lease.

use pintle_meta::{ApiError, ApiResource, MicroTime, ObjectKey};

use crate::config::Observers;
use crate::lock::{Lock, LockEvent, LockEvents, LockSnapshot};
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};
use crate::token::Token;
use crate::watching::map;

/// The holder that a [`MultiLock`] reports if its two locks have different holders, like client-go's `UnknownLeader`. A
/// contender must not use this identity.
pub const UNKNOWN_LEADER: &str = "leaderelection.k8s.io/unknown";

/// A pair of locks, its two *halves*, that a leader always holds together, like client-go's `MultiLock` for
/// `configmapsleases` and `endpointsleases`.
///
/// A `MultiLock` migrates replicas from an [`AnnotationLock`](crate::AnnotationLock), its primary lock, to a
/// [`LeaseLock`](crate::LeaseLock), its secondary lock. The first rollout replaces the annotation with both locks, and
/// the second rollout replaces both locks with the Lease. Programs that use only the annotation do not detect programs
/// that use only the Lease, so they must not run at the same time. The primary lock's object must exist until no
/// program uses both locks.
///
/// # Guarantees
///
/// - A contender that holds only one of the two locks does not lead. A term begins or is renewed only if both locks
///   accept the write. A lock rejects the write if it has changed since it was read. Unlike client-go, `MultiLock`
///   never takes over a lock that another contender has changed.
/// - If the two locks have different holders, the reported holder is [`UNKNOWN_LEADER`]. The holders differ if a crash
///   or a rejection has let a write change only one lock. All contenders then wait until both locks have been unchanged
///   for a full lease duration. If a write changes only one lock, its error has
///   [`earlier_may_have_acted`](ApiError::earlier_may_have_acted) set, and no contender leads for one lease duration.
/// - If the two locks have the same holder but only one has the last renewal, the merged record has no `renew_time`.
///   Therefore, electors can always distinguish this record from a record that both locks have accepted.
/// - A term's fencing [token](Lock::token) is the secondary lock's token, so tokens continue to increase after all
///   replicas use only the Lease.
///
/// If the primary lock's object is missing, the whole `MultiLock` counts as missing, even if the Lease exists. After
/// the primary lock's object is created, the two locks have different holders.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{AnnotationLock, Lease, LeaseLock, Lock, MultiLock};
/// use pintle_meta::{DynamicObject, ListWatch, ObjectApi};
///
/// fn both<M, L>(config_maps: M, leases: L) -> impl Lock
/// where
///     M: ObjectApi<DynamicObject> + ListWatch<Object = DynamicObject>,
///     L: ObjectApi<Lease> + ListWatch<Object = Lease>,
/// {
///     let (namespace, name) = ("kube-system", "website-controller");
///     MultiLock::new(AnnotationLock::config_map(config_maps, namespace, name), LeaseLock::new(leases, namespace, name))
/// }
/// ```
#[derive(Debug)]
pub struct MultiLock<P, S> {
    pub(crate) primary: P,
    secondary: S,
}

impl<P: Lock, S: Lock> MultiLock<P, S> {
    /// Combines two locks. The resource and the key of the combined lock are the primary lock's.
    pub fn new(primary: P, secondary: S) -> Self {
        Self { primary, secondary }
    }

    fn both(
        &self,
        primary: LockSnapshot<P::Object>,
        secondary: Option<LockSnapshot<S::Object>>,
    ) -> LockSnapshot<(P::Object, Option<S::Object>)> {
        let version = join(&primary.state.version, secondary.as_ref().map(|half| &half.state.version));
        let raw = Some(both_raw(&primary.state, secondary.as_ref().map(|half| &half.state)));
        let first = self.cut(primary.state.record);
        let Some(secondary) = secondary else {
            // Omit the renew time, because the secondary lock has not accepted this record.
            let record = LeaderElectionRecord { renew_time: None, ..first };
            return LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, None) };
        };
        let second = self.cut(secondary.state.record);
        let lease_duration_seconds = first.lease_duration_seconds.max(second.lease_duration_seconds);
        let (strategy, preferred_holder) = (second.strategy.clone(), second.preferred_holder.clone());
        let same_time = first.renew_time == second.renew_time;
        let record = match first.holder_identity == second.holder_identity {
            true if same_time => first,
            // A write has changed only one lock. The times do not show which lock is newer, because a clock may have
            // been set back.
            true if second.renew_time < first.renew_time => LeaderElectionRecord { renew_time: None, ..second },
            true => LeaderElectionRecord { renew_time: None, ..first },
            false => LeaderElectionRecord { holder_identity: UNKNOWN_LEADER.into(), ..first },
        };
        let record = LeaderElectionRecord { lease_duration_seconds, strategy, preferred_holder, ..record };
        LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, Some(secondary.object)) }
    }

    /// Truncates the times in a record to a precision that both locks can store.
    fn cut(&self, record: LeaderElectionRecord) -> LeaderElectionRecord {
        let precision = self.time_precision();
        let cut = |time: Option<MicroTime>| time.map(|time| precision.cut(time.0));
        LeaderElectionRecord { acquire_time: cut(record.acquire_time), renew_time: cut(record.renew_time), ..record }
    }
}

impl<P: Lock, S: Lock> Lock for MultiLock<P, S> {
    type Object = (P::Object, Option<S::Object>);

    fn resource(&self) -> ApiResource {
        self.primary.resource()
    }

    fn key(&self) -> &ObjectKey {
        self.primary.key()
    }

    fn time_precision(&self) -> TimePrecision {
        match (self.primary.time_precision(), self.secondary.time_precision()) {
            (TimePrecision::Micros, TimePrecision::Micros) => TimePrecision::Micros,
            _ => TimePrecision::Seconds,
        }
    }

    fn can_be_coordinated(&self) -> bool {
        false
    }

    fn observers(&self) -> Observers {
        self.primary.observers()
    }

    fn token(&self, began: &LockState) -> Option<Token> {
        let (_, uid) = began.version.uid.split_once('+')?;
        let (_, resource_version) = began.version.resource_version.split_once('+')?;
        let version = Version { uid: uid.into(), resource_version: resource_version.into() };
        self.secondary.token(&LockState::new(version, began.record.clone()))
    }

    /// Watches the secondary lock, which a release writes last. The watch reports only releases and deletions, so the
    /// elector still polls the lock.
    async fn watch(&self) -> Result<Option<LockEvents<Self::Object>>, ApiError> {
        let events = self.secondary.watch().await?;
        Ok(events.map(vacancies))
    }

    async fn get(&self) -> Result<Option<LockSnapshot<Self::Object>>, ApiError> {
        let Some(primary) = self.primary.get().await? else { return Ok(None) };
        let secondary = self.secondary.get().await?;
        Ok(Some(self.both(primary, secondary)))
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<LockSnapshot<Self::Object>, ApiError> {
        let primary = self.primary.create(record).await?;
        let secondary = self.secondary.create(record).await.map_err(half_way)?;
        Ok(self.both(primary, Some(secondary)))
    }

    async fn update(
        &self,
        (primary, secondary): &Self::Object,
        record: &LeaderElectionRecord,
    ) -> Result<LockSnapshot<Self::Object>, ApiError> {
        let primary = self.primary.update(primary, record).await?;
        let secondary = match secondary {
            Some(base) => self.secondary.update(base, record).await,
            None => self.secondary.create(record).await,
        };
        Ok(self.both(primary, Some(secondary.map_err(half_way)?)))
    }
}

/// Joins the versions of the two locks with a plus sign. A uid or a resourceVersion never contains a plus sign.
fn join(primary: &Version, secondary: Option<&Version>) -> Version {
    let (uid, resource_version) =
        secondary.map_or(("", ""), |version| (version.uid.as_str(), version.resource_version.as_str()));
    Version {
        uid: format!("{}+{uid}", primary.uid),
        resource_version: format!("{}+{resource_version}", primary.resource_version),
    }
}

/// Returns the stored data of both locks as text. The merged record alone does not change if only one lock is renewed.
fn both_raw(primary: &LockState, secondary: Option<&LockState>) -> Box<str> {
    let half = |state: &LockState| format!("{:?} {:?}", state.record, state.raw);
    format!("{} {:?}", half(primary), secondary.map(half)).into()
}

/// Sets `earlier_may_have_acted` in an error of the second write, because the other lock has already accepted its
/// write.
fn half_way(error: ApiError) -> ApiError {
    ApiError { earlier_may_have_acted: true, ..error }
}

/// Forwards only releases and deletions of the secondary lock.
fn vacancies<O: 'static, B: Send + 'static>(secondary: LockEvents<O>) -> LockEvents<B> {
    map(secondary, |event| match event {
        LockEvent::Changed(half) if !half.state.record.is_vacant() => None,
        _ => Some(LockEvent::MaybeChanged),
    })
}
