//! Reads of one's own writes, before the watch brings them.

mod own_writes;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use pintle_meta::{LabelSelector, Object, ObjectApi, ObjectKey};

use crate::driver::now;
use crate::{Cache, Lister, NAMESPACE_INDEX, UnknownIndex};

pub use self::own_writes::OwnWrites;

/// A [`Lister`] in which one's own writes are seen at once. Clones share what was written.
///
/// It learns of writes from the [API](Self::api) that it wraps, or from the caller, who reports what the server answered by
/// [`wrote`](Self::wrote) or [`deleted`](Self::deleted). From then on a read gives that, until the cache has caught up; and then what the
/// cache has. No read waits, and what others write is seen when the cache has it.
///
/// Precisely, with resourceVersions as the numbers that they are, for a key of which one's last write is known:
///
/// - written at version *w*: a read gives what was written, as long as the cache is at a version below *w*, and what it has of that key, too.
///   From *w* on it gives what the cache has, which is that or later.
/// - deleted, last seen at version *v* with uid *u*: a read gives nothing, as long as the cache is below *v*, or has an object of uid *u*.
///   Else it gives what the cache has: nothing, or another object by that name.
///
/// Of an informer of several [namespaces](crate::SharedInformer::of_namespaces), each namespace has a version of its own here.
///
/// So a read is never older than one's own last write to that key; a [`list`](Self::list) holds that for each of its objects, and is of one
/// moment but for these. It is a promise with bounds: what was written longer than [`max_age`](OverlayConfig::max_age) ago, or before
/// [`capacity`](OverlayConfig::capacity) other keys, is read from the cache, however far that is.
///
/// Reads by [index](Self::by_index) see own writes, too: by the values that the index function gives for them.
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

/// The bounds of an [`Overlay`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_informer::OverlayConfig;
///
/// let config = OverlayConfig { max_age: Duration::from_secs(10), ..OverlayConfig::default() };
/// assert_eq!(config.capacity, 1024);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayConfig {
    /// Of how many keys the last write is kept at most: those written last. So many objects stay in memory, even if they are older than
    /// [`max_age`](Self::max_age), or the cache has caught up with them. 1024 by default.
    pub capacity: usize,
    /// For how long a write is read, so that one of which the watch never tells does not stay for good: that of an object that the
    /// informer does not select, or a deletion that was none. A minute by default.
    pub max_age: Duration,
}

struct Writes<T> {
    config: OverlayConfig,
    by_key: HashMap<ObjectKey, Write<T>>,
}

struct Write<T> {
    /// What was written, or the last state of what was deleted.
    object: Arc<T>,
    /// Its own, so that no user's code is asked for it under the lock.
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
    /// What a read gives for it, where the cache is at a version and has that; `None`: what the cache has.
    fn shown(&self, cache_version: u64, cached: Option<&T>) -> Option<Option<&Arc<T>>>
    where
        T: Object,
    {
        // What is read after the version may be later.
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
    /// An overlay over what `lister` reads.
    pub fn new(lister: Lister<T>, config: OverlayConfig) -> Self {
        Self { lister, writes: Arc::new(RwLock::new(Writes { config, by_key: HashMap::new() })) }
    }

    /// Returns an API that sends requests by `api`, and whose writes this overlay shows at once.
    pub fn api<A: ObjectApi<T>>(&self, api: A) -> OwnWrites<A, T> {
        OwnWrites::new(api, self.clone())
    }

    /// Takes up what the server answered to a create, an update or a patch. Answers that come in another order than they were given do no
    /// harm: the greatest version counts, and no object that was deleted comes back.
    ///
    /// False: its resourceVersion is no number, so that nobody could tell when the cache has caught up with it, and it is not taken up.
    pub fn wrote(&self, object: impl Into<Arc<T>>) -> bool {
        self.take_up(object.into(), false)
    }

    /// Takes up that an object is gone, which is given in its last known state. One that only was asked to go, and has finalizers to wait
    /// for, was written.
    ///
    /// False: as for [`wrote`](Self::wrote).
    pub fn deleted(&self, object: impl Into<Arc<T>>) -> bool {
        self.take_up(object.into(), true)
    }

    fn take_up(&self, object: Arc<T>, is_deleted: bool) -> bool {
        let Ok(version) = object.resource_version().parse() else { return false };
        let (key, uid): (_, Arc<str>) = (object.key(), object.uid().into());
        let at = now();
        // The objects are a user's, and are dropped under no lock.
        let mut done = Vec::new();
        let cache = self.lister.cache();
        let mut writes = self.write();
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

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        let write = self.read().current(key, now()).cloned();
        let Some(write) = write else { return self.lister.get(key) };
        // The version first: what is read after that is of that version, or later.
        let version = self.version_of(key);
        let cached = self.lister.get(key);
        match write.shown(version, cached.as_deref()) {
            Some(shown) => shown.cloned(),
            None => cached,
        }
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        // Before the cache is read, so that it has what is given up meanwhile.
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

    /// The objects that have `value` in the index `name`, in no particular order. What was written is in it by the values that the index
    /// function gives for it; where that fails or panics, it is in none.
    ///
    /// # Errors
    ///
    /// [`UnknownIndex`], which tells the names that there are.
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

    /// The objects of a namespace, in no particular order.
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.by_index(NAMESPACE_INDEX, namespace).unwrap_or_default()
    }

    /// The objects whose labels match, in no particular order.
    pub fn select(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut objects = self.list();
        objects.retain(|object| selector.matches(object.metadata().labels()));
        objects
    }

    /// The cache alone.
    pub fn lister(&self) -> &Lister<T> {
        &self.lister
    }

    /// Of how many keys the cache may not have caught up with the last write.
    pub fn len(&self) -> usize {
        let ahead = |(key, write): &(ObjectKey, Write<T>)| {
            write.shown(self.version_of(key), self.lister.get(key).as_deref()).is_some()
        };
        self.current(now()).iter().filter(|write| ahead(write)).count()
    }

    /// Whether the cache has caught up with all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was written of late, and up to where the cache has all changes of each key.
    fn versioned(&self) -> HashMap<ObjectKey, (Write<T>, u64)> {
        let versioned = |(key, write): (ObjectKey, Write<T>)| {
            let version = self.version_of(&key);
            (key, (write, version))
        };
        self.current(now()).into_iter().map(versioned).collect()
    }

    /// What was written of late. The objects are a user's, and are looked at under no lock.
    fn current(&self, now: Instant) -> Vec<(ObjectKey, Write<T>)> {
        let writes = self.read();
        let current = writes.by_key.iter().filter(|(_, write)| writes.is_current(write, now));
        current.map(|(key, write)| (key.clone(), write.clone())).collect()
    }

    /// Up to where the cache has all changes of that key, which others may be behind.
    fn version_of(&self, key: &ObjectKey) -> u64 {
        version_of(self.lister.cache(), key)
    }

    fn read(&self) -> RwLockReadGuard<'_, Writes<T>> {
        self.writes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Writes<T>> {
        self.writes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Writes<T> {
    fn current(&self, key: &ObjectKey, now: Instant) -> Option<&Write<T>> {
        self.by_key.get(key).filter(|write| self.is_current(write, now))
    }

    fn is_current(&self, write: &Write<T>, now: Instant) -> bool {
        now.saturating_duration_since(write.at) < self.config.max_age
    }

    /// Gives up what is too old and what the cache has, and then the oldest, where there are too many.
    fn make_room(&mut self, now: Instant, version_of: impl Fn(&ObjectKey) -> u64) -> Vec<Write<T>> {
        if self.by_key.len() <= self.config.capacity {
            return Vec::new();
        }
        let max_age = self.config.max_age;
        let is_done = |key: &ObjectKey, write: &Write<T>| {
            let is_seen = !write.is_deleted && write.version <= version_of(key);
            is_seen || now.saturating_duration_since(write.at) >= max_age
        };
        let mut done: Vec<_> =
            self.by_key.extract_if(|key, write| is_done(key, write)).map(|(_, write)| write).collect();
        while self.by_key.len() > self.config.capacity {
            let oldest = self.by_key.iter().min_by_key(|(_, write)| write.at).map(|(key, _)| key.clone());
            done.extend(oldest.and_then(|key| self.by_key.remove(&key)));
        }
        done
    }
}

impl Default for OverlayConfig {
    fn default() -> Self {
        Self { capacity: 1024, max_age: Duration::from_secs(60) }
    }
}

impl<T> Clone for Overlay<T> {
    fn clone(&self) -> Self {
        Self { lister: self.lister.clone(), writes: self.writes.clone() }
    }
}

impl<T: Object> fmt::Debug for Overlay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay").field("len", &self.len()).finish_non_exhaustive()
    }
}

fn version_of<T: Object>(cache: &Cache<T>, key: &ObjectKey) -> u64 {
    let reached = cache.reached(key.namespace());
    number(&reached.unwrap_or_else(|| cache.resource_version()))
}

/// 0 before the first list, and of what is no number: then nothing has been seen.
fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}
