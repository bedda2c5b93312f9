//! Read access to the cache of an informer.

use std::fmt;
use std::sync::Arc;

use pintle_meta::{LabelSelector, Object, ObjectKey};

use crate::store::NAMESPACES;
use crate::user::User;
use crate::{Cache, HistoryGuard, NotReached, Remembered, Snapshot, Undecodable, UnknownIndex};

/// Read access to the cache of an informer. Cheap to clone.
///
/// What it gives is shared with everybody and is not to be changed: clone an object to alter it. A lister outlives its
/// informer, and then gives what the cache held last; one that an [`InformerFactory`](crate::InformerFactory) shares runs for as long as
/// its listers are there.
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
    /// Who has it, if the informer is a factory's.
    user: Option<User>,
}

impl<T: Object> Lister<T> {
    /// Reads from `cache`.
    pub fn new(cache: Arc<Cache<T>>) -> Self {
        Self::of(cache, None)
    }

    pub(crate) fn of(cache: Arc<Cache<T>>, user: Option<User>) -> Self {
        Self { cache, user }
    }

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.cache().get(key)
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.cache().list()
    }

    /// The objects whose labels match, in no particular order.
    pub fn select(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.snapshot().select(selector)
    }

    /// The objects of one namespace.
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, T> {
        NamespaceLister { cache: self.cache(), namespace }
    }

    /// The objects that have `value` in the index `name`, in no particular order.
    ///
    /// # Errors
    ///
    /// [`UnknownIndex`], which tells the names that there are.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        self.cache().by_index(name, value)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.cache().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cache().is_empty()
    }

    /// The objects that the server has and that cannot be decoded as a `T` or are larger than the source takes, or that a transform
    /// or its own `Metadata` panics on, in the order of their keys. See
    /// [`Cache::undecodable`] for what it waits.
    ///
    /// They keep nobody from being up to date with the others. Where an earlier state of one was good, the cache still
    /// has that one, since to lose it would read as its deletion. An entry goes when the object is mended or deleted.
    ///
    /// An object whose name cannot be read has no entry. It could be any, so nothing is concluded from a list that has one, nor
    /// from its event: the cache stays as it is, the informer's state says so, and the resource is listed again, later each time.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.cache().undecodable()
    }

    /// All that the cache holds now, to be read at leisure: see [`Cache::snapshot`].
    pub fn snapshot(&self) -> Snapshot<T> {
        self.cache().snapshot()
    }

    /// The revision up to which the cache has all changes; empty before the first list.
    pub fn resource_version(&self) -> String {
        self.cache().resource_version()
    }

    /// Waits until the cache has all changes up to `resource_version`: see [`Cache::wait_for`].
    ///
    /// # Errors
    ///
    /// As for [`Cache::wait_for`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for(&self, resource_version: &str) -> Result<(), NotReached> {
        self.cache().wait_for(resource_version).await
    }

    /// Waits as [`wait_for`](Self::wait_for) does, and gives what the cache holds then.
    ///
    /// # Errors
    ///
    /// As for [`wait_for`](Self::wait_for).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn read_at_least(&self, resource_version: &str) -> Result<Snapshot<T>, NotReached> {
        self.cache().read_at_least(resource_version).await
    }

    /// What has changed since the cache had a revision: see [`Cache::changes_since`].
    pub fn changes_since(&self, resource_version: &str) -> Option<Vec<Remembered<T>>> {
        self.cache().changes_since(resource_version)
    }

    /// Has the cache remember its last changes for as long as the guard is there: see [`Cache::remember`].
    pub fn remember(&self, changes: usize) -> HistoryGuard<T> {
        self.cache().remember(changes)
    }

    /// The cache, of which something is about to be read.
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

/// The part of a [`Lister`] that is in one namespace.
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
    /// The object of that name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.cache.get(&ObjectKey::new(self.namespace, name))
    }

    /// All objects of the namespace, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.cache.snapshot().namespace(self.namespace)
    }

    /// How many objects the namespace has.
    pub fn len(&self) -> usize {
        self.cache.store().pin(|_| ()).0.of_term(NAMESPACES, self.namespace, |_, _| Some(())).len()
    }

    /// Whether the namespace has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects of the namespace whose labels match, in no particular order.
    pub fn select(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut objects = self.list();
        objects.retain(|object| selector.matches(object.metadata().labels()));
        objects
    }
}
