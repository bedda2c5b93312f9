//! The `Lock` trait, and the lock in a Lease.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;
use pintle_meta::{
    ApiError, ApiResource, ListWatch, Object, ObjectApi, ObjectKey, ObjectMeta, Resource, WatchEvent, WriteOptions,
};

use crate::config::Observers;
use crate::lease::Lease;
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};
use crate::token::Token;
use crate::watching::watch_one;

/// Storage for an election record, like client-go's `resourcelock.Interface`.
///
/// A lock reads and writes the record, but makes no decisions and keeps no state of its own.
///
/// # Cancel safety
///
/// Dropping a future cancels its request. The server may still store a cancelled write.
///
/// # Examples
///
/// An election with a lock in memory:
///
/// ```
/// use pintle_leaderelect::{
///     LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Leadership, Lock, LockSnapshot, EndReason,
///     LockState, Version,
/// };
/// use pintle_meta::{ApiError, ApiResource, ObjectKey, Reason, Scope, Status};
/// use std::sync::Mutex;
/// use tokio_util::sync::CancellationToken;
///
/// struct InMemory {
///     key: ObjectKey,
///     stored: Mutex<Option<LockState>>,
/// }
///
/// impl InMemory {
///     /// Stores the record if the stored object has the resourceVersion `base`.
///     fn put(&self, base: Option<&String>, record: &LeaderElectionRecord) -> Result<LockSnapshot<String>, ApiError> {
///         let mut stored = self.stored.lock().unwrap();
///         let found = stored.as_ref().map(|state| &state.version.resource_version);
///         if found != base {
///             return Err(ApiError::from(Status::failure(409, Reason::Conflict, "the object has changed")));
///         }
///         let next = found.map_or(1, |version| version.parse::<u64>().unwrap() + 1).to_string();
///         let version = Version { uid: "1".into(), resource_version: next.clone() };
///         let state = LockState::new(version, record.clone());
///         *stored = Some(state.clone());
///         Ok(LockSnapshot { state, object: next })
///     }
/// }
///
/// impl Lock for InMemory {
///     /// The resourceVersion.
///     type Object = String;
///
///     fn resource(&self) -> ApiResource {
///         ApiResource::new("example.com/v1", "Lock", "locks", Scope::Namespaced)
///     }
///
///     fn key(&self) -> &ObjectKey {
///         &self.key
///     }
///
///     async fn get(&self) -> Result<Option<LockSnapshot<String>>, ApiError> {
///         let stored = self.stored.lock().unwrap().clone();
///         Ok(stored.map(|state| LockSnapshot { object: state.version.resource_version.clone(), state }))
///     }
///
///     async fn create(&self, record: &LeaderElectionRecord) -> Result<LockSnapshot<String>, ApiError> {
///         self.put(None, record)
///     }
///
///     async fn update(&self, base: &String, record: &LeaderElectionRecord) -> Result<LockSnapshot<String>, ApiError> {
///         self.put(Some(base), record)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lock = InMemory { key: ObjectKey::new("kube-system", "website-controller"), stored: Mutex::default() };
/// let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default())?;
/// let work = LeaderCallbacks::new(async |leadership: Leadership| println!("{:?}", leadership.term()));
/// let ended = elector.run(&CancellationToken::new(), work).await;
/// assert_eq!(ended.unwrap().reason, EndReason::Completed);
/// # Ok(())
/// # }
/// ```
pub trait Lock: Send + Sync + 'static {
    /// The stored object. A write replaces the record and leaves the rest of the object unchanged.
    type Object: Send + Sync + 'static;

    /// Returns the resource type of the object that stores the record.
    fn resource(&self) -> ApiResource;

    /// Returns the key of the object that stores the record.
    fn key(&self) -> &ObjectKey;

    /// Returns the precision of the times that the lock stores. The default is microseconds.
    fn time_precision(&self) -> TimePrecision {
        TimePrecision::Micros
    }

    /// Returns the fencing token of a term that starts with the state `began`. Implementations must not block.
    fn token(&self, began: &LockState) -> Option<Token> {
        Token::of(&began.version)
    }

    /// Returns `true` if this lock supports [coordinated](crate::LeaderElectionConfig::coordinated) elections. Only
    /// locks in Leases support coordinated elections. The default is `true`.
    fn can_be_coordinated(&self) -> bool {
        true
    }

    /// Returns the default metrics provider and the default event hook for electors that use this lock. By default, a
    /// lock has no metrics provider and no event hook.
    fn observers(&self) -> Observers {
        Observers::default()
    }

    /// Watches the object that stores the record. The first event contains the current state of the object. The elector
    /// opens a new watch when the stream ends. The elector retries failed watches with increasing delays. The default
    /// implementation returns `None`, so the elector polls the lock.
    ///
    /// The stream should end if the connection is silent for too long. The locks of this crate end the stream after
    /// 90 s without an event or a bookmark.
    ///
    /// Events may be stale. Events can make an elector act sooner, but no decision relies on events alone.
    fn watch(&self) -> impl Future<Output = Result<Option<LockEvents<Self::Object>>, ApiError>> + Send {
        async { Ok(None) }
    }

    /// Reads the object's current state. Returns `None` if the object does not exist.
    fn get(&self) -> impl Future<Output = Result<Option<LockSnapshot<Self::Object>>, ApiError>> + Send;

    /// Creates the object with the given record. Fails if the object exists.
    fn create(
        &self,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<LockSnapshot<Self::Object>, ApiError>> + Send;

    /// Replaces the record in the given version of the object, `base`. Fails if the object has changed on the server
    /// since `base` was read.
    fn update(
        &self,
        base: &Self::Object,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<LockSnapshot<Self::Object>, ApiError>> + Send;
}

/// A stream of watch events of a lock.
pub type LockEvents<O> = Pin<Box<dyn Stream<Item = LockEvent<O>> + Send>>;

/// A watch event of a lock.
#[derive(Clone, Debug)]
pub enum LockEvent<O> {
    /// The object was created or changed. The snapshot contains the state of the object at the time of the event.
    Changed(LockSnapshot<O>),
    /// The object was deleted.
    Deleted {
        /// The uid of the deleted object.
        uid: String,
    },
    /// The lock may have changed. The elector reads the lock after this event.
    MaybeChanged,
}

/// An election record, together with the object that stores the record.
#[derive(Clone, Debug)]
pub struct LockSnapshot<O> {
    /// The election record and the version of its object.
    pub state: LockState,
    /// The object that the next write replaces.
    pub object: O,
}

/// A [`Lock`] in a [`Lease`].
///
/// Use a separate client for the lock, because the rate limiter of a shared client might delay a renewal until the term
/// ends.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Lease, LeaseLock};
/// use pintle_meta::{ListWatch, ObjectApi};
///
/// fn lock<A: ObjectApi<Lease> + ListWatch<Object = Lease>>(leases: A) -> LeaseLock<A> {
///     let labels = [("app".to_owned(), "website-controller".to_owned())].into();
///     LeaseLock { labels, ..LeaseLock::new(leases, "kube-system", "website-controller") }
/// }
/// ```
#[derive(Debug)]
pub struct LeaseLock<A> {
    /// The API client for the lease.
    pub api: A,
    /// The key of the lease. The elector creates the lease if it does not exist.
    pub key: ObjectKey,
    /// The labels that each write sets on the lease. Writes keep all other labels.
    pub labels: BTreeMap<String, String>,
    /// Whether the elector watches the lease to detect immediately when it is released. The default is `true`. If the
    /// watch is forbidden, fails or reports no events, the elector polls the lease instead.
    pub watch: bool,
    /// The default metrics provider and the default event hook for electors that use this lock. By default, the lock
    /// has no metrics provider and no event hook.
    pub observers: Observers,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> LeaseLock<A> {
    /// Creates a lock for the lease `name` in `namespace`, without labels.
    pub fn new(api: A, namespace: &str, name: &str) -> Self {
        let (key, labels) = (ObjectKey::new(namespace, name), BTreeMap::new());
        Self { api, key, labels, watch: true, observers: Observers::default() }
    }
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> Lock for LeaseLock<A> {
    type Object = Lease;

    fn resource(&self) -> ApiResource {
        Lease::api_resource()
    }

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn observers(&self) -> Observers {
        self.observers.clone()
    }

    async fn watch(&self) -> Result<Option<LockEvents<Lease>>, ApiError> {
        if self.watch {
            watch_one(&self.api, &self.key, |event| lock_event(event, locked)).await.map(Some)
        } else {
            Ok(None)
        }
    }

    async fn get(&self) -> Result<Option<LockSnapshot<Lease>>, ApiError> {
        self.api.get_opt(&self.key).await?.map(locked).transpose()
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<LockSnapshot<Lease>, ApiError> {
        let mut metadata = ObjectMeta::new(self.key.namespace().unwrap_or_default(), self.key.name());
        metadata.labels = self.labels.clone();
        locked(self.api.create(&Lease::new(metadata, record), &WriteOptions::default()).await?)
    }

    async fn update(&self, base: &Lease, record: &LeaderElectionRecord) -> Result<LockSnapshot<Lease>, ApiError> {
        comparable(base, "Lease")?;
        let mut lease = Lease::new(base.metadata.clone(), record);
        lease.spec = base.spec.clone();
        lease.spec.put(record);
        lease.metadata.labels.extend(self.labels.clone());
        locked(self.api.update(&lease, &WriteOptions::default()).await?)
    }
}

/// Returns the record and the version of a lease.
pub fn state_of(lease: &Lease) -> LockState {
    let version = Version { uid: lease.uid().into(), resource_version: lease.resource_version().into() };
    LockState { version, record: lease.spec.record(), raw: Some(lease.spec.unreadable_times.clone().into()) }
}

pub(crate) fn locked(lease: Lease) -> Result<LockSnapshot<Lease>, ApiError> {
    stored(&lease, "Lease")?;
    Ok(LockSnapshot { state: state_of(&lease), object: lease })
}

/// Returns an error if `base` has no uid or no resourceVersion. Without these fields, the server could not detect
/// conflicts. A write with an undetected conflict could overwrite the next leader's record or recreate a deleted
/// object.
pub(crate) fn comparable(base: &impl Object, kind: &str) -> Result<(), ApiError> {
    if base.uid().is_empty() || base.resource_version().is_empty() {
        let message = format!("{kind} {} cannot be updated without uid and resourceVersion", base.key());
        return Err(ApiError::invalid_request(message));
    }
    Ok(())
}

/// Returns an error if the server's response lacks a uid or a resourceVersion. The next write to the lock needs both fields
/// to detect conflicts.
pub(crate) fn stored(object: &impl Object, kind: &str) -> Result<(), ApiError> {
    if object.uid().is_empty() || object.resource_version().is_empty() {
        let message = format!("{kind} {} was returned without uid or resourceVersion", object.key());
        return Err(ApiError::decode(message));
    }
    Ok(())
}

pub(crate) fn lock_event<T: Object>(
    event: WatchEvent<T>,
    locked: impl Fn(T) -> Result<LockSnapshot<T>, ApiError>,
) -> Option<LockEvent<T>> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => locked(object).ok().map(LockEvent::Changed),
        WatchEvent::Deleted(object) => Some(LockEvent::Deleted { uid: object.uid().into() }),
        _ => None,
    }
}
