//! Snapshots of caches.

use std::sync::Arc;

use pintle_meta::{LabelSelector, Object, ObjectKey};

use crate::error::UnknownIndex;
use crate::index::{Index, NAMESPACE_INDEX, find};
use crate::iter::Iter;
use crate::store::Pin;
use crate::stored::Stored;

/// An immutable view of a cache's objects and indices at one moment.
///
/// Creating or cloning a snapshot does not block the cache. The cost of creating or cloning a snapshot does not depend
/// on the number of objects. A snapshot keeps its objects in memory, even if the cache has replaced or deleted them.
/// Use a snapshot for a single task and then drop it.
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
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///     let informer = SharedInformer::new(pods.clone(), InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let lister = informer.lister();
///     let before = lister.snapshot();
///     pods.remove(&ObjectKey::new("team-a", "web-1"));
///     let after = lister.read_at_least(&pods.revision().to_string()).await?;
///     assert_eq!((before.resource_version(), before.namespace("team-a").len()), ("1", 1));
///     assert!(after.is_empty());
///     let changes = after.diff(&before);
///     assert_eq!((changes[0].key.as_str(), changes[0].new.is_none()), ("team-a/web-1", true));
///     Ok(())
/// }
/// ```
pub struct Snapshot<T> {
    pin: Pin<Stored<T>>,
    indices: Arc<Vec<Index<T>>>,
    resource_version: String,
}

/// An object that differs between two snapshots: see [`Snapshot::diff`].
#[derive(Debug)]
pub struct Difference<T> {
    /// The key of the object.
    pub key: ObjectKey,
    /// The object in the older snapshot, or `None` if the object was added.
    pub old: Option<Arc<T>>,
    /// The object in the newer snapshot, or `None` if the object was deleted.
    pub new: Option<Arc<T>>,
}

impl<T> Snapshot<T> {
    pub(crate) fn new(pin: Pin<Stored<T>>, indices: Arc<Vec<Index<T>>>, resource_version: String) -> Self {
        Self { pin, indices, resource_version }
    }

    pub(crate) fn into_pin(self) -> Pin<Stored<T>> {
        self.pin
    }

    /// Returns the object with this key, if any.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.pin.get(key)?.into_read()
    }

    /// Returns an iterator over the objects, in no particular order. The iterator fetches a few objects at a time.
    pub fn iter(&self) -> Iter<T> {
        self.clone().into_iter()
    }

    /// Calls `each` with every object, in no particular order, like client-go's `ListAll`. This method is the fastest
    /// way to read all objects, because the `Arc`s of decoded objects are not cloned.
    pub fn for_each(&self, mut each: impl FnMut(&Arc<T>)) {
        self.pin.visit(|object| _ = object.look(&mut each));
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.pin.len()
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects whose labels match `selector`, in no particular order.
    pub fn select(&self, selector: &LabelSelector) -> Vec<Arc<T>>
    where
        T: Object,
    {
        let mut selected = Vec::new();
        if !selector.is_nothing() {
            self.pin.visit(|object| {
                if selector.matches(object.metadata().labels()) {
                    selected.extend(object.read());
                }
            });
        }
        selected
    }

    /// Returns the objects in a namespace, in no particular order. As in client-go, an empty `namespace` means all
    /// namespaces.
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        if namespace.is_empty() {
            return self.iter().collect();
        }
        self.by_index(NAMESPACE_INDEX, namespace).unwrap_or_default()
    }

    /// Returns the objects that have `value` in the index `name`, in no particular order.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownIndex`], which lists the existing indices, if the snapshot has no index `name`. A snapshot does
    /// not contain indices that were added after the snapshot was created.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let found = self.pin.of_term(self.index(name)?, value, |_, object| Some(object.clone()));
        Ok(found.into_iter().filter_map(Stored::into_read).collect())
    }

    /// Returns the keys of the objects that have `value` in the index `name`, in ascending order.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`by_index`](Self::by_index).
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        let mut keys = self.pin.of_term(self.index(name)?, value, |key, _| key.cloned());
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns all values in the index `name`, in ascending order.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`by_index`](Self::by_index).
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, UnknownIndex> {
        Ok(self.pin.values_of(self.index(name)?))
    }

    /// Returns the snapshot's revision, or an empty string before the first list. The snapshot contains all changes up
    /// to the returned revision.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// Returns the objects that differ from the older snapshot `since`, ordered by key. The differences include objects
    /// that were deleted. An object that was stored again counts as different, even if its content is the same.
    ///
    /// # Panics
    ///
    /// Panics if `since` is a snapshot of another cache.
    pub fn diff(&self, since: &Self) -> Vec<Difference<T>> {
        assert!(self.pin.is_of_same_store(&since.pin), "snapshots of different caches cannot be compared");
        let differences = self.pin.differences(&since.pin).into_iter();
        let mut differences: Vec<_> = differences.map(difference).collect();
        differences.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        differences
    }

    fn index(&self, name: &str) -> Result<u32, UnknownIndex> {
        find(&self.indices, name, self.pin.stamp())
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { pin: self.pin.clone(), indices: self.indices.clone(), resource_version: self.resource_version.clone() }
    }
}

pintle_meta::debug_struct!(Snapshot<T> |self| { len = self.len(), resource_version, .. });

impl<T> IntoIterator for Snapshot<T> {
    type Item = Arc<T>;
    type IntoIter = Iter<T>;

    fn into_iter(self) -> Iter<T> {
        Iter::of_snapshot(self.pin)
    }
}

impl<T> IntoIterator for &Snapshot<T> {
    type Item = Arc<T>;
    type IntoIter = Iter<T>;

    fn into_iter(self) -> Iter<T> {
        self.iter()
    }
}

fn difference<T>((key, old, new): (ObjectKey, Option<Stored<T>>, Option<Stored<T>>)) -> Difference<T> {
    Difference { key, old: old.and_then(Stored::into_read), new: new.and_then(Stored::into_read) }
}
