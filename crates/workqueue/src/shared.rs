//! The state shared by all handles to a queue.

mod ring;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::hint;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;
use pintle_ratelimit::{Clock, Sleep};

use self::ring::Ring;
use crate::config::QueueConfig;
use crate::engine::Engine;
use crate::inbox::{Inbox, Late, LateStep};
use crate::key_state::{Counts, KeyState};
use crate::metrics::{self, Gauges, Reading};
use crate::now::{Now, nanos};
use crate::order::Ticket;
use crate::panic::{catch, discard};
use crate::section::{Section, State};
use crate::shutdown::ShutdownMode;
use crate::sync::{Arc, Mutex, MutexGuard, Weak};
use crate::wakers::WaiterId;

pub(crate) struct Shared<K, C> {
    /// The queue's state. A thread holds its lock for one operation, but never while it wakes waiters, waits, or drops
    /// a key.
    state: Mutex<State<K>>,
    inbox: Inbox<K>,
    timed: bool,
    hasher: DefaultHashBuilder,
    epoch: Instant,
    pub(crate) clock: C,
    pub(crate) name: String,
    gauges: Option<Gauges>,
    /// Creates sleeps for the alarm from the queue's clock. The `OnceLock` is empty until a task waits for a key.
    pub(crate) sleep_until: OnceLock<fn(&C, Instant) -> Sleep>,
    ring: Waker,
}

/// The number of spins between two attempts to acquire a contended lock.
const PAUSES: usize = 256;

/// The number of attempts to acquire a contended lock before the thread blocks.
const LOOKS: usize = if cfg!(any(pintle_loom, pintle_shuttle)) { 0 } else { 4 };

const ADDED_AT_ONCE: usize = 64;

impl<K: Eq + Send + 'static, C: Clock> Shared<K, C> {
    pub(crate) fn new(mut config: QueueConfig<K, C>) -> Arc<Self> {
        let epoch = config.clock.now();
        let (provider, style) = (config.metrics.take(), config.metrics_style);
        let observer = provider.as_ref().map(|provider| Box::new(metrics::observer(&**provider, style, &config.name)));
        let (engine, clock, name) = Engine::new(config, observer);
        let timed = engine.wants_time();
        let state = State::new(engine);
        Arc::new_cyclic(|shared: &Weak<Self>| {
            let read = {
                let shared = Weak::clone(shared);
                move |gauge: &Reading| shared.upgrade().map_or(0.0, |shared| shared.read(gauge))
            };
            Self {
                state: Mutex::new(state),
                inbox: Inbox::new(),
                timed,
                hasher: DefaultHashBuilder::default(),
                epoch,
                clock,
                gauges: provider.map(|provider| metrics::gauges(provider, style, &name, read)),
                name,
                sleep_until: OnceLock::new(),
                ring: Ring::waker(Weak::clone(shared)),
            }
        })
    }
}

impl<K, C: Clock> Shared<K, C> {
    #[inline]
    pub(crate) fn section(&self) -> Section<'_, K> {
        self.enter(self.lock())
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    /// Acquires a contended lock. Before this method blocks, it spins for a few microseconds, so that the holder of the
    /// lock can execute several operations on cached data. With eight workers on two processors, spinning halves the
    /// total time of a benchmark.
    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, State<K>> {
        for _ in 0..LOOKS {
            (0..PAUSES).for_each(|_| hint::spin_loop());
            if let Some(state) = self.state.try_lock() {
                return state;
            }
        }
        self.state.lock()
    }

    #[inline]
    fn enter<'a>(&'a self, state: MutexGuard<'a, State<K>>) -> Section<'a, K> {
        Section::new(state, &self.inbox, Now::new(&self.clock, self.epoch), self)
    }

    fn now(&self) -> u64 {
        nanos(self.clock.now().saturating_duration_since(self.epoch))
    }

    /// Fires every timer that is due when the method is called, and then returns a new critical section. The lock is
    /// released between batches of timers, so that each critical section is short.
    ///
    /// If user code panics, the remaining timers still fire. The first panic propagates when the returned critical
    /// section ends.
    pub(crate) fn caught_up(&self) -> Section<'_, K> {
        self.fire_until(|_| false)
    }

    /// Fires due timers until a key is queued, and returns `true` if no key is queued after all due timers have fired.
    pub(crate) fn is_empty(&self) -> bool {
        self.fire_until(|counts| counts.queued > 0).engine.counts().queued == 0
    }

    fn fire_until(&self, is_enough: fn(Counts) -> bool) -> Section<'_, K> {
        let (mut at_call, mut panic) = (None, None);
        loop {
            let mut section = self.section();
            let (state, now) = section.parts();
            if let Some(panic) = panic.take() {
                state.engine.keep_panic(panic);
            }
            if is_enough(state.engine.counts()) {
                return section;
            }
            let due = now.at(*at_call.get_or_insert_with(|| now.nanos()));
            let is_caught_up = catch(|| state.engine.fire_timers(&due)).unwrap_or_else(|panic| {
                state.engine.keep_panic(panic);
                false
            });
            if is_caught_up || is_enough(state.engine.counts()) {
                return section;
            }
            panic = section.end();
        }
    }

    fn read(&self, gauge: &Reading) -> f64 {
        let section = self.caught_up();
        let now = section.now.nanos();
        section.engine.observer().map_or(0.0, |observer| gauge(observer, section.engine.counts(), now))
    }

    pub(crate) fn counts(&self) -> Counts {
        self.caught_up().engine.counts()
    }

    pub(crate) fn shutdown_mode(&self) -> Option<ShutdownMode> {
        self.section().engine.mode()
    }

    /// Begins a shutdown, but first queues the keys whose delay has already ended. The shutdown also begins if user
    /// code panics.
    pub(crate) fn shut_down(&self, mode: ShutdownMode) {
        let mut section = self.caught_up();
        section.set_inbox_open(false);
        section.engine.shut_down(mode);
    }

    /// Marks the key of a dropped guard as done. If the lock is contended and no waiter is registered, it pushes the
    /// operation to the inbox instead of waiting for the lock.
    #[inline]
    pub(crate) fn done(&self, ticket: Ticket) {
        match self.state.try_lock() {
            Some(state) => self.enter(state).done(ticket),
            None if self.leave(LateStep::Done(ticket)).is_none() => {}
            None => self.section().done(ticket),
        }
    }

    #[cold]
    fn leave(&self, step: LateStep<K>) -> Option<LateStep<K>> {
        let at = match self.timed.then(|| catch(|| self.now())) {
            None => None,
            Some(Ok(now)) => Some(now),
            // The clock has panicked, so wait for the lock and read the clock again in the critical section. If the
            // clock panics again, this panic propagates after the critical section.
            Some(Err(panic)) => {
                discard(Some(panic));
                return Some(step);
            }
        };
        self.inbox.leave(Late { step, at }).err().map(|late| late.step)
    }

    pub(crate) fn leave_get(&self, waiter: WaiterId) {
        let waker = self.section().waiters.leave(waiter);
        drop(waker);
    }

    pub(crate) fn leave_drain(&self, drainer: WaiterId) {
        let waker = self.section().drainers.leave(drainer);
        drop(waker);
    }

    pub(crate) fn instant(&self, at: u64) -> Instant {
        self.epoch + Duration::from_nanos(at)
    }
}

impl<K: Hash, C> Shared<K, C> {
    pub(crate) fn hash(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        (hash ^ (hash >> 32)) as u32
    }
}

impl<K: Hash + Eq, C: Clock> Shared<K, C> {
    pub(crate) fn add_all(&self, keys: impl IntoIterator<Item = K>) {
        let mut keys = keys.into_iter().map(|key| (self.hash(&key), Some(key)));
        loop {
            let mut some: Vec<_> = keys.by_ref().take(ADDED_AT_ONCE).collect();
            if some.is_empty() {
                return;
            }
            let mut section = self.section();
            let (state, now) = section.parts();
            for (hash, key) in &mut some {
                state.engine.add(*hash, key, 0, now);
            }
        }
    }

    #[inline]
    pub(crate) fn add(&self, key: K) {
        let hash = self.hash(&key);
        match self.state.try_lock() {
            Some(state) => self.enter(state).add(hash, &mut Some(key)),
            None => {
                if let Some(LateStep::Add { hash, key }) = self.leave(LateStep::Add { hash, key }) {
                    self.section().add(hash, &mut Some(key));
                }
            }
        }
    }
}

impl<K: Clone, C: Clock> Shared<K, C> {
    pub(crate) fn key_state(&self, key: &K) -> Option<KeyState<K>>
    where
        K: Hash + Eq,
    {
        let hash = self.hash(key);
        self.section().engine.key_state(hash, key, self.epoch)
    }

    pub(crate) fn snapshot(&self) -> Vec<KeyState<K>> {
        let mut states = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from {
            states.reserve(64);
            from = self.section().engine.snapshot(at, self.epoch, &mut states);
        }
        states
    }
}

impl<K, C: Clock> fmt::Debug for Shared<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let section = self.section();
        let (counts, mode) = (section.engine.counts(), section.engine.mode());
        drop(section);
        f.debug_struct("WorkQueue").field("name", &self.name).field("counts", &counts).field("mode", &mode).finish()
    }
}
