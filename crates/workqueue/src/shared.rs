//! What all handles of a queue share, and the locked sections on it.

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
use crate::engine::{Counts, Engine, KeyState, Now, nanos};
use crate::get::TryGetError;
use crate::inbox::{Inbox, Late, LateStep};
use crate::item::WorkItem;
use crate::metrics::{self, Gauges, Reading};
use crate::order::Ticket;
use crate::panic::catch;
use crate::section::{Section, State};
use crate::shutdown::ShutdownMode;
use crate::sync::{Arc, Mutex, MutexGuard, Weak};
use crate::waiters::Waiter;
use crate::wakers::WaiterId;

/// What all handles and guards of a queue share.
pub(crate) struct Shared<K, C> {
    /// Held for one step of the engine at a time, never while waking, waiting, or dropping a key that a caller gave.
    state: Mutex<State<K>>,
    inbox: Inbox<K>,
    /// Whether anybody wants to know when a late step was made.
    timed: bool,
    hasher: DefaultHashBuilder,
    epoch: Instant,
    pub(crate) clock: C,
    pub(crate) name: String,
    gauges: Option<Gauges>,
    /// Creates the sleeps of the alarm, once a task has waited.
    pub(crate) sleep_until: OnceLock<fn(&C, Instant) -> Sleep>,
    /// What the alarm wakes.
    ring: Waker,
}

/// How long a thread that finds the queue locked looks away, and how often before it sleeps.
const PAUSES: usize = 256;
const LOOKS: usize = if cfg!(any(pintle_loom, pintle_shuttle)) { 0 } else { 4 };

/// How many keys one section adds.
const ADDED_AT_ONCE: usize = 64;

/// What a poll of a waiting `get` came to.
pub(crate) enum Step<K, C: Clock> {
    Item(WorkItem<K, C>),
    ShutDown,
    /// Nothing yet. With a deadline, the caller has to see to it that it is polled then.
    Wait(Option<Instant>),
}

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

    /// Lets the others do a few steps with what is in their processor's cache before it takes its turn: some microseconds at a time,
    /// which halve the time of eight workers on two processors.
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

    /// The time now, without the lock.
    fn now(&self) -> u64 {
        nanos(self.clock.now().saturating_duration_since(self.epoch))
    }

    /// A section with nothing left to do that was due when it was asked for. Others get their turns meanwhile.
    pub(crate) fn caught_up(&self) -> Section<'_, K> {
        let asked = self.now();
        loop {
            let mut section = self.section();
            let (state, now) = section.parts();
            let asked = now.at(asked);
            if state.engine.fire_timers(&asked) {
                return section;
            }
        }
    }

    /// Whether no key is queued. It fires no more timers than it takes to find one.
    pub(crate) fn is_empty(&self) -> bool {
        let asked = self.now();
        loop {
            let mut section = self.section();
            let (state, now) = section.parts();
            let asked = now.at(asked);
            let is_caught_up = state.engine.counts().queued > 0 || state.engine.fire_timers(&asked);
            if is_caught_up || state.engine.counts().queued > 0 {
                return state.engine.counts().queued == 0;
            }
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

    /// What is due by now is still queued.
    pub(crate) fn shut_down(&self, mode: ShutdownMode) {
        let mut section = self.caught_up();
        section.set_inbox_open(false);
        section.engine.shut_down(mode);
    }

    /// The guard of `ticket` is gone. It does not wait for the lock if nobody waits for what comes of it.
    #[inline]
    pub(crate) fn done(&self, ticket: Ticket) {
        match self.state.try_lock() {
            Some(state) => self.enter(state).done(ticket),
            None if self.leave(LateStep::Done(ticket)).is_none() => {}
            None => self.section().done(ticket),
        }
    }

    /// Gives back a step that could not be left in the inbox.
    #[cold]
    fn leave(&self, step: LateStep<K>) -> Option<LateStep<K>> {
        let at = match self.timed.then(|| catch(|| self.now())) {
            None => None,
            Some(Ok(now)) => Some(now),
            // The section reads the clock again, and lets the panic out at its end.
            Some(Err(_)) => return Some(step),
        };
        self.inbox.leave(Late { step, at }).err().map(|late| late.step)
    }

    /// A waiting `get` is dropped.
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
    /// The bits of the hash that the table works with.
    pub(crate) fn hash(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        (hash ^ (hash >> 32)) as u32
    }
}

impl<K: Hash + Eq, C: Clock> Shared<K, C> {
    /// Adds keys, as many in one section as it may take.
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

    /// A plain add, which does not wait for the lock if nobody waits for a key.
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
    /// All records, in no particular order, a few at a time.
    pub(crate) fn snapshot(&self) -> Vec<KeyState<K>> {
        let mut states = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from {
            states.reserve(64);
            from = self.section().engine.snapshot(at, self.epoch, &mut states);
        }
        states
    }

    pub(crate) fn try_get(self: &Arc<Self>) -> Result<WorkItem<K, C>, TryGetError> {
        let mut section = self.section();
        let mut handout = section.hand_out();
        let (state, now) = section.parts();
        if handout.is_none() && state.engine.next_wake(now).is_some_and(|at| at <= now.nanos()) {
            // What was due by then, as much as one section may fire, was nothing to hand out.
            drop(section);
            section = self.caught_up();
            handout = section.hand_out();
        }
        let item = match handout {
            Some(handout) => Ok(WorkItem::new(Arc::clone(self), handout)),
            None if section.engine.is_exhausted() => Err(TryGetError::ShutDown),
            None => Err(TryGetError::Empty),
        };
        // It may panic, and what is on its way out of a function by then is never dropped: the key would be in flight for ever.
        drop(section);
        item
    }

    /// One poll of a waiting `get`: `waiter` is what the last one left there. First it is done with `finished`.
    ///
    /// If `waits` is code of an executor it runs without the lock, so a first poll that finds nothing takes two sections: one to look, and
    /// one to wait.
    pub(crate) fn poll_get(
        self: &Arc<Self>,
        waiter: &mut Option<WaiterId>,
        finished: Option<Ticket>,
        is_task: bool,
        mut waits: impl FnMut() -> Waiter,
    ) -> Step<K, C> {
        // One that has waited before leaves the list and comes back in one section.
        let mut ready = waiter.filter(|_| is_task).map(|_| waits());
        let id = waiter.take();
        let mut section = self.section();
        let (state, now) = section.parts();
        let old = id.and_then(|id| state.waiters.leave(id));
        if let Some(ticket) = finished {
            state.engine.done(ticket, now);
        }
        let mut handout = section.hand_out();
        if handout.is_none() && !section.engine.is_exhausted() && ready.is_none() {
            if is_task {
                drop(section);
                ready = Some(waits());
                section = self.section();
                handout = section.hand_out();
            } else {
                ready = Some(waits());
            }
        }
        if handout.is_none() && section.is_inbox_open {
            // From now on an add has to wake somebody.
            section.set_inbox_open(false);
            handout = section.hand_out();
        }
        let mut unused = None;
        let step = match (handout, ready) {
            (Some(handout), _) => Step::Item(WorkItem::new(Arc::clone(self), handout)),
            (None, Some(ready)) if !section.engine.is_exhausted() => {
                let (id, step, source) = section.wait(id, ready);
                (*waiter, unused) = (Some(id), source);
                Step::Wait(step.map(|at| self.instant(at)))
            }
            (None, _) => Step::ShutDown,
        };
        // As in `try_get`.
        drop(section);
        drop((old, unused));
        step
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
