//! Listers.

use std::fmt;
use std::sync::Arc;

use pintle_meta::{LabelSelector, Object, ObjectKey};

use crate::cache::Cache;
use crate::error::{NotReached, UnknownIndex};
use crate::objects::Objects;
use crate::snapshot::Snapshot;
use crate::store::NAMESPACES;
use crate::undecodable::Undecodable;
use crate::user::User;

/// Provides read access to an informer's cache. Listers are cheap to clone.
///
/// Objects are shared with all readers and are immutable. To modify an object, clone it. A lister can outlive its
/// informer, and then returns the last cached objects. If the informer comes from an
/// [`InformerFactory`](crate::InformerFactory), the lister keeps the informer running.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, ObjectKey, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1", "labels": {"app": "web"}}}));
///     pods.put_raw(json!({"metadata": {"namespace": "team-b", "name": "db-1", "labels": {"app": "db"}}}));
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let lister = informer.lister();
///     assert_eq!(lister.select(&"app in (web, shop)".parse()?)[0].metadata.name, "web-1");
///     assert_eq!(lister.namespace("team-b").list()[0].metadata.name, "db-1");
///     assert!(lister.get(&ObjectKey::new("team-a", "db-1")).is_none());
///     Ok(())
/// }
/// ```
pub struct Lister<T> {
    cache: Arc<Cache<T>>,
    user: Option<User>,
}

impl<T: Object> Lister<T> {
    /// Creates a lister that reads `cache`.
    pub fn new(cache: Arc<Cache<T>>) -> Self {
        Self::of(cache, None)
    }

    pub(crate) fn of(cache: Arc<Cache<T>>, user: Option<User>) -> Self {
        Self { cache, user }
    }

    /// Returns the object with this key, if any.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.cache().get(key)
    }

    /// Returns all objects, in no particular order. Listing 100,000 objects takes a few microseconds: see
    /// [`Cache::list`].
    pub fn list(&self) -> Objects<T> {
        self.cache().list()
    }

    /// Returns the objects whose labels match `selector`, in no particular order.
    pub fn select(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.snapshot().select(selector)
    }

    /// Returns a lister for one namespace. As in client-go, an empty `namespace` means all namespaces.
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, T> {
        NamespaceLister { cache: self.cache(), namespace }
    }

    /// Returns the objects that have `value` in the index `name`, in no particular order.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownIndex`], which lists the existing indices, if there is no index `name`.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        self.cache().by_index(name, value)
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.cache().len()
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.cache().is_empty()
    }

    /// Returns an entry for each object whose newest state is not in the cache. The entries are ordered by key. The
    /// newest state is missing if it cannot be decoded as a `T` or is larger than the source accepts. The newest state
    /// is also missing if a transform or the object's `Metadata` implementation panicked. Like [`Cache::undecodable`],
    /// this call may wait until the entries of the last commit are recorded.
    ///
    /// The cache keeps an earlier decodable state of an undecodable object, because without this state, the object would
    /// look deleted. An entry is removed when its object becomes decodable or is deleted. An undecodable object does not
    /// affect decodable objects.
    ///
    /// An object whose name cannot be read has no entry, because the cache cannot identify the object. The informer
    /// ignores a list or an event that contains an object without a readable name, so the cache does not change. The
    /// informer's state shows the error, and the informer lists again with increasing delays.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.cache().undecodable()
    }

    /// Returns a [snapshot](Cache::snapshot) of the cache.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.cache().snapshot()
    }

    /// Returns the cache's revision, or an empty string before the first list. The cache contains all changes up to the
    /// returned revision.
    pub fn resource_version(&self) -> String {
        self.cache().resource_version()
    }

    /// Waits until the cache contains all changes up to `resource_version`: see [`Cache::wait_for`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Cache::wait_for`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for(&self, resource_version: &str) -> Result<(), NotReached> {
        self.cache().wait_for(resource_version).await
    }

    /// Waits until the cache contains all changes up to `resource_version`, like [`wait_for`](Self::wait_for), and
    /// returns a snapshot of the cache.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`wait_for`](Self::wait_for).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn read_at_least(&self, resource_version: &str) -> Result<Snapshot<T>, NotReached> {
        self.cache().read_at_least(resource_version).await
    }

    /// Returns the cache so that the caller can read it. If the informer is shared through a factory, this method
    /// records the read.
    pub(crate) fn cache(&self) -> &Cache<T> {
        if let Some(user) = &self.user {
            user.reads(|| self.cache.is_indexing());
        }
        &self.cache
    }
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), user: self.user.as_ref().map(User::reader) }
    }
}

impl<T: Object> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lister").field(&self.cache).finish()
    }
}

/// A [`Lister`] for one namespace.
///
/// # Examples
///
/// ```
/// use pintle_informer::Lister;
/// use pintle_meta::PartialObject;
///
/// fn describe(pods: &Lister<PartialObject>) {
///     let team = pods.namespace("team-a");
///     println!("{} pods, web is there: {}", team.len(), team.get("web").is_some());
/// }
/// ```
pub struct NamespaceLister<'a, T> {
    cache: &'a Cache<T>,
    namespace: &'a str,
}

impl<T: Object> NamespaceLister<'_, T> {
    /// Returns the object with this name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.cache.get(&ObjectKey::new(self.namespace, name))
    }

    /// Returns all objects in the namespace, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.cache.snapshot().namespace(self.namespace)
    }

    /// Returns the number of objects in the namespace.
    pub fn len(&self) -> usize {
        if self.namespace.is_empty() {
            return self.cache.len();
        }
        self.cache.store.pin(|_| ()).0.of_term(NAMESPACES, self.namespace, |_, _| Some(())).len()
    }

    /// Returns `true` if the namespace has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects in the namespace whose labels match `selector`, in no particular order.
    pub fn select(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut objects = self.list();
        objects.retain(|object| selector.matches(object.metadata().labels()));
        objects
    }
}
