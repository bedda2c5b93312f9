//! Two locks as one: for the way from an annotation to a Lease.

use pintle_meta::{ApiError, ApiResource, MicroTime, ObjectKey};

use crate::watching::map;
use crate::{
    LeaderElectionRecord, Lock, LockEvent, LockEvents, LockSnapshot, LockState, Observers, TimePrecision, Token,
    Version,
};

/// The holder of a [`MultiLock`] whose halves name different ones: client-go's `UnknownLeader`. It is nobody's identity.
pub const UNKNOWN_LEADER: &str = "leaderelection.k8s.io/unknown";

/// Two locks that are held together: client-go's `MultiLock`, its `configmapsleases` and `endpointsleases`.
///
/// It leads a fleet from an [`AnnotationLock`](crate::AnnotationLock) to a [`LeaseLock`](crate::LeaseLock) in two rollouts: first from
/// the annotation, the primary half, to both; then from both to the Lease, the secondary. Programs that know the
/// annotation only and such that know the Lease only do not see each other, so they may not run at a time; and the primary
/// object has to stay until all who hold both are gone.
///
/// # What is guaranteed
///
/// - Nobody leads by a half. A term begins and is renewed only by a write that both halves took, each in the version in which they
///   were read; a half that has changed meanwhile is refused, and never adopted, as client-go's is.
/// - Halves that name different holders are held by [`UNKNOWN_LEADER`]: everybody waits until neither has changed for a
///   whole duration. So it is after a write that came half-way, by a crash or a refusal; its error
///   [says so](ApiError::earlier_may_have_acted), and nobody leads for one lease duration.
/// - If they name one holder, and one half is behind by a renewal, the record has no `renew_time`. So it is never taken for a record that
///   both have taken.
/// - The [token](Lock::token) of a term is that of the secondary half, so it goes on growing when the fleet has moved to the Lease alone.
///
/// A Lease that exists without a primary object counts as no lock until the primary is created; then the two disagree.
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
    /// Both as one. It goes by the name of the primary.
    pub fn new(primary: P, secondary: S) -> Self {
        Self { primary, secondary }
    }

    /// What the two halves say together.
    fn both(
        &self,
        primary: LockSnapshot<P::Object>,
        secondary: Option<LockSnapshot<S::Object>>,
    ) -> LockSnapshot<(P::Object, Option<S::Object>)> {
        let version = join(&primary.state.version, secondary.as_ref().map(|half| &half.state.version));
        let raw = Some(both_raw(&primary.state, secondary.as_ref().map(|half| &half.state)));
        let first = self.cut(primary.state.record);
        let Some(secondary) = secondary else {
            // Without the time at which both would have been renewed: it is not to pass for what was written to both.
            let record = LeaderElectionRecord { renew_time: None, ..first };
            return LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, None) };
        };
        let second = self.cut(secondary.state.record);
        let lease_duration_seconds = first.lease_duration_seconds.max(second.lease_duration_seconds);
        let (strategy, preferred_holder) = (second.strategy.clone(), second.preferred_holder.clone());
        let same_time = first.renew_time == second.renew_time;
        let record = match first.holder_identity == second.holder_identity {
            true if same_time => first,
            // What only one half has taken was not written, and the times do not say which half that is: a clock may have been set back.
            true if second.renew_time < first.renew_time => LeaderElectionRecord { renew_time: None, ..second },
            true => LeaderElectionRecord { renew_time: None, ..first },
            false => LeaderElectionRecord { holder_identity: UNKNOWN_LEADER.into(), ..first },
        };
        let record = LeaderElectionRecord { lease_duration_seconds, strategy, preferred_holder, ..record };
        LockSnapshot { state: LockState { version, record, raw }, object: (primary.object, Some(secondary.object)) }
    }

    /// The record with times that both halves can tell.
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

    /// Watches the secondary half: a release empties that last. What else happens, it does not tell, so the elector polls too.
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

/// Two versions as one: both parts of it are those of the halves. Neither a uid nor a resourceVersion has a plus sign in it.
fn join(primary: &Version, secondary: Option<&Version>) -> Version {
    let (uid, resource_version) =
        secondary.map_or(("", ""), |version| (version.uid.as_str(), version.resource_version.as_str()));
    Version {
        uid: format!("{}+{uid}", primary.uid),
        resource_version: format!("{}+{resource_version}", primary.resource_version),
    }
}

/// All that both halves say, since the record of both shows no renewal of the half that is ahead, or of another holder's half.
fn both_raw(primary: &LockState, secondary: Option<&LockState>) -> Box<str> {
    let half = |state: &LockState| format!("{:?} {:?}", state.record, state.raw);
    format!("{} {:?}", half(primary), secondary.map(half)).into()
}

/// An error of the second half, after the first one has taken the write.
fn half_way(error: ApiError) -> ApiError {
    ApiError { earlier_may_have_acted: true, ..error }
}

/// That the secondary half was given up, or is gone.
fn vacancies<O: 'static, B: 'static>(secondary: LockEvents<O>) -> LockEvents<B> {
    map(secondary, |event| match event {
        LockEvent::Changed(half) if !half.state.record.is_vacant() => None,
        _ => Some(LockEvent::MaybeChanged),
    })
}
