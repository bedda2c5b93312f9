//! How long to leave each of many things alone that fail.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::Jitter;
use crate::jitter::scale;

/// Remembers for each id how long it is to be left alone: client-go's `flowcontrol.Backoff`.
///
/// It is stepped: the caller brings the time, and the time of the event in question. Entries that nobody asks for stay until
/// [`gc`](ItemBackoff::gc), which the owner has to call now and then.
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

/// How the back-offs of an [`ItemBackoff`] grow. The defaults are a kubelet's for containers that crash: 10 s, doubling up
/// to 5 minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemBackoffConfig {
    /// The first back-off, even if it is beyond `cap`.
    pub base: Duration,
    /// The longest of the others.
    pub cap: Duration,
    /// The largest share of a back-off that chance adds to the next one. Below 0, or no number: nothing, as by default.
    pub jitter: f64,
    /// An entry that has not been updated for longer than this no longer counts. None, the default: twice `cap`.
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
    /// Remembers nothing yet. Equal seeds give equal back-offs.
    pub fn new(config: ItemBackoffConfig, seed: u64) -> Self {
        Self { config, jitter: Jitter::new(seed), entries: HashMap::new() }
    }

    /// The current back-off of `id`, expired or not. Zero if it has none.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, id: &Q) -> Duration
    where
        K: Borrow<Q>,
    {
        self.entries.get(id).map_or(Duration::ZERO, |entry| entry.delay)
    }

    /// Lengthens the back-off of `id` for something that happened at `event`, and starts it at `now`.
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

    /// Whether `id` is still to be left alone at `now`, counting from `event`.
    pub fn is_in_backoff_since<Q: Hash + Eq + ?Sized>(&self, id: &Q, event: Instant, now: Instant) -> bool
    where
        K: Borrow<Q>,
    {
        self.live(id, event).is_some_and(|entry| now.saturating_duration_since(event) < entry.delay)
    }

    /// Whether `id` was still to be left alone at `event`, counting from its last update.
    pub fn is_in_backoff_since_update<Q: Hash + Eq + ?Sized>(&self, id: &Q, event: Instant) -> bool
    where
        K: Borrow<Q>,
    {
        self.live(id, event).is_some_and(|entry| event.saturating_duration_since(entry.updated) < entry.delay)
    }

    /// Forgets `id`.
    pub fn reset<Q: Hash + Eq + ?Sized>(&mut self, id: &Q)
    where
        K: Borrow<Q>,
    {
        self.entries.remove(id);
    }

    /// Forgets all that has expired at `now`, and gives back the room.
    pub fn gc(&mut self, now: Instant) {
        let config = self.config;
        self.entries.retain(|_, entry| config.counts(entry, now));
        self.entries.shrink_to(2 * self.entries.len());
    }

    /// How many ids are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no id is remembered.
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
    /// Whether an entry still counted at `event`.
    fn counts(&self, entry: &Entry, event: Instant) -> bool {
        let expire_after = self.expire_after.unwrap_or(self.cap.saturating_mul(2));
        event.saturating_duration_since(entry.updated) <= expire_after
    }
}
