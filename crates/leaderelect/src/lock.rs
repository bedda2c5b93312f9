//! The `Lock` trait, and locks in Leases.

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
/// A lock only reads and writes the record. A lock makes no decisions and has no state of its own.
///
/// # Cancel safety
///
/// Dropping a future cancels its request. The server may or may not have stored a cancelled write.
///
/// # Examples
///
/// A lock in memory, and an election with this lock:
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
    /// The stored object. A write changes only the record in this object.
    type Object: Send + Sync + 'static;

    /// Returns the resource type of the object that stores the record.
    fn resource(&self) -> ApiResource;

    /// Returns the key of the object that stores the record.
    fn key(&self) -> &ObjectKey;

    /// Returns the precision of the lock's stored times. The default is microseconds.
    fn time_precision(&self) -> TimePrecision {
        TimePrecision::Micros
    }

    /// Returns the fencing token of a term that began with the state `began`. Implementations must not block.
    fn token(&self, began: &LockState) -> Option<Token> {
        Token::of(&began.version)
    }

    /// Returns `true` if this lock supports [coordinated](crate::LeaderElectionConfig::coordinated) elections, in which the control plane
    /// chooses the holder. Only locks in Leases support coordinated elections. The default is `true`.
    fn can_be_coordinated(&self) -> bool {
        true
    }

    /// Returns the metrics provider and the event hook for electors whose configuration does not set them. By default,
    /// both are `None`.
    fn observers(&self) -> Observers {
        Observers::default()
    }

    /// Watches the object that stores the record. The first event contains the object's current state. When the stream
    /// ends, the elector opens another watch. After failures, the pauses between attempts grow. The default
    /// implementation returns `None`, which means that the lock has no watch and the elector polls the lock.
    ///
    /// Events may be stale. Events only make an elector act sooner, and no decision is based only on events.
    fn watch(&self) -> impl Future<Output = Result<Option<LockEvents<Self::Object>>, ApiError>> + Send {
        async { Ok(None) }
    }

    /// Reads the object's current state. Returns `None` if the object does not exist.
    fn get(&self) -> impl Future<Output = Result<Option<LockSnapshot<Self::Object>>, ApiError>> + Send;

    /// Creates the object with the record. Fails if the object exists.
    fn create(
        &self,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<LockSnapshot<Self::Object>, ApiError>> + Send;

    /// Replaces the record in the object `base`. Fails if the stored object has changed since `base` was read.
    fn update(
        &self,
        base: &Self::Object,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<LockSnapshot<Self::Object>, ApiError>> + Send;
}

/// The stream of a lock's watch events.
pub type LockEvents<O> = Pin<Box<dyn Stream<Item = LockEvent<O>> + Send>>;

/// A watch event of a lock.
#[derive(Clone, Debug)]
pub enum LockEvent<O> {
    /// The object was created or changed. The snapshot contains the object's state at the time of the event.
    Changed(LockSnapshot<O>),
    /// The object was deleted.
    Deleted {
        /// The uid of the deleted object.
        uid: String,
    },
    /// The lock may have changed. The elector should read the lock.
    MaybeChanged,
}

/// An object that stores a record, and this record.
#[derive(Clone, Debug)]
pub struct LockSnapshot<O> {
    /// The record and its version.
    pub state: LockState,
    /// The object, which is the base of the next write.
    pub object: O,
}

/// A [`Lock`] in a [`Lease`].
///
/// Use a separate client for the lock. If the leader's work used the same client, the client's rate limiter might delay
/// a renewal until the term ends.
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
    /// The API through which the lock reads, writes and watches the lease.
    pub api: A,
    /// The key of the lease. The elector creates the lease if it does not exist.
    pub key: ObjectKey,
    /// Labels that each write sets on the lease. Other labels are kept.
    pub labels: BTreeMap<String, String>,
    /// Whether the elector watches the lease, to detect its release immediately. The default is `true`. If the watch is
    /// forbidden, fails or reports no events, the elector polls the lease instead.
    pub watch: bool,
    /// The metrics provider and the event hook for electors whose configuration does not set them. By default, both are
    /// `None`.
    pub observers: Observers,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> LeaseLock<A> {
    /// Creates a lock without labels for the lease `name` in `namespace`.
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
        match self.api.get(&self.key).await {
            Ok(lease) => locked(lease).map(Some),
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) => Err(error),
        }
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

/// Returns a lease's record and version.
pub fn state_of(lease: &Lease) -> LockState {
    let version = Version { uid: lease.uid().into(), resource_version: lease.resource_version().into() };
    LockState { version, record: lease.spec.record(), raw: Some(lease.spec.unreadable_times.clone().into()) }
}

pub(crate) fn locked(lease: Lease) -> Result<LockSnapshot<Lease>, ApiError> {
    stored(&lease, "Lease")?;
    Ok(LockSnapshot { state: state_of(&lease), object: lease })
}

/// Rejects an object without uid or resourceVersion as the base of a write. The server could not detect a conflict
/// without these fields. The write could then overwrite the next leader's record or recreate a deleted object.
pub(crate) fn comparable(base: &impl Object, kind: &str) -> Result<(), ApiError> {
    if base.uid().is_empty() || base.resource_version().is_empty() {
        let message = format!("{kind} {} cannot be updated without uid and resourceVersion", base.key());
        return Err(ApiError::invalid_request(message));
    }
    Ok(())
}

/// Checks that an object in the server's response has a uid and a resourceVersion. Only an object with both can be the
/// base of a write.
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
