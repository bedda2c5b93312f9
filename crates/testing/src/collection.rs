//! The objects of one resource, as a server keeps them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use jiff::Timestamp;
use pintle_meta::{ApiError, ApiResource, Object, ObjectKey, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::store::{Store, key_of};
use crate::{Break, Client, FaultScript, RecordedRequest, SteppedClock};

/// The objects of one resource in memory, as an API server keeps them: with revisions, conflicts, watches, pages. Clones are handles.
///
/// It is a [`ListWatch`](pintle_meta::ListWatch) and an [`ObjectApi`](pintle_meta::ObjectApi), so it goes wherever code asks for
/// one. Who is to be told apart, or to fail apart, asks as a [`Client`] of it. What is done here by the methods of the collection
/// itself is done by somebody else, at once, and never fails.
///
/// Everything about it is determined: revisions count from 1, uids and generated names come from revisions, times from a clock
/// that a test steps. It needs no runtime, save for answers that are slow. It forgets nothing: it grows with each write and request.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ObjectApi, ObjectKey, ObjectMeta, WriteOptions};
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     theme: String,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog"), theme: "dark".into() }]);
/// let key = ObjectKey::new("team-a", "blog");
///
/// let mut mine = sites.get(&key).await?;
/// sites.change(&key, |site| site.theme = "light".into());
/// mine.theme = "loud".into();
/// let error = sites.update(&mine, &WriteOptions::default()).await.unwrap_err();
/// assert!(error.is_conflict());
/// assert_eq!(sites.object(&key).unwrap().theme, "light");
/// # Ok(())
/// # }
/// ```
pub struct Collection<T> {
    pub(crate) shared: Arc<Shared>,
    object: PhantomData<fn() -> T>,
}

/// How a [`Collection`] differs from the usual.
#[derive(Clone, Debug)]
pub struct CollectionConfig {
    /// Where the times of creation and deletion come from. The default stands still at 2027-01-15T08:00:00Z.
    pub clock: SteppedClock,
    /// Whether lists at revision "0" come whole, whatever their limit, as from a server that has a watch cache. They do by default.
    pub watch_cache: bool,
    /// The fields that field selectors may name, such as `spec.color`: the `selectableFields` of a custom resource. Besides these,
    /// `metadata.name` and `metadata.namespace` may be named, and of the kinds of Kubernetes what a server selects by, such as the
    /// `spec.nodeName` of pods. None by default.
    pub selectable_fields: Vec<String>,
}

/// The part that does not depend on the type of the objects.
pub(crate) struct Shared {
    store: Mutex<Store>,
    clock: SteppedClock,
    /// Those of all requests.
    pub(crate) faults: FaultScript,
}

impl Default for CollectionConfig {
    fn default() -> Self {
        Self { clock: SteppedClock::new(), watch_cache: true, selectable_fields: Vec::new() }
    }
}

impl<T: Resource> Collection<T> {
    /// An empty one. [`default`](Self::default) gives one that is as usual.
    pub fn new(config: CollectionConfig) -> Self {
        Self::dynamic(T::api_resource(), config)
    }
}

impl<T> Collection<T> {
    /// An empty one of a resource that its type does not tell: say, of [`DynamicObject`](pintle_meta::DynamicObject)s.
    pub fn dynamic(resource: ApiResource, config: CollectionConfig) -> Self {
        let CollectionConfig { clock, watch_cache, selectable_fields } = config;
        let store = Mutex::new(Store::new(resource, watch_cache, selectable_fields));
        Self { shared: Arc::new(Shared { store, clock, faults: FaultScript::default() }), object: PhantomData }
    }

    /// One more client of the server, with faults of its own. The name tells its requests from those of others in the log.
    pub fn client(&self, name: &str) -> Client<T> {
        Client::new(self.clone(), name, FaultScript::default())
    }

    /// What the requests of all clients meet that meet no fault of their client.
    pub fn faults(&self) -> &FaultScript {
        &self.shared.faults
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.with(|store, _| store.requests.clone())
    }

    /// The requests since the last call, in order.
    pub fn take_requests(&self) -> Vec<RecordedRequest> {
        self.shared.with(|store, _| std::mem::take(&mut store.requests))
    }

    /// Takes an object away, whatever finalizers it has. Tells whether it was there.
    pub fn remove(&self, key: &ObjectKey) -> bool {
        self.shared.with(|store, _| store.remove(key))
    }

    /// Creates or replaces an object that need not be a `T`: say, one that cannot be decoded as one.
    ///
    /// # Panics
    ///
    /// If it has no metadata, or no name and namespace as the resource wants them.
    pub fn put_raw(&self, object: Value) {
        self.put_value(object);
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.shared.with(|store, _| store.revision)
    }

    /// Some object of another resource changes: the revision goes up, and nobody hears of it.
    pub fn advance(&self) {
        self.shared.with(|store, _| store.advance());
    }

    /// Forgets the past. Who lists or watches from a revision before the present one is told that it has expired; open watches go on.
    pub fn compact(&self) {
        self.shared.with(|store, _| store.compact());
    }

    /// Sends a bookmark to all watches that allow it.
    pub fn bookmark(&self) {
        self.shared.with(|store, _| store.bookmark());
    }

    /// Breaks all open watches, after what was to be told up to now. A watch that has fallen silent can be broken once more.
    ///
    /// With [`Break::Silent`], watches do not hear of what comes later.
    pub fn break_watches(&self, how: Break) {
        self.shared.with(|store, _| store.break_watches(&how));
    }

    /// How many watches are open, silent ones included.
    pub fn open_watches(&self) -> usize {
        self.shared.with(|store, _| store.open_watches())
    }

    #[track_caller]
    fn put_value(&self, object: Value) -> Value {
        sound(checked(object).and_then(|object| self.shared.with(|store, now| store.put(object, now))))
    }
}

impl<T: Object + Serialize + DeserializeOwned> Collection<T> {
    /// Creates or replaces an object, status included, and returns it as stored.
    ///
    /// It is taken as it is. What it lacks is filled in: the uid, times, and the generation, which goes up where anything but
    /// metadata and status changes. The resourceVersion is always the next one; there are no conflicts here.
    ///
    /// # Panics
    ///
    /// If it has no name and namespace as the resource wants them, or cannot be written as JSON or read back.
    #[track_caller]
    pub fn put(&self, object: T) -> T {
        sound(decode(self.put_value(sound(encode(&object)))))
    }

    /// Changes the object of that key, as [`put`](Self::put) does. `change` is called again if the object is written meanwhile.
    ///
    /// # Panics
    ///
    /// If there is no such object; else as `put`.
    #[track_caller]
    pub fn change(&self, key: &ObjectKey, mut change: impl FnMut(&mut T)) -> T {
        let object = || self.shared.with(|store, _| store.object(key).cloned());
        loop {
            let Some(old) = object() else { panic!("there is no object {key}") };
            let mut new: T = sound(decode(old.clone()));
            change(&mut new);
            let new = sound(encode(&new));
            let put = self.shared.with(|store, now| {
                let unchanged = store.object(key) == Some(&old);
                unchanged.then(|| store.put(new, now))
            });
            if let Some(put) = put {
                return sound(put.and_then(decode));
            }
        }
    }

    /// The object of that key, if there is one.
    ///
    /// # Panics
    ///
    /// If it is no `T`.
    #[track_caller]
    pub fn object(&self, key: &ObjectKey) -> Option<T> {
        let object = self.shared.with(|store, _| store.object(key).cloned())?;
        Some(sound(decode(object)))
    }

    /// All objects, in the order of their keys.
    ///
    /// # Panics
    ///
    /// If one is no `T`.
    #[track_caller]
    pub fn objects(&self) -> Vec<T> {
        self.objects_at(u64::MAX)
    }

    /// All objects as they were after that revision, in the order of their keys. Compacting forgets nothing here.
    ///
    /// # Panics
    ///
    /// If one is no `T`.
    #[track_caller]
    pub fn objects_at(&self, revision: u64) -> Vec<T> {
        let objects = self.shared.with(|store, _| store.objects_at(revision));
        sound(objects.into_iter().map(decode).collect())
    }
}

impl Shared {
    /// Looks at the store, or changes it, and then wakes whom that concerns. `act` runs under the lock: nobody's code but ours.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Store, Timestamp) -> R) -> R {
        let now = self.clock.wall();
        let (result, wakers) = {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            let result = act(&mut store, now);
            (result, store.take_wakers())
        };
        wakers.into_iter().for_each(Waker::wake);
        result
    }
}

/// The JSON of an object of the API.
pub(crate) fn encode<T: Serialize>(object: &T) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(ApiError::invalid_request).and_then(checked)
}

pub(crate) fn decode<T: DeserializeOwned>(object: Value) -> Result<T, ApiError> {
    let key = key_of(&object);
    serde_json::from_value(object).map_err(|error| ApiError::decode(format!("{key}: {error}")))
}

fn checked(object: Value) -> Result<Value, ApiError> {
    match object["metadata"].is_object() {
        true => Ok(object),
        false => Err(ApiError::invalid_request("an object without metadata")),
    }
}

/// What the test itself has brought: an error is a slip of its own.
#[track_caller]
fn sound<T>(result: Result<T, ApiError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), object: PhantomData }
    }
}

impl<T: Resource> Default for Collection<T> {
    fn default() -> Self {
        Self::new(CollectionConfig::default())
    }
}

impl<T: Resource + Serialize + DeserializeOwned> FromIterator<T> for Collection<T> {
    /// A collection of these objects, [`put`](Collection::put) in their order.
    fn from_iter<I: IntoIterator<Item = T>>(objects: I) -> Self {
        let collection = Self::default();
        objects.into_iter().for_each(|object| _ = collection.put(object));
        collection
    }
}

impl<T: Resource + Serialize + DeserializeOwned, const N: usize> From<[T; N]> for Collection<T> {
    fn from(objects: [T; N]) -> Self {
        objects.into_iter().collect()
    }
}

impl<T> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, revision, len) =
            self.shared.with(|store, _| (store.resource.to_string(), store.revision, store.len()));
        f.debug_struct("Collection")
            .field("resource", &resource)
            .field("revision", &revision)
            .field("len", &len)
            .finish_non_exhaustive()
    }
}
