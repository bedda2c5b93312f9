//! Where the record is kept, and the lock in a Lease.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;
use pintle_meta::{ApiError, ApiResource, ListWatch, Object, ObjectApi, ObjectKey, ObjectMeta, Resource, WriteOptions};

use crate::watching::{lock_event, watch_one};
use crate::{LeaderElectionRecord, Lease, LockState, Observers, TimePrecision, Token, Version};

/// Where the record is kept: the `resourcelock.Interface` of client-go.
///
/// A lock only reads and writes; it decides nothing and remembers nothing.
///
/// # Cancel safety
///
/// Dropping a future gives up the request; whether a write was done is then unknown.
///
/// # Examples
///
/// A lock in memory, and an election by it:
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
///     /// Stores the record, if what is stored has the resourceVersion `base`.
///     fn put(&self, base: Option<&String>, record: &LeaderElectionRecord) -> Result<LockSnapshot<String>, ApiError> {
///         let mut stored = self.stored.lock().unwrap();
///         let found = stored.as_ref().map(|state| &state.version.resource_version);
///         if found != base {
///             return Err(ApiError::from(Status::failure(409, Reason::Conflict, "it has changed")));
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
    /// The stored object. A write keeps all of it that is not the record.
    type Object: Send + Sync + 'static;

    /// What kind of object it is.
    fn resource(&self) -> ApiResource;

    /// Which object it is.
    fn key(&self) -> &ObjectKey;

    /// How finely it stores times.
    fn time_precision(&self) -> TimePrecision {
        TimePrecision::Micros
    }

    /// The fencing token of a term that began with that state. Returns at once.
    fn token(&self, began: &LockState) -> Option<Token> {
        Token::of(&began.version)
    }

    /// Whether a control plane can say who holds it, as in a [coordinated](crate::LeaderElectionConfig::coordinated) election. `true` by
    /// default; only a Lease can be given.
    fn can_be_coordinated(&self) -> bool {
        true
    }

    /// Where the electors of this lock report. Nowhere by default.
    fn observers(&self) -> Observers {
        Observers::default()
    }

    /// Watches the object, from its present state on. The stream ends when the watch does; the elector opens another one, later
    /// and later where that fails. None, the default: there is no watch, and the elector polls.
    ///
    /// What it tells may be old. It makes an elector act sooner, and no election depends on it.
    fn watch(&self) -> impl Future<Output = Result<Option<LockEvents<Self::Object>>, ApiError>> + Send {
        async { Ok(None) }
    }

    /// Reads the newest state; none if the object does not exist.
    fn get(&self) -> impl Future<Output = Result<Option<LockSnapshot<Self::Object>>, ApiError>> + Send;

    /// Creates the object, and fails if it exists.
    fn create(
        &self,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<LockSnapshot<Self::Object>, ApiError>> + Send;

    /// Replaces the record in `base`, and fails if the object is no longer `base`.
    fn update(
        &self,
        base: &Self::Object,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<LockSnapshot<Self::Object>, ApiError>> + Send;
}

/// What a watch of a lock tells.
pub type LockEvents<O> = Pin<Box<dyn Stream<Item = LockEvent<O>> + Send>>;

/// What happened to a lock.
#[derive(Clone, Debug)]
pub enum LockEvent<O> {
    /// The object is, or was, like this.
    Changed(LockSnapshot<O>),
    /// The object of this uid is gone.
    Deleted {
        /// The uid.
        uid: String,
    },
    /// It may be free: worth a look.
    MaybeChanged,
}

/// A stored object, and the record in it.
#[derive(Clone, Debug)]
pub struct LockSnapshot<O> {
    /// The record and its version.
    pub state: LockState,
    /// The object.
    pub object: O,
}

/// A [`Lock`] in a [`Lease`].
///
/// Give it a client of its own, whose limiter the work does not share: the term may end while a renewal waits behind the
/// requests of the work.
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
    /// Reads, writes and watches the lease.
    pub api: A,
    /// The lease. The elector creates it if it does not exist.
    pub key: ObjectKey,
    /// The labels to put on the lease with each write. Its other labels are kept.
    pub labels: BTreeMap<String, String>,
    /// Whether the lease is watched, so that a release is noticed at once; true by default. While the watch is refused, fails or keeps
    /// silent, the elector polls.
    pub watch: bool,
    /// Where its electors report. Nowhere by default.
    pub observers: Observers,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> LeaseLock<A> {
    /// The lease `name` in `namespace`, without labels.
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
        match self.watch {
            true => watch_one(&self.api, &self.key, |event| lock_event(event, locked)).await.map(Some),
            false => Ok(None),
        }
    }

    async fn get(&self) -> Result<Option<LockSnapshot<Lease>>, ApiError> {
        match self.api.get(&self.key).await {
            Ok(lease) => locked(lease).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
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

/// The record of a lease with its version.
pub(crate) fn state_of(lease: &Lease) -> LockState {
    let version = Version { uid: lease.uid().into(), resource_version: lease.resource_version().into() };
    LockState { version, record: lease.spec.record(), raw: Some(lease.spec.unreadable_times.clone().into()) }
}

pub(crate) fn locked(lease: Lease) -> Result<LockSnapshot<Lease>, ApiError> {
    stored(&lease, "Lease")?;
    Ok(LockSnapshot { state: state_of(&lease), object: lease })
}

/// Refuses a write that a server could not compare with what it has: it would overwrite a successor's record, or bring a
/// deleted object back.
pub(crate) fn comparable(base: &impl Object, kind: &str) -> Result<(), ApiError> {
    if base.uid().is_empty() || base.resource_version().is_empty() {
        let told = format!("{kind} {} has no uid or no resourceVersion to compare with", base.key());
        return Err(ApiError::invalid_request(told));
    }
    Ok(())
}

/// Checks that a server's answer can be the base of a write.
pub(crate) fn stored(object: &impl Object, kind: &str) -> Result<(), ApiError> {
    if object.uid().is_empty() || object.resource_version().is_empty() {
        let told = format!("{kind} {} came without uid or resourceVersion", object.key());
        return Err(ApiError::decode(told));
    }
    Ok(())
}
