use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::limiter::jitter;

/// Remembers for each id how long it is to be left alone: client-go's `flowcontrol.Backoff`.
///
/// It is stepped: the caller brings the time, and the time of the event in question. Entries that nobody asks for stay until
/// [`gc`](Backoff::gc), which the owner has to call now and then.
///
/// ```
/// use pintle_ratelimit::{Backoff, Clock, StdClock};
/// use std::time::Duration;
///
/// let mut backoff: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(50));
/// let failed = StdClock.now();
/// backoff.next("pull image", failed, failed);
/// assert!(backoff.is_in_backoff_since_update("pull image", failed));
/// assert!(!backoff.is_in_backoff_since_update("pull image", failed + Duration::from_secs(1)));
/// ```
pub struct Backoff<K = String> {
    initial: Duration,
    max: Duration,
    jitter: f64,
    random: fastrand::Rng,
    has_expired: Box<HasExpired>,
    entries: HashMap<K, Entry>,
}

/// Told the time of an event, the time of the last update, and the longest back-off: whether the entry no longer counts.
type HasExpired = dyn Fn(Instant, Instant, Duration) -> bool + Send;

#[derive(Clone, Copy, Debug)]
struct Entry {
    delay: Duration,
    updated: Instant,
}

impl<K: Hash + Eq> Backoff<K> {
    /// Back-offs from `initial`, doubling up to `max`. An entry expires when it has not been updated for longer than twice
    /// `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self {
            initial,
            max,
            jitter: 0.0,
            random: fastrand::Rng::with_seed(0),
            has_expired: Box::new(|event, updated, max| {
                event.saturating_duration_since(updated) > max.saturating_mul(2)
            }),
            entries: HashMap::new(),
        }
    }

    /// Lengthens each back-off below `max` by a random part, up to `factor`, of the one before. Equal seeds give equal
    /// back-offs. A `factor` of 0, below 0, or that is no number, is none.
    pub fn with_jitter(mut self, factor: f64, seed: u64) -> Self {
        self.jitter = factor.max(0.0);
        self.random = fastrand::Rng::with_seed(seed);
        self
    }

    /// Replaces the rule of when an entry expires. The rule is told the time of the event, the time of the entry's last
    /// update, and the longest back-off.
    pub fn with_expiry(mut self, rule: impl Fn(Instant, Instant, Duration) -> bool + Send + 'static) -> Self {
        self.has_expired = Box::new(rule);
        self
    }

    /// The current back-off of `id`, expired or not. Zero if it has none.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, id: &Q) -> Duration
    where
        K: Borrow<Q>,
    {
        self.entries.get(id).map_or(Duration::ZERO, |entry| entry.delay)
    }

    /// Lengthens the back-off of `id` for something that happened at `event`, and starts it at `now`.
    ///
    /// The first back-off is `initial`, even beyond `max`.
    pub fn next(&mut self, id: impl Into<K>, event: Instant, now: Instant) {
        let Self { initial, max, random, .. } = self;
        let id = id.into();
        let last = self.entries.get(&id).filter(|entry| !(self.has_expired)(event, entry.updated, *max));
        let (doubled, base, cap) = match last {
            Some(entry) => (entry.delay.saturating_mul(2), entry.delay, *max),
            None => (*initial, *initial, Duration::MAX),
        };
        let delay = doubled.saturating_add(jitter(base, self.jitter, random)).min(cap);
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
        let Self { has_expired, max, .. } = self;
        self.entries.retain(|_, entry| !has_expired(now, entry.updated, *max));
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
        self.entries.get(id).filter(|entry| !(self.has_expired)(event, entry.updated, self.max))
    }
}

impl<K: fmt::Debug> fmt::Debug for Backoff<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff")
            .field("initial", &self.initial)
            .field("max", &self.max)
            .field("jitter", &self.jitter)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}
