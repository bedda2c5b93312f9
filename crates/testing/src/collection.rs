//! In-memory collections of objects, which behave like a resource of an API server.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pintle_meta::__private::Mutex;
use pintle_meta::{
    ApiError, ApiResource, DeleteOptions, ListOptions, ListWatch, Object, ObjectApi, ObjectKey, Patch, Resource,
    WatchOptions, WriteOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::Client;
use crate::clock::SteppedClock;
use crate::events::{Events, Page};
use crate::faults::{Break, FaultScript};
use crate::request::RecordedRequest;
use crate::shared::{Shared, checked, decode, encode};
use crate::store::Store;

/// An in-memory store for the objects of one resource, with the same revisions, conflicts, watches and pages as an API
/// server. Clones refer to the same collection.
///
/// A collection implements [`ListWatch`](pintle_meta::ListWatch) and [`ObjectApi`](pintle_meta::ObjectApi), so it can
/// be passed directly to the code under test. If a component needs separate faults or a name in the request log, create
/// a [`Client`] for the component. Methods such as [`put`](Self::put) change the objects immediately, like requests of
/// another client. Faults do not apply to these methods.
///
/// A collection is deterministic: it derives uids and generated names from revisions, which count from 1. Object
/// timestamps come from a manually stepped clock. Only delayed responses need a tokio runtime. A collection stores all
/// past states and all requests, so its memory usage grows with each write and each request.
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

/// The configuration of a [`Collection`].
#[derive(Clone, Debug)]
pub struct CollectionConfig {
    /// The clock for creation and deletion timestamps. The time of the default clock is always 2027-01-15T08:00:00Z.
    pub clock: SteppedClock,
    /// Whether a list at revision "0" ignores the limit and returns all objects, like a list from a server with a watch
    /// cache. The default is `true`.
    pub watch_cache: bool,
    /// Additional fields for field selectors, such as `spec.color`, like `selectableFields` in a
    /// CustomResourceDefinition. The fields `metadata.name` and `metadata.namespace` are always supported. For a
    /// built-in kind, a collection also supports the fields that a real server supports, such as `spec.nodeName` for
    /// pods. The default is an empty list.
    pub selectable_fields: Vec<String>,
}

impl Default for CollectionConfig {
    fn default() -> Self {
        Self { clock: SteppedClock::new(), watch_cache: true, selectable_fields: Vec::new() }
    }
}

impl<T: Resource> Collection<T> {
    /// Creates an empty collection with the configuration `config`.
    pub fn new(config: CollectionConfig) -> Self {
        Self::dynamic(T::api_resource(), config)
    }
}

impl<T> Collection<T> {
    /// Creates an empty collection for `resource`. Use this method for types that are not tied to one resource, such as
    /// [`DynamicObject`](pintle_meta::DynamicObject).
    pub fn dynamic(resource: ApiResource, config: CollectionConfig) -> Self {
        let CollectionConfig { clock, watch_cache, selectable_fields } = config;
        let store = Mutex::new(Store::new(resource, watch_cache, selectable_fields));
        Self { shared: Arc::new(Shared { store, clock, faults: FaultScript::default() }), object: PhantomData }
    }

    /// Creates a client with its own fault script. The request log contains the client's requests under `name`.
    pub fn client(&self, name: &str) -> Client<T> {
        Client::new(self.shared.clone(), name, FaultScript::default())
    }

    /// Returns the fault script for the requests of all clients. The script of the client takes precedence over this
    /// script.
    pub fn faults(&self) -> &FaultScript {
        &self.shared.faults
    }

    /// Returns all requests from clients, oldest first.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.with(|store, _| store.requests.clone())
    }

    /// Returns the requests from clients since the last call of `take_requests`, oldest first.
    pub fn take_requests(&self) -> Vec<RecordedRequest> {
        self.shared.with(|store, _| std::mem::take(&mut store.requests))
    }

    /// Removes an object even if it has finalizers, and returns `true` if the object existed.
    pub fn remove(&self, key: &ObjectKey) -> bool {
        self.shared.with(|store, _| store.remove(key))
    }

    /// Creates or replaces an object with the given JSON, even if the JSON cannot be decoded as `T`.
    ///
    /// # Panics
    ///
    /// Panics if the object has no metadata, or if the name or the namespace is invalid for the resource.
    pub fn put_raw(&self, object: Value) {
        self.put_value(object);
    }

    /// Returns the newest revision.
    pub fn revision(&self) -> u64 {
        self.shared.with(|store, _| store.revision)
    }

    /// Increments the revision without causing an event. On a real server, changes to objects of other resources also
    /// increment the revision.
    pub fn advance(&self) {
        self.shared.with(|store, _| store.advance());
    }

    /// Compacts the history of the collection. Lists and watches that request an earlier revision then fail with the
    /// error for an expired revision. Watches that are already open continue.
    pub fn compact(&self) {
        self.shared.with(|store, _| store.compact());
    }

    /// Sends a bookmark to all watches that requested bookmarks.
    pub fn bookmark(&self) {
        self.shared.with(|store, _| store.bookmark());
    }

    /// Breaks all open watches in the way that `how` specifies. Each watch first delivers the events that happened
    /// before this call. A later call can end a watch that an earlier call has made silent.
    ///
    /// With [`Break::Silent`], the watches stay open but deliver no further events.
    pub fn break_watches(&self, how: Break) {
        self.shared.with(|store, _| store.break_watches(&how));
    }

    /// Returns the number of open watches, including silent watches.
    pub fn open_watches(&self) -> usize {
        self.shared.with(|store, _| store.open_watches())
    }

    #[track_caller]
    fn put_value(&self, object: Value) -> Value {
        unwrap_own(checked(object).and_then(|object| self.shared.with(|store, now| store.put(object, now))))
    }
}

impl<T: Object + Serialize + DeserializeOwned> Collection<T> {
    /// Creates or replaces an object including its status, and returns the stored object.
    ///
    /// `put` stores all values of the object, and fills in a missing uid, times and generation. The generation is
    /// incremented if anything except the metadata and the status changes. `put` never conflicts, because it sets the
    /// resourceVersion to the next revision.
    ///
    /// # Panics
    ///
    /// Panics if the name or the namespace is invalid for the resource, or if the object cannot be serialized to JSON
    /// or decoded from JSON.
    #[track_caller]
    pub fn put(&self, object: T) -> T {
        unwrap_own(decode(self.put_value(unwrap_own(encode(&object)))))
    }

    /// Applies `change` to the object with the key `key`, and stores the result like [`put`](Self::put). Calls `change`
    /// again if another caller writes the object at the same time.
    ///
    /// # Panics
    ///
    /// Panics if the object does not exist or if `put` panics.
    #[track_caller]
    pub fn change(&self, key: &ObjectKey, mut change: impl FnMut(&mut T)) -> T {
        let object = || self.shared.with(|store, _| store.object(key).cloned());
        loop {
            let Some(old) = object() else { panic!("object {key} does not exist") };
            let mut new: T = unwrap_own(decode(old.clone()));
            change(&mut new);
            let new = unwrap_own(encode(&new));
            let put = self.shared.with(|store, now| {
                let unchanged = store.object(key) == Some(&old);
                unchanged.then(|| store.put(new, now))
            });
            if let Some(put) = put {
                return unwrap_own(put.and_then(decode));
            }
        }
    }

    /// Returns the object with the key `key`, if it exists.
    ///
    /// # Panics
    ///
    /// Panics if the object cannot be decoded as `T`.
    #[track_caller]
    pub fn object(&self, key: &ObjectKey) -> Option<T> {
        let object = self.shared.with(|store, _| store.object(key).cloned())?;
        Some(unwrap_own(decode(object)))
    }

    /// Returns all objects, sorted by key.
    ///
    /// # Panics
    ///
    /// Panics if an object cannot be decoded as `T`.
    #[track_caller]
    pub fn objects(&self) -> Vec<T> {
        self.objects_at(u64::MAX)
    }

    /// Returns all objects as of `revision`, sorted by key. `revision` may be older than the last compaction.
    ///
    /// # Panics
    ///
    /// Panics if an object cannot be decoded as `T`.
    #[track_caller]
    pub fn objects_at(&self, revision: u64) -> Vec<T> {
        let objects = self.shared.with(|store, _| store.objects_at(revision));
        unwrap_own(objects.into_iter().map(decode).collect())
    }
}

/// Unwraps the result of a call by the test. Panics on an error, because only an incorrect test causes an error.
#[track_caller]
fn unwrap_own<T>(result: Result<T, ApiError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// Sends requests directly, as a client without a name and without a fault script would.
impl<T: 'static> ListWatch for Collection<T> {
    type Object = T;
    type Page = Page;
    type Events = Events;

    fn api_resource(&self) -> ApiResource {
        self.shared.with(|store, _| store.resource.clone())
    }

    fn namespace(&self) -> Option<&str> {
        None
    }

    async fn list(&self, options: &ListOptions) -> Result<Page, ApiError> {
        unnamed_client(self).list(options).await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Events, ApiError> {
        unnamed_client(self).watch(options).await
    }
}

/// Sends requests directly, as a client without a name and without a fault script would.
impl<T: Object + Serialize + DeserializeOwned> ObjectApi<T> for Collection<T> {
    async fn get(&self, key: &ObjectKey) -> Result<T, ApiError> {
        unnamed_client(self).get(key).await
    }

    async fn create(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        unnamed_client(self).create(object, options).await
    }

    async fn update(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        unnamed_client(self).update(object, options).await
    }

    async fn update_status(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        unnamed_client(self).update_status(object, options).await
    }

    async fn patch(&self, key: &ObjectKey, patch: &Patch, options: &WriteOptions) -> Result<T, ApiError> {
        unnamed_client(self).patch(key, patch, options).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        unnamed_client(self).delete(key, options).await
    }
}

fn unnamed_client<T>(collection: &Collection<T>) -> Client<T> {
    Client::new(collection.shared.clone(), "", collection.faults().clone())
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
