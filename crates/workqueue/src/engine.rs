//! The state machine of the queue, which tracks the state of each key.

mod add;
mod handout;
mod index;
mod inspect;
mod record;
mod retry;
mod table;
mod timer_set;
mod timers;

use std::fmt;

use pintle_ratelimit::{RateLimiter, TokenBucket};

pub(crate) use self::handout::Handout;
pub(crate) use self::retry::Failed;

use self::record::Record;
use self::table::Table;
use self::timer_set::TimerSet;
use crate::config::{DelayPolicy, QueueConfig, RetryAccounting};
use crate::key_state::{Added, Counts, DelayKind};
use crate::metrics::{Depth, Observer, Pull, Stamps};
use crate::now::{Now, nanos};
use crate::order::{Order, Queued, Ticket};
use crate::panic::{Panic, catch, first};
use crate::shutdown::ShutdownMode;

/// The keys, delays and retries of a queue, with one record per key. All times are in nanoseconds since the queue was
/// created. Callers pass the hash of each key, because keys must be hashed outside the lock.
///
/// When a delay ends, the next `get` or the next call for the same key queues the key. Adding other keys does not
/// queue the delayed key. While a `get` waits, the queue's alarm or the waiting thread calls the engine at the end of
/// a delay.
///
/// # User code
///
/// Keys, orders, limiters and metrics providers are user code that can panic. In a consistent state, the engine calls
/// user code directly, so that a panic propagates immediately. In the middle of a state change, the engine calls user
/// code through [`Trash::catch`], so that a panic propagates only after the operation.
pub(crate) struct Engine<K> {
    table: Table<K>,
    order: Box<dyn Order<K>>,
    timed: bool,
    /// Whether the last `pop` of the order returned no key although the order contains keys. The engine calls `pop`
    /// again after a change of the queued or in-flight keys.
    is_withheld: bool,
    timers: TimerSet,
    limiter: Box<dyn RateLimiter<K>>,
    dequeue_limit: Option<TokenBucket>,
    charge: RetryAccounting,
    keep_failures: Option<u64>,
    pending_retry: DelayPolicy,
    pending_reminder: DelayPolicy,
    mode: Option<ShutdownMode>,
    counts: Counts,
    refused: u64,
    observer: Option<Box<Observer>>,
    trash: Trash<K>,
}

/// Values that must be dropped outside the lock, because dropping them runs user code or takes a long time.
pub(crate) struct Trash<K> {
    key: Option<K>,
    rare: Option<Box<Rare<K>>>,
}

struct Rare<K> {
    keys: Vec<K>,
    burst: Option<(Table<K>, Option<Stamps>)>,
    observer: Option<Box<Observer>>,
    panics: Vec<Panic>,
}

impl<K> Engine<K> {
    pub(crate) fn new<C>(config: QueueConfig<K, C>, observer: Option<Box<Observer>>) -> (Self, C, String) {
        let engine = Self {
            table: Table::new(),
            timed: config.order.needs_time(),
            order: config.order,
            is_withheld: false,
            timers: TimerSet::default(),
            limiter: config.limiter,
            dequeue_limit: config.dequeue_limit,
            charge: config.charge,
            keep_failures: config.keep_failures.map(nanos),
            pending_retry: config.pending_retry,
            pending_reminder: config.pending_reminder,
            mode: None,
            counts: Counts::default(),
            refused: 0,
            observer,
            trash: Trash::default(),
        };
        (engine, config.clock, config.name)
    }

    /// Returns `true` if operations in the inbox must record the time of their call.
    pub(crate) fn wants_time(&self) -> bool {
        self.timed || self.observer.is_some() || self.keep_failures.is_some()
    }

    pub(crate) fn mode(&self) -> Option<ShutdownMode> {
        self.mode
    }

    pub(crate) fn shut_down(&mut self, mode: ShutdownMode) {
        self.mode = self.mode.max(Some(mode));
    }

    pub(crate) fn is_drained(&self) -> bool {
        match self.mode {
            None => false,
            Some(ShutdownMode::FinishBacklog) => self.counts.queued == 0 && self.counts.in_flight == 0,
            Some(ShutdownMode::FinishInFlight) => self.counts.in_flight == 0,
            Some(ShutdownMode::Abandon) => true,
        }
    }

    /// Returns `true` if the queue is shutting down and has no more keys to dequeue. A worker that drops its guard
    /// later may still queue another key.
    pub(crate) fn is_exhausted(&self) -> bool {
        match self.mode {
            None => false,
            Some(ShutdownMode::FinishBacklog) => self.counts.queued == 0,
            Some(_) => true,
        }
    }

    /// Returns the number of keys that can be dequeued now. The number does not include keys whose delay has ended but
    /// that have not been queued yet.
    pub(crate) fn available(&mut self, now: &Now<'_>) -> usize {
        let queued = self.counts.queued;
        if queued == 0 || self.is_withheld || self.is_exhausted() {
            return 0;
        }
        match &mut self.dequeue_limit {
            None => queued,
            Some(bucket) => queued.min(bucket.tokens(now.instant()) as usize),
        }
    }

    /// Returns the next time at which a key may become available without a call to the queue, for example because a
    /// delay ends.
    pub(crate) fn next_wake(&mut self, now: &Now<'_>) -> Option<u64> {
        if self.is_exhausted() {
            return None;
        }
        let token = match self.counts.queued {
            0 => None,
            _ if self.is_withheld => None,
            _ => Some(self.handout_wait(now)).filter(|wait| *wait > 0).map(|wait| now.nanos().saturating_add(wait)),
        };
        let timer = self.timers.first().filter(|_| self.mode.is_none()).map(|(deadline, _)| deadline);
        token.into_iter().chain(timer).min()
    }

    pub(crate) fn observer(&self) -> Option<&Observer> {
        self.observer.as_deref()
    }

    #[inline]
    pub(crate) fn take_new_depths(&mut self) -> Vec<Depth> {
        self.observer.as_deref_mut().map_or_else(Vec::new, Observer::take_new_depths)
    }

    /// Stores the gauge of a `depth` series, and returns the previous gauge of this series. Returns `gauge` instead if
    /// the metrics provider has panicked.
    pub(crate) fn keep_gauge(&mut self, depth: Depth, gauge: Pull) -> Option<Pull> {
        match self.observer.as_deref_mut() {
            Some(observer) => observer.keep_gauge(depth, gauge),
            None => Some(gauge),
        }
    }

    /// Disables the metrics after the provider has panicked. The caller must drop the returned observer outside the
    /// lock.
    pub(crate) fn take_observer(&mut self) -> Option<Box<Observer>> {
        self.observer.take()
    }

    /// Stores a panic, which propagates at the end of the critical section.
    pub(crate) fn keep_panic(&mut self, panic: Panic) {
        self.trash.keep_panic(panic);
    }

    #[inline]
    pub(crate) fn take_trash(&mut self) -> Option<Trash<K>> {
        let any = self.trash.key.is_some() || self.trash.rare.is_some();
        any.then(|| std::mem::take(&mut self.trash))
    }

    /// Reports a state change to the observer. If the metrics provider panics, this method disables the metrics.
    fn observe(&mut self, update: impl FnOnce(&mut Observer)) {
        if let Some(observer) = &mut self.observer
            && self.trash.catch(|| update(observer)).is_none()
        {
            self.trash.rare().observer = self.observer.take();
        }
    }

    fn handout_wait(&mut self, now: &Now<'_>) -> u64 {
        self.dequeue_limit.as_mut().map_or(0, |bucket| nanos(bucket.wait_for_one(now.instant())))
    }

    fn policy(&self, kind: DelayKind) -> DelayPolicy {
        match kind {
            DelayKind::Retry => self.pending_retry,
            DelayKind::Reminder => self.pending_reminder,
            DelayKind::Requeue => DelayPolicy::Absorb,
        }
    }

    fn refuse(&mut self) -> Added {
        self.refused += 1;
        Added::ShutDown
    }

    /// Removes the record of an idle key, or sets the expiry of the key's failures if there are any.
    fn rest(&mut self, ticket: Ticket, now: &Now<'_>) {
        let record = &self.table[ticket];
        if !record.state.is_idle() {
            return;
        }
        if record.failures == 0 {
            self.remove(ticket);
        } else if let Some(keep) = self.keep_failures {
            self.set_timer(ticket, now.nanos().saturating_add(keep));
        }
    }

    fn remove(&mut self, ticket: Ticket) {
        self.stop_timer(ticket);
        self.counts.idle -= 1;
        if let Some(key) = self.table.remove(ticket) {
            self.trash.push(key);
        }
        if let Some(table) = self.table.take_burst() {
            let stamps = self.observer.as_mut().map(|observer| observer.take_stamps());
            self.trash.rare().burst = Some((table, stamps));
        }
    }
}

fn queued<'a, K>(ticket: Ticket, record: &'a Record<K>, timed: bool, now: &Now<'_>) -> Queued<'a, K> {
    Queued { ticket, key: record.key(), priority: record.priority, now: if timed { now.nanos() } else { 0 } }
}

impl<K> Trash<K> {
    fn push(&mut self, key: K) {
        match self.key {
            None => self.key = Some(key),
            Some(_) => self.rare().keys.push(key),
        }
    }

    /// Calls user code in the middle of an operation. If the user code panics, the operation continues, and the panic
    /// propagates after the operation has finished.
    fn catch<T>(&mut self, call: impl FnOnce() -> T) -> Option<T> {
        catch(call).map_err(|panic| self.keep_panic(panic)).ok()
    }

    /// Stores a panic, which propagates after the operation has finished.
    fn keep_panic(&mut self, panic: Panic) {
        self.rare().panics.push(panic);
    }

    fn rare(&mut self) -> &mut Rare<K> {
        self.rare
            .get_or_insert_with(|| Box::new(Rare { keys: Vec::new(), burst: None, observer: None, panics: Vec::new() }))
    }

    /// Removes the stored panics, and returns the first one. The caller must not hold the lock.
    #[inline]
    pub(crate) fn take_panic(&mut self) -> Option<Panic> {
        let rare = self.rare.as_mut()?;
        rare.panics.drain(..).map(Some).fold(None, first)
    }

    #[inline]
    pub(crate) fn empty(self) -> Option<Panic> {
        let Self { key, rare } = self;
        let of_key = if std::mem::needs_drop::<K>() { catch(|| drop(key)).err() } else { None };
        first(rare.and_then(Rare::empty), of_key)
    }
}

impl<K> Rare<K> {
    #[cold]
    fn empty(self: Box<Self>) -> Option<Panic> {
        catch(|| drop(self)).err()
    }
}

impl<K> Default for Trash<K> {
    fn default() -> Self {
        Self { key: None, rare: None }
    }
}

impl<K> fmt::Debug for Engine<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("counts", &self.counts).field("mode", &self.mode).finish_non_exhaustive()
    }
}
