//! Pairs of locks that migrate an election from an annotation to a Lease.

use std::sync::Arc;

use pintle_meta::{ApiError, ApiResource, MicroTime, ObjectKey, Status};

use crate::config::Observers;
use crate::lock::{Lock, LockEvent, LockEvents, LockSnapshot};
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};
use crate::token::Token;
use crate::watching::map;

/// The holder that a [`MultiLock`] reports if its two locks disagree about the holder, like client-go's
/// `UnknownLeader`. Contenders must not use [`UNKNOWN_LEADER`] as their identity.
pub const UNKNOWN_LEADER: &str = "leaderelection.k8s.io/unknown";

/// A pair of locks that the leader always holds together, like client-go's `MultiLock` for `configmapsleases` and
/// `endpointsleases`.
///
/// A `MultiLock` migrates replicas from its primary lock, an [`AnnotationLock`](crate::AnnotationLock), to its
/// secondary lock, a [`LeaseLock`](crate::LeaseLock). The migration takes two rollouts: first from the annotation to
/// both locks, and then from both locks to the Lease. Programs that use only the annotation must not run at the same
/// time as programs that use only the Lease, because they cannot see each other. Keep the object of the primary lock
/// until no program uses both locks.
///
/// # Guarantees
///
/// - A contender must hold both locks to lead. A term begins or is extended only if both locks accept the write. Each
///   lock rejects the write if the lock was changed after the read. Unlike client-go, a `MultiLock` never takes over a
///   lock that another contender has changed.
/// - If the two locks have different holders, the `MultiLock` reports [`UNKNOWN_LEADER`] as the holder. The holders
///   differ after a crash or a rejection between the two writes. While the holders differ, all contenders wait until
///   both locks have stayed unchanged for a full lease duration. If a write changes only one lock, it returns an error
///   whose field [`earlier`](ApiError::earlier) is set, and no contender leads for one lease duration.
/// - If both locks have the same holder but only one of them contains the last renewal, the merged record has no
///   `renew_time`. Because the merged record has no `renew_time`, electors can distinguish it from a record that both
///   locks have accepted.
/// - The fencing [token](Lock::token) of a term is the token of the secondary lock, so tokens keep increasing after the
///   migration to the Lease.
///
/// If the object of the primary lock is missing, the whole `MultiLock` is treated as missing, even if the Lease exists.
/// After a contender has created the object again, the two locks have different holders, and all contenders wait.
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
    /// Combines two locks. The primary lock determines the resource type and the key of the combined lock.
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
            // Omit the renew time, which means that the secondary lock has not accepted this record yet.
            let record = LeaderElectionRecord { renew_time: None, ..first };
            return LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, None) };
        };
        let second = self.cut(secondary.state.record);
        let lease_duration_seconds = first.lease_duration_seconds.max(second.lease_duration_seconds);
        let (strategy, preferred_holder) = (second.strategy.clone(), second.preferred_holder.clone());
        let same_time = first.renew_time == second.renew_time;
        let record = match first.holder_identity == second.holder_identity {
            true if same_time => first,
            // A write has changed only one of the two locks. The renew times do not show which lock is newer, because a
            // clock may have been set back.
            true if second.renew_time < first.renew_time => LeaderElectionRecord { renew_time: None, ..second },
            true => LeaderElectionRecord { renew_time: None, ..first },
            false => LeaderElectionRecord { holder_identity: UNKNOWN_LEADER.into(), ..first },
        };
        let record = LeaderElectionRecord { lease_duration_seconds, strategy, preferred_holder, ..record };
        LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, Some(secondary.object)) }
    }

    /// Truncates the times of a record to the precision of the less precise lock.
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

    /// Watches the secondary lock, which is written last during a release. The elector still polls the lock, because
    /// this watch reports only releases and deletions.
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

/// Joins the versions of both locks with a plus sign. A uid or resourceVersion never contains a plus sign.
fn join(primary: &Version, secondary: Option<&Version>) -> Version {
    let (uid, resource_version) =
        secondary.map_or(("", ""), |version| (version.uid.as_str(), version.resource_version.as_str()));
    Version {
        uid: format!("{}+{uid}", primary.uid),
        resource_version: format!("{}+{resource_version}", primary.resource_version),
    }
}

/// Returns the stored data of both locks as text. The text also changes if only one of the locks is renewed, even if the
/// merged record stays the same.
fn both_raw(primary: &LockState, secondary: Option<&LockState>) -> Box<str> {
    let half = |state: &LockState| format!("{:?} {:?}", state.record, state.raw);
    format!("{} {:?}", half(primary), secondary.map(half)).into()
}

/// Adds an earlier attempt to the error of the second write, because the first lock has already accepted its write.
fn half_way(error: ApiError) -> ApiError {
    let accepted = Status { code: 200, message: "the first lock has accepted its write".into(), ..Status::default() };
    ApiError { earlier: Some(Arc::new(accepted.into())), ..error }
}

/// Forwards only events about releases and deletions of the secondary lock.
fn vacancies<O: 'static, B: Send + 'static>(secondary: LockEvents<O>) -> LockEvents<B> {
    map(secondary, |event| match event {
        LockEvent::Changed(half) if !half.state.record.is_vacant() => None,
        _ => Some(LockEvent::MaybeChanged),
    })
}
