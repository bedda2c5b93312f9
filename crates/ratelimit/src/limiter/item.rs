//! A limiter that counts the failures of each item.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::RateLimiter;

/// A [`RateLimiter`] together with the number of failures of each item.
///
/// This type corresponds to client-go's `TypedRateLimiter`, with the methods [`when`](Self::when),
/// [`forget`](Self::forget) and [`num_requeues`](Self::num_requeues). A work queue does not need this type, because the
/// queue counts the failures of its items itself.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, ExponentialFailureRateLimiter, ItemRateLimiter, KeepFailures, StdClock};
/// use std::time::Duration;
///
/// let limiter = ExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1));
/// let mut limiter = ItemRateLimiter::new(limiter, KeepFailures::UntilForgotten);
/// let now = StdClock.now();
/// assert_eq!(limiter.when(&"blog", now), Duration::from_millis(1));
/// assert_eq!(limiter.when(&"blog", now), Duration::from_millis(2));
/// assert_eq!(limiter.num_requeues(&"blog", now), 2);
/// limiter.forget(&"blog");
/// assert_eq!(limiter.when(&"blog", now), Duration::from_millis(1));
/// ```
pub struct ItemRateLimiter<K, L> {
    limiter: L,
    keep: KeepFailures,
    hasher: DefaultHashBuilder,
    items: HashTable<Item<K>>,
    /// The number of stored items at which the next insert first removes expired items.
    sweep_at: usize,
}

/// How long a limiter remembers the failures of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFailures {
    /// Failures are remembered until `forget` is called, as in client-go. If `forget` is never called for an item, the
    /// item stays in memory.
    UntilForgotten,
    /// Failures are remembered until `forget` is called, or until this duration has passed since the end of the last
    /// delay. When the failures of an item expire, the limiter also calls `forget` on the wrapped limiter.
    For(Duration),
}

struct Item<K> {
    key: K,
    failures: u32,
    /// The time at which these failures expire, or `None` if they never expire.
    expires: Option<Instant>,
}

impl<K: Hash + Eq + Clone, L: RateLimiter<K>> ItemRateLimiter<K, L> {
    /// Creates a limiter without failures that computes delays with `limiter`.
    pub fn new(limiter: L, keep: KeepFailures) -> Self {
        Self { limiter, keep, hasher: DefaultHashBuilder::default(), items: HashTable::new(), sweep_at: 64 }
    }

    /// Counts a failure of `item`, and returns how long to wait before the retry.
    pub fn when(&mut self, item: &K, now: Instant) -> Duration {
        if self.items.len() >= self.sweep_at {
            self.sweep(now);
        }
        let Self { limiter, keep, hasher, items, .. } = self;
        let hash = hasher.hash_one(item);
        let entry = items.entry(hash, |i| i.key == *item, |i| hasher.hash_one(&i.key));
        let failures = match &entry {
            hashbrown::hash_table::Entry::Occupied(entry) => {
                let failures = entry.get().failures_at(now);
                if failures == 0 {
                    limiter.forget(item);
                }
                failures
            }
            hashbrown::hash_table::Entry::Vacant(_) => 0,
        };
        let delay = limiter.delay(item, failures, now);
        limiter.charge(item, now);
        if limiter.counts_failures() {
            let expires = match *keep {
                KeepFailures::UntilForgotten => None,
                KeepFailures::For(ttl) => now.checked_add(delay).and_then(|end| end.checked_add(ttl)),
            };
            let mut entry = entry.or_insert_with(|| Item { key: item.clone(), failures, expires });
            let record = entry.get_mut();
            record.failures = failures.saturating_add(1);
            record.expires = expires;
        }
        delay
    }

    /// Resets the failure count of `item` to zero. Call this method after a success, or if `item` will not be retried.
    pub fn forget(&mut self, item: &K) {
        self.limiter.forget(item);
        if let Ok(entry) = self.items.find_entry(self.hasher.hash_one(item), |i| i.key == *item) {
            entry.remove();
        }
    }

    /// Returns the failure count of `item`, or 0 if the failures have expired at `now`.
    pub fn num_requeues(&self, item: &K, now: Instant) -> u32 {
        let found = self.items.find(self.hasher.hash_one(item), |i| i.key == *item);
        found.map_or(0, |item| item.failures_at(now))
    }

    /// Returns the number of stored items, including expired items that have not been removed yet.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if no items are stored.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Removes all expired items, frees their memory, and calls `forget` on the wrapped limiter for each removed item.
    /// The amortized cost of `when` is low, because a sweep only runs after the number of items has doubled.
    fn sweep(&mut self, now: Instant) {
        let Self { limiter, hasher, items, sweep_at, .. } = self;
        items.retain(|item| {
            let counts = item.failures_at(now) > 0;
            if !counts {
                limiter.forget(&item.key);
            }
            counts
        });
        *sweep_at = (items.len() * 2).max(64);
        items.shrink_to(*sweep_at, |item| hasher.hash_one(&item.key));
    }
}

impl<K> Item<K> {
    fn failures_at(&self, now: Instant) -> u32 {
        if self.expires.is_some_and(|expires| expires <= now) { 0 } else { self.failures }
    }
}

impl<K, L: fmt::Debug> fmt::Debug for ItemRateLimiter<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemRateLimiter").field("limiter", &self.limiter).field("items", &self.items.len()).finish()
    }
}
