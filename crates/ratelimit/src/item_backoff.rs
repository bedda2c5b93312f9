//! A separate backoff for each ID.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::jitter::{Jitter, scale};

/// Stores a separate backoff for each ID, like client-go's `flowcontrol.Backoff`.
///
/// The caller passes the current time, or the time of an event, to each method. Unused entries stay in memory until
/// [`gc`](ItemBackoff::gc) removes them, so call `gc` periodically.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, ItemBackoff, ItemBackoffConfig, StdClock};
/// use std::time::Duration;
///
/// let config = ItemBackoffConfig { base: Duration::from_secs(1), ..ItemBackoffConfig::default() };
/// let mut backoff: ItemBackoff = ItemBackoff::new(config, 7);
/// let failed = StdClock.now();
/// backoff.next("pull image", failed, failed);
/// assert!(backoff.is_in_backoff_since_update("pull image", failed));
/// assert!(!backoff.is_in_backoff_since_update("pull image", failed + Duration::from_secs(1)));
/// ```
#[derive(Clone, Debug)]
pub struct ItemBackoff<K = String> {
    config: ItemBackoffConfig,
    jitter: Jitter,
    entries: HashMap<K, Entry>,
}

/// The configuration of an [`ItemBackoff`]. The defaults are the kubelet's values for crashing containers: the first
/// backoff lasts 10 s, and each failure doubles it up to 5 minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemBackoffConfig {
    /// The duration of the first backoff, even if `base` is longer than `cap`.
    pub base: Duration,
    /// The maximum duration of each backoff after the first.
    pub cap: Duration,
    /// The maximum jitter to add to the next backoff, as a fraction of the current backoff. The default is 0. A
    /// negative or NaN fraction disables jitter.
    pub jitter: f64,
    /// The time after the last update of an entry at which the entry expires. The default is `None`, which means twice
    /// the `cap`.
    pub expire_after: Option<Duration>,
}

impl Default for ItemBackoffConfig {
    fn default() -> Self {
        Self { base: Duration::from_secs(10), cap: Duration::from_secs(300), jitter: 0.0, expire_after: None }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    delay: Duration,
    updated: Instant,
}

impl<K: Hash + Eq> ItemBackoff<K> {
    /// Creates an empty `ItemBackoff`. Equal seeds produce equal backoffs.
    pub fn new(config: ItemBackoffConfig, seed: u64) -> Self {
        Self { config, jitter: Jitter::new(seed), entries: HashMap::new() }
    }

    /// Returns the current backoff of `id`, even if the entry of `id` has expired. Returns zero if `id` has no entry.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, id: &Q) -> Duration
    where
        K: Borrow<Q>,
    {
        self.entries.get(id).map_or(Duration::ZERO, |entry| entry.delay)
    }

    /// Increases the backoff of `id` after a failure at time `event`. The increased backoff starts at `now`.
    pub fn next(&mut self, id: impl Into<K>, event: Instant, now: Instant) {
        let ItemBackoffConfig { base, cap, jitter, .. } = self.config;
        let id = id.into();
        let last = self.live(&id, event).map(|entry| entry.delay);
        let chance = self.jitter.up_to(scale(last.unwrap_or(base), jitter));
        let delay = match last {
            Some(last) => last.saturating_mul(2).saturating_add(chance).min(cap),
            None => base.saturating_add(chance),
        };
        self.entries.insert(id, Entry { delay, updated: now });
    }

    /// Returns `true` if a backoff of `id` that started at `event` is still in progress at `now`.
    pub fn is_in_backoff_since<Q: Hash + Eq + ?Sized>(&self, id: &Q, event: Instant, now: Instant) -> bool
    where
        K: Borrow<Q>,
    {
        self.live(id, event).is_some_and(|entry| now.saturating_duration_since(event) < entry.delay)
    }

    /// Returns `true` if `event` is within the backoff of `id`. The backoff starts when [`next`](Self::next) was last
    /// called for `id`.
    pub fn is_in_backoff_since_update<Q: Hash + Eq + ?Sized>(&self, id: &Q, event: Instant) -> bool
    where
        K: Borrow<Q>,
    {
        self.live(id, event).is_some_and(|entry| event.saturating_duration_since(entry.updated) < entry.delay)
    }

    /// Removes the entry of `id`.
    pub fn reset<Q: Hash + Eq + ?Sized>(&mut self, id: &Q)
    where
        K: Borrow<Q>,
    {
        self.entries.remove(id);
    }

    /// Removes all entries that have expired at `now`, and frees their memory.
    pub fn gc(&mut self, now: Instant) {
        let config = self.config;
        self.entries.retain(|_, entry| config.counts(entry, now));
        self.entries.shrink_to(2 * self.entries.len());
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if no ID has an entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn live<Q: Hash + Eq + ?Sized>(&self, id: &Q, event: Instant) -> Option<&Entry>
    where
        K: Borrow<Q>,
    {
        self.entries.get(id).filter(|entry| self.config.counts(entry, event))
    }
}

impl ItemBackoffConfig {
    fn counts(&self, entry: &Entry, event: Instant) -> bool {
        let expire_after = self.expire_after.unwrap_or(self.cap.saturating_mul(2));
        event.saturating_duration_since(entry.updated) <= expire_after
    }
}
