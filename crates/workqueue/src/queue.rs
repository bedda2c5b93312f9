//! The queue that threads and tasks share.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, StdClock, Timer};

use crate::config::QueueConfig;
use crate::engine::{Added, Counts, DelayKind, KeyState};
use crate::get::{Get, TryGetError, Wait};
use crate::item::WorkItem;
use crate::shared::Shared;
use crate::shutdown::{Drain, ShutdownMode};
use crate::sync::Arc;

/// A queue of keys that hands out each key to one worker at a time, and at most once for any number of adds: client-go's
/// `RateLimitingInterface`, and controller-runtime's `PriorityQueue` with the right [`QueueConfig`].
///
/// Handles are cheap to clone, and all of them are the same queue. It serves plain threads
/// ([`blocking_get`](WorkQueue::blocking_get)) and tasks of any executor ([`get`](WorkQueue::get)) at the same time. There is no
/// background task: a thread that waits for a key keeps the time, and the queue has a timer of its own while only tasks wait.
///
/// # Latency
///
/// A key never waits while a polled worker is idle, within 1 ms. A worker is idle while it waits in a `get`. It is polled if its executor
/// runs it once it is woken.
///
/// As many waiting workers are woken as there are keys to hand out, at most one per processor at a time; the worker that takes a key wakes
/// the next. A task that is woken may not get to run: it waits in a `select!` whose other branch computes, or on a thread that computes. If
/// it has not taken its key after 1 ms, all waiting workers are woken. The 1 ms is a deadline on the queue's [`Clock`], so the precision
/// of the timer adds to it: up to 1 ms for tokio's, and more while the runtime has no thread that is free to run its timer.
///
/// The number of keys is bounded by the number of distinct keys that are added: adding one again takes no memory.
///
/// # Under the lock
///
/// All steps are made under one lock, each of them bounded in work, however many keys there are or come due at once. The `Eq` and
/// `Clone` of keys run under it, as do the [`Order`](crate::Order), the limiter, the clock's `now`, and the counters and histograms of
/// the metrics, so none of them may use the queue. Keys are hashed and dropped without it. Wakers are cloned and called, sleeps created
/// and gauges registered without it as well.
///
/// # Panics
///
/// Any call, and the drop of a guard, passes on a panic of what runs under the lock, and of the wakers that it calls. The queue goes
/// on: a key whose `Clone` panicked is done, one that the order panicked about is not queued, and a provider of metrics that panicked
/// is told nothing more. If the clock panics, the step is made with the latest time known. No panic comes out of a drop while its
/// thread is unwinding already, and none keeps others asleep. A waker that panics when a delay ends is reported by the panic hook alone.
/// The 4,294,967,296th key that is there at a time panics.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::WorkQueue;
///
/// let queue: WorkQueue<&str> = WorkQueue::default();
/// queue.add("a");
/// queue.add("b");
/// queue.add("a");
/// assert_eq!(queue.len(), 2);
///
/// # let reconcile = |_: &str| Err::<(), ()>(());
/// let item = queue.blocking_get().expect("the queue is not shut down");
/// assert_eq!(*item, "a");
/// queue.add("a"); // Noted, but nobody else gets "a" before this guard is gone.
/// match reconcile(&item) {
///     Ok(()) => item.forget(),
///     Err(()) => _ = item.retry(), // After 5 ms, then 10, then 20, at most 1000 s.
/// }
/// assert_eq!(queue.num_requeues(&"a"), 1);
/// ```
pub struct WorkQueue<K, C = StdClock> {
    shared: Arc<Shared<K, C>>,
}

/// How to add a key with [`WorkQueue::add_with`].
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{AddOptions, WorkQueue};
///
/// let queue: WorkQueue<&str> = WorkQueue::default();
/// queue.add_with("a", AddOptions { rate_limited: true, ..AddOptions::default() });
/// assert_eq!((queue.counts().delayed, queue.num_requeues(&"a")), (1, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Wait that long. If it is also rate-limited, the shorter of the two delays counts.
    pub after: Option<Duration>,
    /// Wait as long as the limiter says.
    pub rate_limited: bool,
    /// Larger is sooner, for an [`Order`](crate::Order) that looks at it.
    pub priority: i32,
}

impl<K: Eq + Send + 'static, C: Clock> WorkQueue<K, C> {
    /// An empty queue. [`default`](Self::default) gives one with the default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { shared: Shared::new(config) }
    }
}

impl<K, C: Clock> WorkQueue<K, C> {
    /// How many keys wait to be handed out: not those in flight, added again or not, nor those that are delayed.
    ///
    /// Keys that have come due since the queue was last looked at are queued first, as by [`counts`](Self::counts).
    pub fn len(&self) -> usize {
        self.counts().queued
    }

    /// Whether no key waits to be handed out. Unlike [`len`](Self::len), it queues no more of the keys that have come due than it takes to
    /// find one.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// How many keys there are in each state. A key whose delay is over is queued: if many have come due since the queue was
    /// last looked at, they are queued first, a few at a time.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// The name from the [`QueueConfig`].
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown_mode().is_some()
    }

    /// How the queue is being shut down, if it is.
    pub fn shutdown_mode(&self) -> Option<ShutdownMode> {
        self.shared.shutdown_mode()
    }
}

impl<K: Hash + Eq, C: Clock> WorkQueue<K, C> {
    /// Marks `key` as having work to do: client-go's `Add`. [`add_with`](Self::add_with) says what came of it.
    ///
    /// A key that is queued already stays where it is. A key that is in flight is queued when its guard is gone, and only
    /// once for any number of adds. Once the queue is shutting down, nothing comes of it but a count in the
    /// [report](crate::ShutdownReport::refused).
    ///
    /// If another thread is at the queue while nobody waits for a key, the add is left to whoever comes next, at most 64 of them
    /// at a time, as is the end of a guard. No call can tell, but that a panic of the key's `Eq`, of the order or of the metrics comes
    /// out of the call that makes the step.
    pub fn add(&self, key: K) {
        self.shared.add(key);
    }

    /// Adds many keys in their order, as by [`add`](Self::add) but with fewer turns at the lock.
    ///
    /// The queue is free for others after each 64 keys. The iterator runs without the lock.
    ///
    /// If the iterator, the `Eq` of a key or the order panics, the keys before the last 64 have been added, and those after them have not.
    ///
    /// ```
    /// use pintle_workqueue::WorkQueue;
    ///
    /// let queue: WorkQueue<u32> = WorkQueue::default();
    /// queue.add_all([1, 2, 1]);
    /// assert_eq!(queue.len(), 2);
    /// ```
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>) {
        self.shared.add_all(keys);
    }

    /// Adds `key` in the way that `options` say. A key that is queued keeps the highest priority that it was added with.
    pub fn add_with(&self, key: K, options: AddOptions) -> Added {
        let AddOptions { after, rate_limited, priority } = options;
        let hash = self.shared.hash(&key);
        let key = &mut Some(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        match after {
            _ if rate_limited => state.engine.add_rate_limited(hash, key, after, priority, now),
            Some(after) => state.engine.add_after(hash, key, after, priority, now),
            None => state.engine.add(hash, key, priority, now),
        }
    }

    /// Adds `key` once `after` has passed, as a reminder. If a delay of the key is pending already, the one that ends
    /// earlier stays.
    ///
    /// No delay at all is a plain add. One that ends more than 584 years after the queue was made never ends.
    pub fn add_after(&self, key: K, after: Duration) -> Added {
        self.add_with(key, AddOptions { after: Some(after), ..AddOptions::default() })
    }

    /// Counts a failure of `key`, and adds it once the limiter's delay has passed, as a retry.
    ///
    /// By default a retry that comes no earlier than a pending one is dropped, and counts no failure: see
    /// [`Charge`](crate::Charge).
    pub fn add_rate_limited(&self, key: K) -> Added {
        self.add_with(key, AddOptions { rate_limited: true, ..AddOptions::default() })
    }

    /// Sets the delay of `key` to `after` from now, whether one is pending or not.
    pub fn replace_after(&self, key: K, after: Duration, kind: DelayKind) -> Added {
        let hash = self.shared.hash(&key);
        let key = &mut Some(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.replace_after(hash, key, after, kind, now)
    }

    /// Makes a pending delay of `key` end no earlier than `after` from now. Returns whether that changed anything.
    pub fn postpone(&self, key: &K, after: Duration) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.postpone(hash, key, after, now)
    }

    /// Takes back a pending delay of `key`, and returns when it would have ended. `None`: there was none.
    pub fn cancel(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        let deadline = state.engine.cancel(hash, key, now);
        deadline.map(|deadline| self.shared.instant(deadline))
    }

    /// Takes back an add of `key` that no worker has begun to work on: it is queued no more, or, if it is in flight, will not be when
    /// that is done. A pending delay stays. Returns whether there was such an add.
    pub fn remove(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.remove_queued(hash, key, now)
    }

    /// Forgets the failures of `key`. A pending delay stays, and so does a guard that holds the key.
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hash(key);
        self.shared.section().engine.forget(hash, key);
    }

    /// How many failures of `key` have been counted since it was last forgotten. 65,535 stands for any more, too.
    pub fn num_requeues(&self, key: &K) -> u32 {
        let hash = self.shared.hash(key);
        let section = self.shared.section();
        section.engine.num_requeues(hash, key, &section.now)
    }
}

impl<K: Clone, C: Clock> WorkQueue<K, C> {
    /// Takes the next key, without waiting for one.
    ///
    /// # Errors
    ///
    /// [`TryGetError`] says whether there may be one later.
    pub fn try_get(&self) -> Result<WorkItem<K, C>, TryGetError> {
        self.shared.try_get()
    }

    /// Takes the next key; blocks the thread until there is one. `None` once the queue is shutting down and has nothing
    /// left to hand out.
    ///
    /// Workers are woken in the order in which they came; one that does not have to wait takes a key at once. If many keys come due at
    /// once, each get queues a few of them before it takes one, so an order sees them a few at a time.
    pub fn blocking_get(&self) -> Option<WorkItem<K, C>> {
        Wait::new(&self.shared, None).block()
    }

    /// Takes the next key; waits until there is one. `None` once the queue is shutting down and has nothing left to hand
    /// out. Otherwise as [`blocking_get`](Self::blocking_get).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: a key is handed out only by the poll that returns it, and a wake-up that the
    /// future had received is passed on to another waiter. A future that is woken, and then neither polled nor dropped, delays a key for a
    /// [millisecond](WorkQueue#latency).
    ///
    /// # Fairness
    ///
    /// A task that always finds a key gives way to the other tasks of its thread after 128 keys at most. With `TokioClock` it takes part
    /// in tokio's budget.
    pub fn get(&self) -> Get<'_, K, C>
    where
        C: Timer,
    {
        Get::new(Wait::new(&self.shared, None))
    }

    /// What the queue knows of each key, in no particular order: for debugging. It copies a few keys at a time, so each is as it
    /// was when it was copied.
    pub fn snapshot(&self) -> Vec<KeyState<K>> {
        self.shared.snapshot()
    }

    /// Begins to shut down, or tightens a shutdown that has begun; never loosens one. The returned [`Drain`] waits until that
    /// is over. Drop it if you do not want to wait.
    ///
    /// Adds are refused from now on and delays no longer ripen. What is due by now is queued first, a few keys at a time.
    pub fn shut_down(&self, mode: ShutdownMode) -> Drain<K, C> {
        self.shared.shut_down(mode);
        Drain::new(Arc::clone(&self.shared))
    }
}

impl<K, C> Clone for WorkQueue<K, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Eq + Send + 'static, C: Clock + Default> Default for WorkQueue<K, C> {
    fn default() -> Self {
        Self::new(QueueConfig::default())
    }
}

impl<K, C: Clock> fmt::Debug for WorkQueue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
