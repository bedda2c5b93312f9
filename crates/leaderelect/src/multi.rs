//! A lock that consists of two locks. This lock is used to migrate from an annotation to a Lease.

use pintle_meta::{ApiError, ApiResource, MicroTime, ObjectKey};

use crate::config::Observers;
use crate::lock::{Lock, LockEvent, LockEvents, LockSnapshot};
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};
use crate::token::Token;
use crate::watching::map;

/// The holder that a [`MultiLock`] reports if its two halves name different holders. This constant corresponds to
/// client-go's `UnknownLeader`. A contender must not use this value as its own identity.
pub const UNKNOWN_LEADER: &str = "leaderelection.k8s.io/unknown";

/// A pair of locks that a contender always holds together. This type corresponds to client-go's `MultiLock` for
/// `configmapsleases` and `endpointsleases`.
///
/// A `MultiLock` migrates a set of replicas from an [`AnnotationLock`](crate::AnnotationLock) to a
/// [`LeaseLock`](crate::LeaseLock) in two rollouts. The annotation is the primary half of the lock, and the Lease is
/// the secondary half. In the first rollout, the replicas change from the annotation to both halves. In the second
/// rollout, the replicas change from both halves to the Lease. Programs that use only the annotation do not detect
/// programs that use only the Lease. Therefore, these two kinds of programs must not run at the same time. The primary
/// object must exist as long as any program uses both halves.
///
/// # What is guaranteed
///
/// - A contender that holds only one half does not lead. A leadership term begins or is renewed only if both halves
///   accept the write. Each write is based on the version that was read. If a half has changed since it was read, the
///   write is rejected. Unlike client-go, the lock never takes over a half that another contender has changed.
/// - If the halves name different holders, the reported holder is [`UNKNOWN_LEADER`]. All contenders then wait until
///   both halves have been unchanged for a full lease duration. The halves name different holders if a crash or a
///   rejection has caused a write to change only one half. If only one half was written, the error has
///   [`earlier_may_have_acted`](ApiError::earlier_may_have_acted) set, and no contender leads for one lease duration.
/// - If both halves have the same holder but one half does not contain the last renewal, the merged record has no
///   `renew_time`. Electors always distinguish such a record from a record that both halves accepted.
/// - The fencing [token](Lock::token) of a leadership term is the secondary half's token. As a result, tokens continue
///   to increase after all replicas use only the Lease.
///
/// If the primary object does not exist, the whole lock counts as missing, even if the Lease exists. When the primary
/// object is then created, the two halves name different holders.
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
    /// Combines two locks. The resource and the key of the combined lock are the resource and the key of its primary
    /// half.
    pub fn new(primary: P, secondary: S) -> Self {
        Self { primary, secondary }
    }

    /// Merges the states of both halves into one state.
    fn both(
        &self,
        primary: LockSnapshot<P::Object>,
        secondary: Option<LockSnapshot<S::Object>>,
    ) -> LockSnapshot<(P::Object, Option<S::Object>)> {
        let version = join(&primary.state.version, secondary.as_ref().map(|half| &half.state.version));
        let raw = Some(both_raw(&primary.state, secondary.as_ref().map(|half| &half.state)));
        let first = self.cut(primary.state.record);
        let Some(secondary) = secondary else {
            // Leave out the renew time, because at least one half has not accepted this record.
            let record = LeaderElectionRecord { renew_time: None, ..first };
            return LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, None) };
        };
        let second = self.cut(secondary.state.record);
        let lease_duration_seconds = first.lease_duration_seconds.max(second.lease_duration_seconds);
        let (strategy, preferred_holder) = (second.strategy.clone(), second.preferred_holder.clone());
        let same_time = first.renew_time == second.renew_time;
        let record = match first.holder_identity == second.holder_identity {
            true if same_time => first,
            // The halves differ, so a write has changed only one of them. The times in the halves do not show which
            // half is newer, because a clock may have been set back.
            true if second.renew_time < first.renew_time => LeaderElectionRecord { renew_time: None, ..second },
            true => LeaderElectionRecord { renew_time: None, ..first },
            false => LeaderElectionRecord { holder_identity: UNKNOWN_LEADER.into(), ..first },
        };
        let record = LeaderElectionRecord { lease_duration_seconds, strategy, preferred_holder, ..record };
        LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, Some(secondary.object)) }
    }

    /// Truncates the times in a record to a precision that both halves can store.
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

    /// Watches the secondary half. When the lock is released, the secondary half is written after the primary half. The
    /// elector still polls the lock, because this watch reports only releases and deletions.
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

/// Joins the versions of the two halves with a plus sign. The result is unambiguous, because a uid or a resourceVersion
/// never contains a plus sign.
fn join(primary: &Version, secondary: Option<&Version>) -> Version {
    let (uid, resource_version) =
        secondary.map_or(("", ""), |version| (version.uid.as_str(), version.resource_version.as_str()));
    Version {
        uid: format!("{}+{uid}", primary.uid),
        resource_version: format!("{}+{resource_version}", primary.resource_version),
    }
}

/// Returns the complete stored data of both halves. The complete data is needed because the merged record does not
/// change if only one half is renewed.
fn both_raw(primary: &LockState, secondary: Option<&LockState>) -> Box<str> {
    let half = |state: &LockState| format!("{:?} {:?}", state.record, state.raw);
    format!("{} {:?}", half(primary), secondary.map(half)).into()
}

/// Sets `earlier_may_have_acted` in an error of the second half's write, because the first half has already accepted
/// its write.
fn half_way(error: ApiError) -> ApiError {
    ApiError { earlier_may_have_acted: true, ..error }
}

/// Forwards the events that report a release or a deletion of the secondary half. Drops all other events.
fn vacancies<O: 'static, B: Send + 'static>(secondary: LockEvents<O>) -> LockEvents<B> {
    map(secondary, |event| match event {
        LockEvent::Changed(half) if !half.state.record.is_vacant() => None,
        _ => Some(LockEvent::MaybeChanged),
    })
}
