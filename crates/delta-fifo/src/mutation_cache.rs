//! A cache that keeps the client's own writes until the client's store contains them.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::error::KeyError;
use crate::line::Line;

/// Lets a client read its own writes before its store contains them, like client-go's `MutationCache`.
///
/// After each write, insert the server's response into this cache. To look up an object, pass the stored object to the
/// cache. The cache returns the newer of the stored object and the written object. Call [`on_delete`](Self::on_delete)
/// whenever the store deletes an object, so that deleted objects do not reappear.
///
/// Callers pass the stored object and the current time, because the cache does not access the store or a clock. The
/// cache keeps a write until the store contains it, but at most for the TTL, and only for a limited number of keys.
/// Because of these limits, the cache does not guarantee that a client reads its own writes.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use pintle_delta_fifo::{KeyError, MutationCache, MutationCacheConfig, ObjectVersion};
///
/// // Pods with a name and a resourceVersion.
/// type Pod = (&'static str, &'static str);
/// let version_of = |pod: &Pod| Ok(ObjectVersion { key: pod.0, uid: pod.0.to_owned(), version: pod.1.parse().map_err(KeyError::new)? });
/// let mut written = MutationCache::new(version_of, MutationCacheConfig::default());
/// let now = Instant::now();
///
/// written.mutation(("a", "10"), now)?;
/// assert_eq!(written.get_by_key(&"a", Some(("a", "9")), now), Some(("a", "10")), "the store is behind");
/// assert_eq!(written.get_by_key(&"a", Some(("a", "11")), now), Some(("a", "11")));
/// # Ok::<(), pintle_delta_fifo::KeyError>(())
/// ```
pub struct MutationCache<K, T> {
    version_of: VersionFunc<K, T>,
    config: MutationCacheConfig,
    /// The client's writes, ordered from the least to the most recently used.
    line: Line<K, Mutation<T>>,
}

type VersionFunc<K, T> = Box<dyn Fn(&T) -> Result<ObjectVersion<K>, KeyError> + Send + Sync>;

/// The configuration of a [`MutationCache`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutationCacheConfig {
    /// The maximum number of keys for which the cache keeps writes. If there are more keys, the cache evicts the least
    /// recently used key. The default is 100.
    pub capacity: usize,
    /// The maximum time for which the cache keeps a write. The default is 5 minutes.
    pub ttl: Duration,
    /// Whether lookups also return written objects that the store does not contain. The default is `false`.
    pub includes_adds: bool,
}

/// The identity and the version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion<K> {
    /// The key of the object.
    pub key: K,
    /// The object's UID. Two objects with the same key have different UIDs.
    pub uid: String,
    /// The object's resourceVersion as a number. Among the objects of one resource type, a higher number is a newer
    /// version.
    pub version: u128,
}

struct Mutation<T> {
    /// The written object, or `None` if the object was deleted. After a deletion, the cache ignores writes with the deleted object's UID
    /// and writes up to the deletion's version.
    object: Option<T>,
    uid: String,
    version: u128,
    since: Instant,
}

impl<K: Clone + Eq + Hash, T: Clone> MutationCache<K, T> {
    /// Creates an empty cache. `version_of` returns an object's identity and version.
    pub fn new(
        version_of: impl Fn(&T) -> Result<ObjectVersion<K>, KeyError> + Send + Sync + 'static,
        config: MutationCacheConfig,
    ) -> Self {
        Self { version_of: Box::new(version_of), config, line: Line::new() }
    }

    /// Inserts the server's response to a write. Does nothing if the cache contains a newer state of the object, or if
    /// the cache has recorded the object's deletion.
    ///
    /// # Errors
    ///
    /// Returns the error of `version_of` if the object has no identity or version.
    pub fn mutation(&mut self, object: T, now: Instant) -> Result<(), KeyError> {
        let written = (self.version_of)(&object)?;
        let is_outdated = self.known(&written.key, now).is_some_and(|known| {
            let is_deleted = known.object.is_none();
            written.version < known.version
                || (is_deleted && (written.version == known.version || written.uid == known.uid))
        });
        if !is_outdated {
            self.put(written, Some(object), now);
        }
        Ok(())
    }

    /// Returns the newer of the written object and the stored object with key `key`. If `stored` is `None`, returns the
    /// written object only if [adds are included](MutationCacheConfig::includes_adds).
    pub fn get_by_key(&mut self, key: &K, stored: Option<T>, now: Instant) -> Option<T> {
        match stored {
            Some(stored) => Some(self.newer(key, stored, now)),
            None if self.config.includes_adds => self.known(key, now)?.object.clone(),
            None => None,
        }
    }

    /// Returns the objects with a given index value, including the client's own writes. `stored` contains the objects
    /// that the store's index returns for this value. A written object replaces an older stored object. If [adds are
    /// included](MutationCacheConfig::includes_adds), the result also contains written objects that are not in
    /// `stored`. The result contains only objects that `matches` accepts.
    pub fn by_index(&mut self, stored: Vec<T>, matches: impl Fn(&T) -> bool, now: Instant) -> Vec<T> {
        let mut keys = Vec::new();
        let mut found = Vec::with_capacity(stored.len());
        for object in stored {
            match (self.version_of)(&object) {
                Ok(ObjectVersion { key, .. }) => {
                    found.push(self.newer(&key, object, now));
                    keys.push(key);
                }
                // Keep the stored object, because its version is unknown.
                Err(_) => found.push(object),
            }
        }
        if self.config.includes_adds {
            let keys: hashbrown::HashSet<&K> = keys.iter().collect();
            let ttl = self.config.ttl;
            let added = self.line.iter().filter(|(_, key, known)| !keys.contains(key) && !known.is_expired(ttl, now));
            found.extend(added.filter_map(|(.., known)| known.object.clone()));
        }
        found.retain(matches);
        found
    }

    /// Removes the written object if it is not newer than the stored `object`. Call this method when the store has
    /// added or updated an object.
    pub fn on_add_or_update(&mut self, object: &T) {
        let Ok(stored) = (self.version_of)(object) else { return };
        if let Some(place) = self.line.place_of(&stored.key)
            && self.line[place].version <= stored.version
        {
            self.line.remove(place);
        }
    }

    /// Removes earlier writes of a deleted object. If the response to an earlier write of this object arrives later,
    /// the cache ignores the response. Call this method when the store has deleted an object. `object` is the object's
    /// last observed state.
    pub fn on_delete(&mut self, object: &T, now: Instant) {
        let Ok(deleted) = (self.version_of)(object) else { return };
        // Keep a later write with another UID, because its object may still exist.
        let is_news = self
            .known(&deleted.key, now)
            .is_none_or(|known| known.version <= deleted.version || known.uid == deleted.uid);
        if is_news {
            self.put(deleted, None, now);
        }
    }

    /// Returns the entry with key `key` and marks the entry as most recently used. Removes an expired entry and returns `None`.
    fn known(&mut self, key: &K, now: Instant) -> Option<&Mutation<T>> {
        let place = self.line.place_of(key)?;
        if self.line[place].is_expired(self.config.ttl, now) {
            self.line.remove(place);
            return None;
        }
        self.line.move_to_back(place);
        Some(&self.line[place])
    }

    fn newer(&mut self, key: &K, stored: T, now: Instant) -> T {
        let Ok(ObjectVersion { version, .. }) = (self.version_of)(&stored) else { return stored };
        let Some(known) = self.known(key, now) else { return stored };
        let Some(object) = &known.object else { return stored };
        if known.version > version {
            return object.clone();
        }
        self.line.place_of(key).and_then(|place| self.line.remove(place));
        stored
    }

    fn put(&mut self, written: ObjectVersion<K>, object: Option<T>, now: Instant) {
        let ObjectVersion { key, uid, version } = written;
        self.line.place_of(&key).and_then(|place| self.line.remove(place));
        self.line.push_back(self.line.hash(&key), key, Mutation { object, uid, version, since: now });
        if self.line.len() > self.config.capacity {
            self.line.pop_front();
        }
    }
}

impl<T> Mutation<T> {
    fn is_expired(&self, ttl: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > ttl
    }
}

impl Default for MutationCacheConfig {
    fn default() -> Self {
        Self { capacity: 100, ttl: Duration::from_secs(5 * 60), includes_adds: false }
    }
}

impl<K, T> fmt::Debug for MutationCache<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutationCache")
            .field("config", &self.config)
            .field("len", &self.line.len())
            .finish_non_exhaustive()
    }
}
