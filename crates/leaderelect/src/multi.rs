//! Pairs of locks, for the migration from an annotation to a Lease.

use pintle_meta::{ApiError, ApiResource, MicroTime, ObjectKey};

use crate::config::Observers;
use crate::lock::{Lock, LockEvent, LockEvents, LockSnapshot};
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};
use crate::token::Token;
use crate::watching::map;

/// The holder that a [`MultiLock`] reports if its halves have different holders, like client-go's `UnknownLeader`. A
/// contender must not use this identity.
pub const UNKNOWN_LEADER: &str = "leaderelection.k8s.io/unknown";

/// A pair of locks that a leader always holds together, like client-go's `MultiLock` for
/// `configmapsleases` and `endpointsleases`.
///
/// A `MultiLock` migrates replicas from an [`AnnotationLock`](crate::AnnotationLock), its primary half, to a
/// [`LeaseLock`](crate::LeaseLock), its secondary half. The first rollout replaces the annotation with both halves,
/// and the second rollout replaces both halves with the Lease. Programs that use only the annotation do not detect
/// programs that use only the Lease, so they must not run at the same time. The primary object must exist until no
/// program uses both halves.
///
/// # Guarantees
///
/// - A contender that holds only one half does not lead. A term begins or is renewed only if both halves accept the
///   write. A half rejects the write if it has changed since it was read. Unlike in client-go, the lock never takes
///   over a half that another contender has changed.
/// - If the halves have different holders, because a crash or a rejection has let a write change only one half, the
///   reported holder is [`UNKNOWN_LEADER`]. All contenders then wait until both halves have been unchanged for a full
///   lease duration. If a write changes only one half, its error has
///   [`earlier_may_have_acted`](ApiError::earlier_may_have_acted) set, and no contender leads for one lease duration.
/// - If the halves have the same holder but one half lacks the last renewal, the merged record has no `renew_time`. So
///   electors can always distinguish this record from one that both halves have accepted.
/// - A term's fencing [token](Lock::token) is the secondary half's token, so tokens continue to increase after all
///   replicas use only the Lease.
///
/// If the primary object is missing, the whole lock counts as missing, even if the Lease exists. After the primary
/// object is created, the halves have different holders.
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
    /// Combines two locks. The combined lock has its primary half's resource and key.
    pub fn new(primary: P, secondary: S) -> Self {
        Self { primary, secondary }
    }

    /// Merges the halves' states.
    fn both(
        &self,
        primary: LockSnapshot<P::Object>,
        secondary: Option<LockSnapshot<S::Object>>,
    ) -> LockSnapshot<(P::Object, Option<S::Object>)> {
        let version = join(&primary.state.version, secondary.as_ref().map(|half| &half.state.version));
        let raw = Some(both_raw(&primary.state, secondary.as_ref().map(|half| &half.state)));
        let first = self.cut(primary.state.record);
        let Some(secondary) = secondary else {
            // Omit the renew time, because the secondary half has not accepted this record.
            let record = LeaderElectionRecord { renew_time: None, ..first };
            return LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, None) };
        };
        let second = self.cut(secondary.state.record);
        let lease_duration_seconds = first.lease_duration_seconds.max(second.lease_duration_seconds);
        let (strategy, preferred_holder) = (second.strategy.clone(), second.preferred_holder.clone());
        let same_time = first.renew_time == second.renew_time;
        let record = match first.holder_identity == second.holder_identity {
            true if same_time => first,
            // A write has changed only one half. The times do not show which half is newer, because a
            // clock may have been set back.
            true if second.renew_time < first.renew_time => LeaderElectionRecord { renew_time: None, ..second },
            true => LeaderElectionRecord { renew_time: None, ..first },
            false => LeaderElectionRecord { holder_identity: UNKNOWN_LEADER.into(), ..first },
        };
        let record = LeaderElectionRecord { lease_duration_seconds, strategy, preferred_holder, ..record };
        LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, Some(secondary.object)) }
    }

    /// Truncates the times in a record to the precision of both halves.
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

    /// Watches the secondary half, which a release writes last. The elector still polls the lock, because this watch
    /// reports only releases and deletions.
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

/// Joins the halves' versions with a plus sign, which a uid or a resourceVersion never contains.
fn join(primary: &Version, secondary: Option<&Version>) -> Version {
    let (uid, resource_version) =
        secondary.map_or(("", ""), |version| (version.uid.as_str(), version.resource_version.as_str()));
    Version {
        uid: format!("{}+{uid}", primary.uid),
        resource_version: format!("{}+{resource_version}", primary.resource_version),
    }
}

/// Returns both halves' stored data, because the merged record does not change if only one half is renewed.
fn both_raw(primary: &LockState, secondary: Option<&LockState>) -> Box<str> {
    let half = |state: &LockState| format!("{:?} {:?}", state.record, state.raw);
    format!("{} {:?}", half(primary), secondary.map(half)).into()
}

/// Sets `earlier_may_have_acted` in an error of the second write, because the other half has
/// already accepted its write.
fn half_way(error: ApiError) -> ApiError {
    ApiError { earlier_may_have_acted: true, ..error }
}

/// Forwards only releases and deletions of the secondary half.
fn vacancies<O: 'static, B: Send + 'static>(secondary: LockEvents<O>) -> LockEvents<B> {
    map(secondary, |event| match event {
        LockEvent::Changed(half) if !half.state.record.is_vacant() => None,
        _ => Some(LockEvent::MaybeChanged),
    })
}
