//! A lister that shows the writes of this process before the watch delivers them.

mod own_writes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_meta::__private::RwLock;
use pintle_meta::{LabelSelector, Object, ObjectApi, ObjectKey};

use crate::cache::Cache;
use crate::clock::now;
use crate::error::UnknownIndex;
use crate::index::NAMESPACE_INDEX;
use crate::lister::Lister;

pub use self::own_writes::OwnWrites;

/// A [`Lister`] that shows this process's writes immediately. All clones of an overlay share the observed writes.
///
/// The overlay observes writes through a wrapped [API](Self::api). Alternatively, the caller can pass the server's
/// responses to [`wrote`](Self::wrote) and [`deleted`](Self::deleted). Reads return a written object until the write
/// arrives in the cache. Reads never wait. The overlay shows writes of other clients when the cache receives them.
///
/// # Guarantees
///
/// The following guarantees apply only if resourceVersions are numbers. After this process has written an object, reads
/// of the object's key have the following results:
///
/// - After a write with version *w*, reads return the written object while the versions of the cache and of the cached
///   object are both below *w*. When one of these versions has reached *w*, reads return the cached object, which is
///   the written object or a later state.
/// - After a deletion of an object with uid *u* and last known version *v*, reads return no object while the cache's
///   version is below *v* or the cached object has the uid *u*. In all other cases, reads return the cached state: no
///   object, or a different object with the same name.
///
/// If an informer watches several [namespaces](crate::SharedInformer::of_namespaces), each namespace has its own
/// version.
///
/// A read never returns an older state than this process's last write to the same key. The guarantee for reads also
/// applies to each object that [`list`](Self::list) returns. All objects in a list that this process has not written
/// come from the same snapshot of the cache.
///
/// The guarantee for a write ends when the write is older than [`max_age`](OverlayConfig::max_age), or if there are more
/// than [`capacity`](OverlayConfig::capacity) writes that the cache has not received yet. After the guarantee has ended,
/// reads return the cached object, even if the cached object is older than the write.
///
/// Lookups by [index](Self::by_index) also include the writes, because the overlay calls the index function for each
/// written object.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, Overlay, OverlayConfig, SharedInformer};
/// use pintle_meta::{ObjectKey, ObjectMeta};
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     owner: String,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let websites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog"), owner: "ann".into() }]);
///     let informer = SharedInformer::new(websites.clone(), InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///     let sites = Overlay::new(informer.lister(), OverlayConfig::default());
///
///     let blog = ObjectKey::new("team-a", "blog");
///     let answer = websites.change(&blog, |site| site.owner = "bob".into());
///     sites.wrote(answer);
///     assert_eq!(informer.lister().get(&blog).unwrap().owner, "ann"); // The watch has not brought it yet.
///     assert_eq!(sites.get(&blog).unwrap().owner, "bob");
///     Ok(())
/// }
/// ```
pub struct Overlay<T> {
    lister: Lister<T>,
    writes: Arc<RwLock<Writes<T>>>,
}

/// The limits of an [`Overlay`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_informer::OverlayConfig;
///
/// let config = OverlayConfig { max_age: Duration::from_secs(10), ..OverlayConfig::default() };
/// assert_eq!(config.capacity, 65_536);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayConfig {
    /// The maximum number of keys whose last write has not reached the cache. If there are more keys, the overlay
    /// evicts the oldest writes. The default is 65,536.
    ///
    /// When the number of stored writes has doubled, the overlay removes writes that are older than `max_age`, and
    /// creations and updates that have reached the cache. Up to 1,024 writes are always kept in memory.
    pub capacity: usize,
    /// The maximum time for which the overlay shows a write. `max_age` matters for writes that the watch never
    /// delivers. For example, the watch does not deliver writes to objects that do not match the informer's selectors.
    /// The default is one minute.
    pub max_age: Duration,
}

/// The maximum number of writes that the overlay keeps without checking whether they are still needed.
const KEPT: usize = 1_024;

struct Writes<T> {
    config: OverlayConfig,
    /// If the overlay has more writes, it looks for writes that it can remove.
    sweep_above: usize,
    by_key: HashMap<ObjectKey, Write<T>>,
}

struct Write<T> {
    object: Arc<T>,
    /// A copy of the object's uid, because reading the uid from the object runs user code, which must not run while the
    /// lock is held.
    uid: Arc<str>,
    version: u64,
    is_deleted: bool,
    at: Instant,
}

impl<T> Clone for Write<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), uid: self.uid.clone(), ..*self }
    }
}

impl<T> Write<T> {
    /// Returns the object that a read returns, given the cache's version and the cached object. `None` means that the
    /// read returns the cached object. `Some(None)` means that the read returns no object.
    fn shown(&self, cache_version: u64, cached: Option<&T>) -> Option<Option<&Arc<T>>>
    where
        T: Object,
    {
        // The caller reads `cache_version` before `cached`, so `cached` may be newer than this version.
        let is_later = |cached: &T| cached.resource_version().parse().is_ok_and(|version: u64| version >= self.version);
        let is_behind = cache_version < self.version && !cached.is_some_and(is_later);
        if !self.is_deleted {
            return is_behind.then_some(Some(&self.object));
        }
        let is_there = cached.is_some_and(|cached| cached.uid() == &*self.uid);
        (is_behind || is_there).then_some(None)
    }
}

impl<T: Object> Overlay<T> {
    /// Creates an overlay over `lister`.
    pub fn new(lister: Lister<T>, config: OverlayConfig) -> Self {
        let sweep_above = config.capacity.min(KEPT);
        Self { lister, writes: Arc::new(RwLock::new(Writes { config, sweep_above, by_key: HashMap::new() })) }
    }

    /// Wraps `api` so that its writes are reported to this overlay.
    pub fn api<A: ObjectApi<T>>(&self, api: A) -> OwnWrites<A, T> {
        OwnWrites::new(api, self.clone())
    }

    /// Reports the server's response to a create, update or patch. Responses may be reported in any order. The response
    /// with the highest version takes precedence, and a deleted object does not reappear.
    ///
    /// This method ignores the object and returns `false` if the object's resourceVersion is not a number. Without a
    /// numeric resourceVersion, the overlay cannot determine when the cache contains the write.
    pub fn wrote(&self, object: impl Into<Arc<T>>) -> bool {
        self.record(object.into(), false)
    }

    /// Reports that an object was deleted. `object` is the last known state of the deleted object. If the object still
    /// has finalizers, use [`wrote`](Self::wrote) instead.
    ///
    /// Like [`wrote`](Self::wrote), this method ignores the object and returns `false` if its resourceVersion is not a
    /// number.
    pub fn deleted(&self, object: impl Into<Arc<T>>) -> bool {
        self.record(object.into(), true)
    }

    fn record(&self, object: Arc<T>, is_deleted: bool) -> bool {
        let Ok(version) = object.resource_version().parse() else { return false };
        let (key, uid): (_, Arc<str>) = (object.key(), object.uid().into());
        let at = now();
        // Drop the values after releasing the lock, because dropping them can run user-defined `Drop` code.
        let mut done = Vec::new();
        let cache = self.lister.cache();
        let mut writes = self.writes.write();
        let is_stale = writes.by_key.get(&key).is_some_and(|known| {
            let is_same = known.uid == uid;
            if is_same && known.is_deleted != is_deleted { known.is_deleted } else { known.version > version }
        });
        if !is_stale {
            done.extend(writes.by_key.insert(key, Write { object, uid, version, is_deleted, at }));
        }
        done.extend(writes.make_room(at, |key| version_of(cache, key)));
        drop(writes);
        true
    }

    /// Returns the object with this key, if any.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        let write = self.writes.read().current(key, now()).cloned();
        let Some(write) = write else { return self.lister.get(key) };
        // Read the version before the object, so that the object contains all changes up to this version. The object may
        // also contain later changes.
        let version = self.version_of(key);
        let cached = self.lister.get(key);
        match write.shown(version, cached.as_deref()) {
            Some(shown) => shown.cloned(),
            None => cached,
        }
    }

    /// Returns all objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        // Copy the overlay's writes before reading the cache. If the cache were read first, the watch could deliver a
        // write between the two reads, and the result would lack this write.
        let mut writes = self.versioned();
        let snapshot = self.lister.snapshot();
        let mut objects: Vec<Arc<T>> = snapshot.into_iter().collect();
        if writes.is_empty() {
            return objects;
        }
        objects.retain_mut(|object| {
            let Some((write, version)) = writes.remove(&object.key()) else { return true };
            match write.shown(version, Some(object)) {
                None => true,
                Some(None) => false,
                Some(Some(written)) => {
                    *object = written.clone();
                    true
                }
            }
        });
        objects.extend(writes.values().filter_map(|(write, version)| write.shown(*version, None).flatten().cloned()));
        objects
    }

    /// Returns the objects that have `value` in the index `name`, in no particular order. The overlay calls the index
    /// function for each written object. If the function fails or panics, the written object has no values in the
    /// index.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownIndex`], which lists the existing indices, if there is no index `name`.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let writes = self.versioned();
        let snapshot = self.lister.snapshot();
        let mut objects = snapshot.by_index(name, value)?;
        for (key, (write, version)) in writes {
            let Some(shown) = write.shown(version, snapshot.get(&key).as_deref()) else { continue };
            objects.retain(|object| object.key() != key);
            let has_value = |object: &&Arc<T>| self.lister.cache().has_value(name, value, &key, object);
            objects.extend(shown.filter(has_value).cloned());
        }
        Ok(objects)
    }

    /// Returns the objects in a namespace, in no particular order. As in client-go, an empty `namespace` means all
    /// namespaces.
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        if namespace.is_empty() {
            return self.list();
        }
        self.by_index(NAMESPACE_INDEX, namespace).unwrap_or_default()
    }

    /// Returns the objects whose labels match `selector`, in no particular order.
    pub fn select(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut objects = self.list();
        objects.retain(|object| selector.matches(object.metadata().labels()));
        objects
    }

    /// Returns the underlying lister. Reads through the returned lister do not include the overlay's writes.
    pub fn lister(&self) -> &Lister<T> {
        &self.lister
    }

    /// Returns the number of keys whose last write may not be in the cache yet.
    pub fn len(&self) -> usize {
        let ahead = |(key, write): &(ObjectKey, Write<T>)| {
            write.shown(self.version_of(key), self.lister.get(key).as_deref()).is_some()
        };
        self.current(now()).iter().filter(|write| ahead(write)).count()
    }

    /// Returns `true` if the cache contains all recent writes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn versioned(&self) -> HashMap<ObjectKey, (Write<T>, u64)> {
        let versioned = |(key, write): (ObjectKey, Write<T>)| {
            let version = self.version_of(&key);
            (key, (write, version))
        };
        self.current(now()).into_iter().map(versioned).collect()
    }

    /// Copies the recent writes. The caller can then call the objects' methods, which are user code, without holding the
    /// lock.
    fn current(&self, now: Instant) -> Vec<(ObjectKey, Write<T>)> {
        let writes = self.writes.read();
        let current = writes.by_key.iter().filter(|(_, write)| writes.is_current(write, now));
        current.map(|(key, write)| (key.clone(), write.clone())).collect()
    }

    /// Returns the version up to which the cache contains all changes of one key. The version of a key may be higher
    /// than the version of the cache.
    fn version_of(&self, key: &ObjectKey) -> u64 {
        version_of(self.lister.cache(), key)
    }
}

impl<T> Writes<T> {
    fn current(&self, key: &ObjectKey, now: Instant) -> Option<&Write<T>> {
        self.by_key.get(key).filter(|write| self.is_current(write, now))
    }

    fn is_current(&self, write: &Write<T>, now: Instant) -> bool {
        now.saturating_duration_since(write.at) < self.config.max_age
    }

    /// Removes writes that are too old or already in the cache, if the number of writes has doubled since the last
    /// removal. If more than `capacity` writes remain, this method also evicts the oldest writes.
    fn make_room(&mut self, now: Instant, version_of: impl Fn(&ObjectKey) -> u64) -> Vec<Write<T>> {
        if self.by_key.len() <= self.sweep_above {
            return Vec::new();
        }
        let OverlayConfig { capacity, max_age } = self.config;
        let is_done = |key: &ObjectKey, write: &Write<T>| {
            let is_seen = !write.is_deleted && write.version <= version_of(key);
            is_seen || now.saturating_duration_since(write.at) >= max_age
        };
        let mut done: Vec<_> =
            self.by_key.extract_if(|key, write| is_done(key, write)).map(|(_, write)| write).collect();
        if self.by_key.len() > capacity {
            // Evict several writes at once, because finding the oldest writes takes a pass over all writes.
            let evicted = self.by_key.len() - (capacity - capacity / 8);
            let mut times: Vec<Instant> = self.by_key.values().map(|write| write.at).collect();
            let newest_evicted = *times.select_nth_unstable(evicted - 1).1;
            let mut left = evicted;
            let evict = |_: &ObjectKey, write: &mut Write<T>| {
                let is_evicted = write.at <= newest_evicted && left > 0;
                left -= usize::from(is_evicted);
                is_evicted
            };
            done.extend(self.by_key.extract_if(evict).map(|(_, write)| write));
        }
        self.sweep_above = (2 * self.by_key.len()).max(KEPT).min(capacity);
        done
    }
}

impl Default for OverlayConfig {
    fn default() -> Self {
        Self { capacity: 65_536, max_age: Duration::from_secs(60) }
    }
}

impl<T> Clone for Overlay<T> {
    fn clone(&self) -> Self {
        Self { lister: self.lister.clone(), writes: self.writes.clone() }
    }
}

pintle_meta::debug_struct!(Overlay<T: Object> |self| { len = self.len(), .. });

fn version_of<T: Object>(cache: &Cache<T>, key: &ObjectKey) -> u64 {
    let reached = cache.reached(key.namespace());
    number(&reached.unwrap_or_else(|| cache.resource_version()))
}

fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}
