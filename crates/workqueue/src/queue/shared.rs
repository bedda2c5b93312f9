//! What all handles of a queue share, and the locked sections on it.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;
use pintle_ratelimit::Clock;

use super::drain::{DrainId, Drainers};
use super::inbox::{Inbox, Late};
use super::waiters::{WaiterId, Waiters, Wakes};
use super::{ShutdownMode, TryGetError, WorkItem};
use crate::config::QueueConfig;
use crate::engine::{Added, Counts, DelayKind, Engine, Handout, nanos};
use crate::metrics::Observer;
use crate::order::Ticket;
use crate::sync::{Arc, Mutex, MutexGuard};

/// What all handles and guards of a queue share.
pub(crate) struct Shared<K, C> {
    /// Held for one step of the engine at a time, never while waking, waiting, or dropping a key that a caller gave.
    pub(super) state: Mutex<State<K>>,
    pub(super) inbox: Inbox<K>,
    hasher: DefaultHashBuilder,
    epoch: Instant,
    pub(crate) clock: Arc<C>,
    pub(crate) name: String,
}

pub(super) struct State<K> {
    pub(super) engine: Engine<K>,
    pub(super) waiters: Waiters,
    pub(super) drainers: Drainers,
    /// Adds on their way from the inbox to the engine.
    arrivals: VecDeque<Late<K>>,
    /// Whether the inbox is closed because somebody waits, or did until a moment ago.
    awaited: bool,
}

/// The state, with all adds made that came before.
pub(super) struct Locked<'a, K> {
    state: MutexGuard<'a, State<K>>,
    /// To be dropped after the lock is free.
    unused: Vec<K>,
}

/// What a poll of a waiting `get` came to.
pub(super) enum Step<K, C: Clock> {
    Item(WorkItem<K, C>),
    ShutDown,
    /// Nothing yet. With a deadline, the caller has to see to it that it is polled then.
    Wait(Option<Instant>),
}

impl<K, C: Clock> Shared<K, C> {
    pub(super) fn new(mut config: QueueConfig<K, C>) -> Self {
        let epoch = config.clock.now();
        let (metrics, style) = (config.metrics.take(), config.metrics_style);
        let (mut engine, clock, name) = Engine::new(config, epoch);
        let clock = Arc::new(clock);
        if let Some(provider) = metrics {
            engine.set_observer(Observer::start(&provider, style, &name, {
                let clock = Arc::clone(&clock);
                move || nanos(clock.now().saturating_duration_since(epoch))
            }));
        }
        let inbox = Inbox::new(!engine.is_always_timed());
        let state = State {
            engine,
            waiters: Waiters::default(),
            drainers: Drainers::default(),
            arrivals: VecDeque::new(),
            awaited: false,
        };
        Self { state: Mutex::new(state), inbox, hasher: DefaultHashBuilder::default(), epoch, clock, name }
    }

    #[inline]
    pub(super) fn lock(&self) -> Locked<'_, K> {
        self.enter(self.state.lock())
    }

    #[inline]
    fn enter<'a>(&self, mut state: MutexGuard<'a, State<K>>) -> Locked<'a, K> {
        let unused = if self.inbox.any() { self.empty_inbox(&mut state) } else { Vec::new() };
        Locked { state, unused }
    }

    /// The lock for whoever is dropped, who has to get done with it whatever the `Eq` of others' keys does: a panic there has been
    /// told of when it began, and ends here.
    fn lock_in_drop(&self) -> Locked<'_, K> {
        let mut state = self.state.lock();
        let unused = match self.inbox.any() {
            true => catch_unwind(AssertUnwindSafe(|| self.empty_inbox(&mut state))).unwrap_or_default(),
            false => Vec::new(),
        };
        Locked { state, unused }
    }

    /// From now on an add has to lock the queue. Those that did not are made.
    fn close_inbox(&self, state: &mut Locked<'_, K>) {
        self.inbox.set_open(false);
        let unused = self.empty_inbox(&mut state.state);
        state.unused.extend(unused);
    }

    fn empty_inbox(&self, state: &mut State<K>) -> Vec<K> {
        let now = self.now_if(state.engine.needs_time());
        self.inbox.empty(&mut state.arrivals, &mut state.engine, now)
    }

    /// Nanoseconds since the epoch.
    pub(crate) fn now(&self) -> u64 {
        nanos(self.clock.now().saturating_duration_since(self.epoch))
    }

    pub(crate) fn now_if(&self, needed: bool) -> u64 {
        if needed { self.now() } else { 0 }
    }

    pub(crate) fn deadline(&self, after: Duration) -> (u64, u64) {
        let now = self.now();
        (now, now.saturating_add(nanos(after)))
    }

    pub(crate) fn instant(&self, at: u64) -> Instant {
        self.epoch + Duration::from_nanos(at)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut state = self.lock();
        let now = self.now_if(state.engine.needs_time());
        state.engine.ripen(now);
        let counts = state.engine.counts();
        self.settle(state);
        counts
    }

    pub(crate) fn shutdown_mode(&self) -> Option<ShutdownMode> {
        self.lock().engine.mode()
    }

    pub(super) fn shut_down(&self, mode: ShutdownMode) {
        let mut state = self.lock();
        self.close_inbox(&mut state);
        let now = self.now_if(state.engine.needs_time());
        state.engine.shut_down(mode, now);
        let mut wakes = Wakes::default();
        state.waiters.notify_all(&mut wakes);
        state.settle_drainers(&mut wakes);
        drop(state);
        wakes.wake();
    }

    /// The guard of `ticket` is gone.
    pub(super) fn done(&self, ticket: Ticket) {
        let mut state = self.lock_in_drop();
        let now = self.now_if(state.engine.needs_time_for_done(ticket));
        let unused = state.engine.done(ticket, now);
        self.settle(state);
        drop(unused);
    }

    /// A waiting `get` is dropped.
    pub(super) fn leave(&self, waiter: WaiterId) {
        let mut state = self.lock_in_drop();
        let waker = state.waiters.leave(waiter);
        self.settle(state);
        drop(waker);
    }

    pub(super) fn leave_drain(&self, id: DrainId) {
        let waker = self.lock_in_drop().drainers.leave(id);
        drop(waker);
    }

    /// Ends a locked section: wakes whom it concerns, after unlocking.
    #[inline(always)]
    pub(super) fn settle(&self, state: Locked<'_, K>) {
        if state.awaited || !state.drainers.is_idle() {
            self.settle_and_wake(state);
        }
    }

    #[cold]
    fn settle_and_wake(&self, mut state: Locked<'_, K>) {
        let mut wakes = Wakes::default();
        if !state.waiters.is_idle() {
            if state.engine.is_exhausted() {
                state.waiters.notify_all(&mut wakes);
            } else {
                let now = self.now_if(state.engine.needs_time());
                let available = state.engine.available(now);
                let next_wake = state.engine.next_wake(now);
                state.waiters.settle(available, next_wake, &mut wakes);
            }
        }
        state.settle_drainers(&mut wakes);
        if state.awaited && state.waiters.is_idle() {
            state.awaited = false;
            self.inbox.set_open(state.engine.mode().is_none() && !state.engine.is_always_timed());
        }
        drop(state);
        wakes.wake();
    }
}

impl<K: Hash + Eq, C: Clock> Shared<K, C> {
    fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(crate) fn add(&self, key: K, priority: i32) -> Added {
        let add = Late { hash: self.hash(&key), key, priority };
        let (mut state, add) = match self.state.try_lock() {
            Some(state) => (self.enter(state), add),
            None => match self.inbox.leave(add) {
                Ok(()) => return Added::Accepted,
                Err(add) => (self.lock(), add),
            },
        };
        let now = self.now_if(state.engine.needs_time());
        let (added, unused) = add.make(&mut state.engine, now);
        self.settle(state);
        drop(unused);
        added
    }

    pub(crate) fn add_after(&self, key: K, after: Duration, kind: DelayKind, priority: i32) -> Added {
        let (now, deadline) = self.deadline(after);
        self.step(key, |engine, hash, key| engine.add_at(hash, key, deadline, kind, priority, now))
    }

    pub(crate) fn add_rate_limited(&self, key: K, before: Option<Duration>, priority: i32) -> Added {
        let now = self.now();
        let before = before.map(|after| now.saturating_add(nanos(after)));
        self.step(key, |engine, hash, key| engine.add_rate_limited(hash, key, before, priority, now))
    }

    pub(crate) fn replace(&self, key: K, after: Duration, kind: DelayKind) -> Added {
        let (now, deadline) = self.deadline(after);
        self.step(key, |engine, hash, key| engine.replace(hash, key, deadline, kind, now))
    }

    pub(crate) fn postpone(&self, key: &K, after: Duration) -> bool {
        let (now, deadline) = self.deadline(after);
        let hash = self.hash(key);
        let mut state = self.lock();
        let postponed = state.engine.postpone(hash, key, deadline, now);
        self.settle(state);
        postponed
    }

    pub(crate) fn cancel(&self, key: &K) -> Option<Instant> {
        let now = self.now();
        let hash = self.hash(key);
        let mut state = self.lock();
        let (deadline, unused) = state.engine.cancel(hash, key, now);
        self.settle(state);
        drop(unused);
        deadline.map(|deadline| self.instant(deadline))
    }

    pub(crate) fn forget(&self, key: &K) {
        let hash = self.hash(key);
        let unused = self.lock().engine.forget(hash, key);
        drop(unused);
    }

    pub(crate) fn num_requeues(&self, key: &K) -> u32 {
        let now = self.now();
        let hash = self.hash(key);
        self.lock().engine.num_requeues(hash, key, now)
    }

    /// A step that always needs the time.
    fn step(&self, key: K, step: impl FnOnce(&mut Engine<K>, u64, K) -> (Added, Option<K>)) -> Added {
        let hash = self.hash(&key);
        let mut state = self.lock();
        let (added, unused) = step(&mut state.engine, hash, key);
        self.settle(state);
        drop(unused);
        added
    }
}

impl<K: Hash + Eq + Clone, C: Clock> Shared<K, C> {
    pub(super) fn try_get(self: &Arc<Self>) -> Result<WorkItem<K, C>, TryGetError> {
        let mut state = self.lock();
        let now = self.now_if(state.engine.needs_time());
        let Some(handout) = state.engine.handout(now) else {
            return Err(if state.engine.is_exhausted() { TryGetError::ShutDown } else { TryGetError::Empty });
        };
        // Ripening may have queued more than this one.
        self.settle(state);
        Ok(self.item(handout))
    }

    fn item(self: &Arc<Self>, handout: Handout<K>) -> WorkItem<K, C> {
        WorkItem::new(Arc::clone(self), handout)
    }

    /// One poll of a waiting `get`: `waiter` is what the last one left there.
    pub(super) fn poll_get(
        self: &Arc<Self>,
        waiter: &mut Option<WaiterId>,
        waker: impl FnOnce() -> Waker,
    ) -> Step<K, C> {
        let mut state = self.lock();
        let old = waiter.take().and_then(|id| state.waiters.leave(id));
        let now = self.now_if(state.engine.needs_time());
        let step = match state.engine.handout(now) {
            Some(handout) => Step::Item(self.item(handout)),
            None if state.engine.is_exhausted() => Step::ShutDown,
            None => {
                let next_wake = state.engine.next_wake(now);
                let (id, keeps_time) = state.waiters.join(waker(), next_wake);
                *waiter = Some(id);
                if !state.awaited {
                    state.awaited = true;
                    self.close_inbox(&mut state);
                }
                Step::Wait(next_wake.filter(|_| keeps_time).map(|at| self.instant(at)))
            }
        };
        self.settle(state);
        drop(old);
        step
    }
}

impl<K> Deref for Locked<'_, K> {
    type Target = State<K>;

    #[inline]
    fn deref(&self) -> &State<K> {
        &self.state
    }
}

impl<K> DerefMut for Locked<'_, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State<K> {
        &mut self.state
    }
}

impl<K> State<K> {
    fn settle_drainers(&mut self, wakes: &mut Wakes) {
        if !self.drainers.is_idle() && self.engine.is_drained() {
            self.drainers.notify_all(wakes);
        }
    }
}

impl<K, C> fmt::Debug for Shared<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Queue")
            .field("name", &self.name)
            .field("counts", &state.engine.counts())
            .field("mode", &state.engine.mode())
            .finish()
    }
}
