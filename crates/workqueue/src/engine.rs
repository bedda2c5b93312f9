//! The queue as a state machine: no lock, no task, no waiting. Whoever steps it brings the time.

mod add;
mod handout;
mod index;
mod inspect;
mod record;
mod retry;
mod table;
mod timers;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, RateLimiter, TokenBucket};

pub(crate) use self::handout::Handout;
pub use self::inspect::{Counts, KeyState};
pub(crate) use self::retry::Failed;

use self::record::Record;
use self::table::Table;
use crate::config::{DelayPolicy, QueueConfig, RetryAccounting};
use crate::metrics::{Depth, Observer, Pull, Stamps};
use crate::order::{Order, Queued, Ticket};
use crate::panic::{Panic, catch};
use crate::shutdown::ShutdownMode;

/// The three layers in one: a queue, its delays, and its retries, with one record a key.
///
/// Times are nanoseconds since the queue was made. A key whose delay is over is queued when the queue is next looked at, or the
/// key itself is the matter: whoever waits for keys looks at once, and an add need not do the work of others. Keys come with
/// their hash, so that hashing is done outside of the lock.
///
/// # Code of others
///
/// Keys, orders, limiters and providers of metrics may panic. The state is whole at each call of them, and the panic goes its way,
/// or the call is made through [`Trash::catch`].
pub(crate) struct Engine<K> {
    table: Table<K>,
    order: Box<dyn Order<K>>,
    /// Whether the order looks at the time.
    timed: bool,
    /// The order has keys and hands none out. It is asked again once anything about them has changed.
    is_withheld: bool,
    /// When something becomes of a record by itself: the delays that end, and the failures that expire.
    timers: BTreeSet<(u64, Ticket)>,
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

/// What an add did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Added {
    /// The key has become due, or its delay was set or brought forward.
    Scheduled,
    /// Nothing: an earlier add of the key covers this one.
    Merged,
    /// Refused: the queue is shutting down.
    ShutDown,
}

/// What a delay is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelayKind {
    /// The key failed and is to be tried again.
    Retry,
    /// The key is fine and is to be looked at again.
    Reminder,
}

/// The time of a step, which reads the clock when it is first asked, if it is asked at all: most steps of a queue without delays
/// need no time.
///
/// A clock that panics does not end the step half-way: the step goes on with the latest time known, and the panic comes out at its end.
pub(crate) struct Now<'a> {
    clock: &'a dyn Clock,
    epoch: Instant,
    read: Cell<Option<u64>>,
    fallback: u64,
    panic: Cell<Option<Panic>>,
}

/// What is to be dropped when the lock is free, since it runs code of the user's or takes long.
pub(crate) struct Trash<K> {
    key: Option<K>,
    rare: Option<Box<Rare<K>>>,
}

struct Rare<K> {
    keys: Vec<K>,
    burst: Option<(Table<K>, Option<Stamps>)>,
    observer: Option<Box<Observer>>,
    panic: Option<Panic>,
}

impl<K> Engine<K> {
    pub(crate) fn new<C>(config: QueueConfig<K, C>, observer: Option<Box<Observer>>) -> (Self, C, String) {
        let engine = Self {
            table: Table::new(),
            timed: config.order.needs_time(),
            order: config.order,
            is_withheld: false,
            timers: BTreeSet::new(),
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

    /// Whether the time of each step that may be late is wanted.
    pub(crate) fn wants_time(&self) -> bool {
        self.timed || self.observer.is_some() || self.keep_failures.is_some()
    }

    pub(crate) fn mode(&self) -> Option<ShutdownMode> {
        self.mode
    }

    /// Tightens the mode; never loosens it.
    pub(crate) fn shut_down(&mut self, mode: ShutdownMode) {
        self.mode = self.mode.max(Some(mode));
    }

    /// Whether what the current mode promises is done.
    pub(crate) fn is_drained(&self) -> bool {
        match self.mode {
            None => false,
            Some(ShutdownMode::FinishBacklog) => self.counts.queued == 0 && self.counts.in_flight == 0,
            Some(ShutdownMode::FinishInFlight) => self.counts.in_flight == 0,
            Some(ShutdownMode::Abandon) => true,
        }
    }

    /// Whether nothing will ever be handed out again, but for what a guard's done may queue.
    pub(crate) fn is_exhausted(&self) -> bool {
        match self.mode {
            None => false,
            Some(ShutdownMode::FinishBacklog) => self.counts.queued == 0,
            Some(_) => true,
        }
    }

    /// How many keys can be handed out now, as far as it is known without ripening delays.
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

    /// When, if nothing else happens, there may be something to hand out that is not available now.
    pub(crate) fn next_wake(&mut self, now: &Now<'_>) -> Option<u64> {
        if self.is_exhausted() {
            return None;
        }
        let token = match self.counts.queued {
            0 => None,
            _ if self.is_withheld => None,
            _ => Some(self.handout_wait(now)).filter(|wait| *wait > 0).map(|wait| now.nanos().saturating_add(wait)),
        };
        let timer = self.timers.first().filter(|_| self.mode.is_none()).map(|(deadline, _)| *deadline);
        token.into_iter().chain(timer).min()
    }

    pub(crate) fn observer(&self) -> Option<&Observer> {
        self.observer.as_deref()
    }

    /// The depths that the provider of metrics does not know yet.
    #[inline]
    pub(crate) fn take_new_depths(&mut self) -> Vec<Depth> {
        self.observer.as_deref_mut().map_or_else(Vec::new, Observer::take_new_depths)
    }

    /// Keeps the gauge of a depth, or gives it back if metrics have ended.
    pub(crate) fn keep_gauge(&mut self, depth: Depth, gauge: Pull) -> Option<Pull> {
        match self.observer.as_deref_mut() {
            Some(observer) => observer.keep_gauge(depth, gauge),
            None => Some(gauge),
        }
    }

    /// Ends the metrics, since the provider panicked. Returns what must be dropped without the lock.
    pub(crate) fn take_observer(&mut self) -> Option<Box<Observer>> {
        self.observer.take()
    }

    #[inline]
    pub(crate) fn take_trash(&mut self) -> Option<Trash<K>> {
        let any = self.trash.key.is_some() || self.trash.rare.is_some();
        any.then(|| std::mem::take(&mut self.trash))
    }

    /// Tells the observer. A provider of metrics that panics is told nothing more.
    fn observe(&mut self, tell: impl FnOnce(&mut Observer)) {
        if let Some(observer) = &mut self.observer
            && self.trash.catch(|| tell(observer)).is_none()
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
        }
    }

    fn refuse(&mut self) -> Added {
        self.refused += 1;
        Added::ShutDown
    }

    /// Drops an idle record that is remembered for nothing; otherwise starts the time after which its failures are forgotten.
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

    /// Drops an idle record.
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

/// A record as the order sees it.
fn queued<'a, K>(ticket: Ticket, record: &'a Record<K>, timed: bool, now: &Now<'_>) -> Queued<'a, K> {
    Queued { ticket, key: record.key(), priority: record.priority, now: if timed { now.nanos() } else { 0 } }
}

impl<'a> Now<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, epoch: Instant) -> Self {
        Self { clock, epoch, read: Cell::new(None), fallback: 0, panic: Cell::new(None) }
    }

    /// The same clock at another time.
    pub(crate) fn at(&self, time: u64) -> Self {
        Self { read: Cell::new(Some(time)), ..Self::new(self.clock, self.epoch) }
    }

    /// The time for the case that the clock panics.
    pub(crate) fn set_fallback(&mut self, fallback: u64) {
        self.fallback = fallback;
    }

    /// The latest time known, without a look at the clock.
    pub(crate) fn latest(&self) -> u64 {
        self.read.get().unwrap_or(self.fallback)
    }

    pub(crate) fn take_panic(&self) -> Option<Panic> {
        self.panic.take()
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.read.get().unwrap_or_else(|| {
            let read = catch(|| nanos(self.clock.now().saturating_duration_since(self.epoch)));
            let now = read.unwrap_or_else(|panic| {
                self.panic.set(Some(panic));
                self.fallback
            });
            self.read.set(Some(now));
            now
        })
    }

    pub(crate) fn instant(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.nanos())
    }

    fn after(&self, wait: Duration) -> u64 {
        self.nanos().saturating_add(nanos(wait))
    }
}

impl<K> Trash<K> {
    fn push(&mut self, key: K) {
        match self.key {
            None => self.key = Some(key),
            Some(_) => self.rare().keys.push(key),
        }
    }

    /// Calls code of the user's in the middle of a step. If it panics, the step goes on, and the panic comes out at its end.
    fn catch<T>(&mut self, call: impl FnOnce() -> T) -> Option<T> {
        catch(call).map_err(|panic| self.rare().panic = Some(panic)).ok()
    }

    fn rare(&mut self) -> &mut Rare<K> {
        self.rare.get_or_insert_with(|| Box::new(Rare { keys: Vec::new(), burst: None, observer: None, panic: None }))
    }

    /// Drops all, and returns the panic that was caught, or that of a drop.
    #[inline]
    pub(crate) fn empty(self) -> Option<Panic> {
        let Self { key, rare } = self;
        let of_key = if std::mem::needs_drop::<K>() { catch(|| drop(key)).err() } else { None };
        rare.and_then(Rare::empty).or(of_key)
    }
}

impl<K> Rare<K> {
    #[cold]
    fn empty(mut self: Box<Self>) -> Option<Panic> {
        let panic = self.panic.take();
        let of_drop = catch(|| drop(self)).err();
        panic.or(of_drop)
    }
}

impl<K> Default for Trash<K> {
    fn default() -> Self {
        Self { key: None, rare: None }
    }
}

/// Nanoseconds, with all that is beyond 584 years as "never".
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<K> fmt::Debug for Engine<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("counts", &self.counts).field("mode", &self.mode).finish_non_exhaustive()
    }
}
