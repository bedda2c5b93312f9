//! A store of objects with a time to live.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use crate::config::KeyFunc;
use crate::error::KeyError;

/// A store that keeps objects by key until they expire, like client-go's `ExpirationCache`.
///
/// Callers pass the current time, because the store does not read a clock. The store removes an expired object when its
/// key is looked up or when [`list`](Self::list) is called.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use pintle_delta_fifo::ExpirationStore;
///
/// let (minute, now) = (Duration::from_secs(60), Instant::now());
/// let mut seen = ExpirationStore::new(|&(name, _): &(&'static str, u32)| Ok(name), minute);
/// seen.add(("a", 1), now)?;
/// assert_eq!(seen.get_by_key(&"a", now + minute), Some(&("a", 1)));
/// assert_eq!(seen.get_by_key(&"a", now + 2 * minute), None);
/// # Ok::<(), pintle_delta_fifo::KeyError>(())
/// ```
pub struct ExpirationStore<K, T> {
    key_func: KeyFunc<K, T>,
    ttl: Duration,
    objects: HashMap<K, (T, Instant)>,
}

impl<K: Clone + Eq + Hash, T: Clone> ExpirationStore<K, T> {
    /// Creates an empty store whose objects expire after `ttl`. If `ttl` is zero, objects never expire. `key_func`
    /// returns an object's key, and must always return the same key for the same object.
    pub fn new(key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static, ttl: Duration) -> Self {
        Self { key_func: Box::new(key_func), ttl, objects: HashMap::new() }
    }

    /// Stores an object, replacing any object with the same key. The object's time to live begins at `now`.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if the object has no key.
    pub fn add(&mut self, object: T, now: Instant) -> Result<(), KeyError> {
        let key = (self.key_func)(&object)?;
        self.objects.insert(key, (object, now));
        Ok(())
    }

    /// Removes the object with the key of `object`, if any.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if `object` has no key.
    pub fn delete(&mut self, object: &T) -> Result<(), KeyError> {
        self.objects.remove(&(self.key_func)(object)?);
        Ok(())
    }

    /// Replaces all objects. The new objects' time to live begins at `now`.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if an object has no key, and leaves the store unchanged.
    pub fn replace(&mut self, objects: Vec<T>, now: Instant) -> Result<(), KeyError> {
        let with_key = |object: T| Ok(((self.key_func)(&object)?, (object, now)));
        self.objects = objects.into_iter().map(with_key).collect::<Result<_, KeyError>>()?;
        Ok(())
    }

    /// Returns the object with the key of `object`, unless it has expired.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if `object` has no key.
    pub fn get(&mut self, object: &T, now: Instant) -> Result<Option<&T>, KeyError> {
        let key = (self.key_func)(object)?;
        Ok(self.get_by_key(&key, now))
    }

    /// Returns the object with key `key`. If the object has expired, removes it and returns `None`.
    pub fn get_by_key(&mut self, key: &K, now: Instant) -> Option<&T> {
        let (_, since) = self.objects.get(key)?;
        if is_expired(self.ttl, *since, now) {
            self.objects.remove(key);
        }
        self.objects.get(key).map(|(object, _)| object)
    }

    /// Returns all objects that have not expired, in no particular order. Removes expired objects.
    pub fn list(&mut self, now: Instant) -> Vec<T> {
        self.objects.retain(|_, (_, since)| !is_expired(self.ttl, *since, now));
        self.objects.values().map(|(object, _)| object.clone()).collect()
    }

    /// Returns all keys, in no particular order. Includes the keys of expired objects that have not been removed yet.
    pub fn list_keys(&self) -> Vec<K> {
        self.objects.keys().cloned().collect()
    }
}

fn is_expired(ttl: Duration, since: Instant, now: Instant) -> bool {
    !ttl.is_zero() && now.saturating_duration_since(since) > ttl
}

impl<K, T> fmt::Debug for ExpirationStore<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirationStore")
            .field("ttl", &self.ttl)
            .field("len", &self.objects.len())
            .finish_non_exhaustive()
    }
}
