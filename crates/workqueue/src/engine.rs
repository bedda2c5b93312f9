//! The queue as a state machine: no lock, no clock, no task. Whoever steps it brings the time.

mod add;
mod delays;
mod handout;
mod index;
mod inspect;
mod record;
mod records;
mod ticket_set;

use std::fmt;
use std::time::{Duration, Instant};

use pintle_ratelimit::{RateLimiter, TokenBucket};

pub use self::inspect::KeyState;

use self::delays::Delays;
use self::index::Index;
use self::record::State;
use self::records::Records;
use self::ticket_set::TicketSet;
use crate::config::{Charge, Pending, QueueConfig};
use crate::metrics::{Observer, Pull};
use crate::order::{Order, Ticket};
use crate::queue::ShutdownMode;
use crate::sync::{Arc, Mutex};

/// The three layers in one: a queue, its delays, and its retries, with one record a key.
///
/// Times are nanoseconds since `epoch`. A key whose delay is over is queued when the queue is next looked at, or the key
/// itself is the matter: whoever waits for keys looks at once, and an add need not do the work of others. Keys come with
/// their hash, so that hashing is done outside of the lock.
pub(crate) struct Engine<K> {
    records: Records<K>,
    index: Index,
    /// Of dropped records: to be removed from the index and made vacant together.
    dead: TicketSet,
    order: Box<dyn Order<K>>,
    delays: Delays,
    limiter: Box<dyn RateLimiter<K>>,
    handout_limit: Option<TokenBucket>,
    charge: Charge,
    keep_failures: Option<u64>,
    pending_retry: Pending,
    pending_reminder: Pending,
    epoch: Instant,
    mode: Option<ShutdownMode>,
    /// Records that are DIRTY and RUNNING.
    redirtied: usize,
    running: usize,
    waiting: usize,
    idle: usize,
    refused: u64,
    /// Where the search for expired failures goes on.
    hand: u32,
    observer: Option<Arc<Mutex<Observer>>>,
    /// The gauges that read the observer, for as long as the queue lives.
    _pulls: Option<[Pull; 4]>,
    /// Whether the order or the observer wants the time of every step.
    always_timed: bool,
}

/// What an add did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Added {
    /// The key has become due, or its delay was set or brought forward.
    Scheduled,
    /// Nothing: an earlier add of the key covers this one.
    Merged,
    /// One of the two above. Another thread was at the queue, and the add did not wait to learn which. Only plain adds return it.
    Accepted,
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

/// A key that is handed out.
pub(crate) struct Handout<K> {
    pub(crate) ticket: Ticket,
    pub(crate) key: K,
    pub(crate) priority: i32,
}

/// How many keys a queue holds, by state. A key in several states counts in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Waiting to be handed out: client-go's `Len`.
    pub queued: usize,
    /// Handed out.
    pub in_flight: usize,
    /// Handed out, and added again since: will be queued when done.
    pub redirtied: usize,
    /// Waiting for a deadline.
    pub delayed: usize,
    /// In no other state, but remembered for their failures.
    pub idle: usize,
}

impl Counts {
    /// How many keys have work to do that nobody is doing yet, queued or not: what the metric `depth` says, in client-go as
    /// here.
    pub fn depth(&self) -> usize {
        self.queued + self.redirtied
    }
}

impl<K> Engine<K> {
    pub(crate) fn new<C>(config: QueueConfig<K, C>, epoch: Instant) -> (Self, C, String) {
        let engine = Self {
            always_timed: config.order.needs_time(),
            records: Records::new(),
            index: Index::new(),
            dead: TicketSet::default(),
            order: config.order,
            delays: Delays::default(),
            limiter: config.limiter,
            handout_limit: config.handout_limit,
            charge: config.charge,
            keep_failures: config.keep_failures.map(nanos),
            pending_retry: config.pending_retry,
            pending_reminder: config.pending_reminder,
            epoch,
            mode: None,
            redirtied: 0,
            running: 0,
            waiting: 0,
            idle: 0,
            refused: 0,
            hand: 0,
            observer: None,
            _pulls: None,
        };
        (engine, config.clock, config.name)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            queued: self.order.len(),
            in_flight: self.running,
            redirtied: self.redirtied,
            delayed: self.waiting,
            idle: self.idle,
        }
    }

    /// Whether the next step has to be given the time. Otherwise 0 will do, and the reading of the clock is saved.
    pub(crate) fn needs_time(&self) -> bool {
        !self.delays.is_empty() || self.handout_limit.is_some() || self.idle > 0 || self.always_timed
    }

    /// Whether it matters when exactly an add is made.
    pub(crate) fn is_always_timed(&self) -> bool {
        self.always_timed
    }

    pub(crate) fn mode(&self) -> Option<ShutdownMode> {
        self.mode
    }

    /// Tightens the mode; never loosens it. What is due by now is still queued.
    pub(crate) fn shut_down(&mut self, mode: ShutdownMode, now: u64) {
        self.ripen(now);
        self.mode = self.mode.max(Some(mode));
    }

    /// Whether what the current mode promises is done.
    pub(crate) fn is_drained(&self) -> bool {
        match self.mode {
            None => false,
            Some(ShutdownMode::FinishBacklog) => self.order.is_empty() && self.running == 0,
            Some(ShutdownMode::FinishInFlight) => self.running == 0,
            Some(ShutdownMode::Abandon) => true,
        }
    }

    /// Whether nothing will ever be handed out again, but for what a guard's done may queue.
    pub(crate) fn is_exhausted(&self) -> bool {
        match self.mode {
            None => false,
            Some(ShutdownMode::FinishBacklog) => self.order.is_empty(),
            Some(_) => true,
        }
    }

    /// How many keys can be handed out now, as far as it is known without ripening delays.
    pub(crate) fn available(&mut self, now: u64) -> usize {
        if self.is_exhausted() || self.order.is_empty() {
            return 0;
        }
        match self.handout_wait(now) {
            0 => self.order.len(),
            _ => 0,
        }
    }

    /// When, if nothing else happens, there may be something to hand out that is not available now.
    pub(crate) fn next_wake(&mut self, now: u64) -> Option<u64> {
        if self.is_exhausted() {
            return None;
        }
        let token = if self.order.is_empty() { 0 } else { self.handout_wait(now) };
        let token = (token > 0).then(|| now.saturating_add(token));
        if self.mode.is_some() {
            return token;
        }
        let records = &self.records;
        // An entry of "never" is no reason to wake.
        let ripe = self.delays.peek(|deadline, ticket| is_live(records, deadline, ticket)).filter(|at| *at < u64::MAX);
        match (token, ripe) {
            (Some(token), Some(ripe)) => Some(token.min(ripe)),
            (token, ripe) => token.or(ripe),
        }
    }

    fn handout_wait(&mut self, now: u64) -> u64 {
        let at = self.epoch + Duration::from_nanos(now);
        self.handout_limit.as_mut().map_or(0, |bucket| nanos(bucket.wait_for_one(at)))
    }

    fn instant(&self, now: u64) -> Instant {
        self.epoch + Duration::from_nanos(now)
    }

    pub(crate) fn set_observer(&mut self, (observer, pulls): (Arc<Mutex<Observer>>, [Pull; 4])) {
        (self.observer, self._pulls) = (Some(observer), Some(pulls));
        self.always_timed = true;
    }

    fn observe(&self, tell: impl FnOnce(&mut Observer)) {
        if let Some(observer) = &self.observer {
            tell(&mut observer.lock());
        }
    }

    fn policy(&self, kind: DelayKind) -> Pending {
        match kind {
            DelayKind::Retry => self.pending_retry,
            DelayKind::Reminder => self.pending_reminder,
        }
    }

    fn refuse(&mut self) -> Added {
        self.refused += 1;
        Added::ShutDown
    }
}

/// Whether an entry of the delays still says what its record says.
fn is_live<K>(records: &Records<K>, deadline: u64, ticket: Ticket) -> bool {
    records.get(ticket).is_some_and(|record| record.state.has(State::WAITING) && record.deadline == deadline)
}

/// How many records are looked at together before they are changed. Processors wait for 10 to 16 lines at a time.
const BATCH: usize = 32;

/// The half of a hash that the index works with.
pub(crate) fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

/// Nanoseconds, with all that is beyond 584 years as "never".
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<K> fmt::Debug for Engine<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("counts", &self.counts()).field("mode", &self.mode).finish_non_exhaustive()
    }
}
