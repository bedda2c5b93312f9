//! The work queue.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, StdClock, Timer};

use crate::config::QueueConfig;
use crate::drain::Drain;
use crate::get::{Get, TryGetError, try_get};
use crate::item::WorkItem;
use crate::key_state::{Added, Counts, DelayKind, KeyState};
use crate::shared::Shared;
use crate::shutdown::ShutdownMode;
use crate::sync::Arc;
use crate::wait::Wait;

/// A deduplicating work queue that gives each key to one worker at a time.
///
/// A key that is added several times before it is dequeued is processed once. This type corresponds to client-go's
/// `RateLimitingInterface`. A suitable [`QueueConfig`] makes the queue behave like controller-runtime's
/// `PriorityQueue`.
///
/// Cloning is cheap and returns a handle to the same queue. Threads ([`blocking_get`](WorkQueue::blocking_get)) and
/// async tasks on any executor ([`get`](WorkQueue::get)) can use the same queue concurrently. The queue does not spawn
/// a background task. A thread that waits for a key wakes up when a delay ends, even if no other thread calls the
/// queue. If only tasks are waiting for a key, the queue sets a timer for the end of the delay.
///
/// # Latency
///
/// A key waits in the queue for at most 1 ms while any worker is idle and promptly polled. A worker is idle while it
/// waits in `get`. A worker is promptly polled if its executor polls it soon after a wake-up.
///
/// The queue wakes one waiting worker per available key, but no more workers at a time than there are processors. Each
/// worker that dequeues a key wakes the next worker. Without further wake-ups, a key could wait for a woken task that
/// cannot run, for example because its thread is blocked by another task or by another branch of its `select!`. If a
/// woken worker has not dequeued a key after 1 ms, the queue wakes all waiting workers. The queue measures this
/// millisecond with its [`Clock`]. A key can wait longer if the timer is imprecise. tokio's timer adds up to 1 ms, and
/// more if no runtime thread is free to run it.
///
/// If tasks on several tokio runtimes are waiting, the queue uses the timer of the runtime whose task started to wait
/// last. When the last task of this runtime stops waiting, the queue switches to the timer of another runtime.
///
/// Memory use depends on the number of distinct keys in the queue. Adding a key that is already queued does not use any
/// memory.
///
/// # Under the lock
///
/// One lock protects the queue. The lock is only held for a bounded amount of work, even if the queue contains many
/// keys or many delays end at the same time. Some user code runs under the lock and must not use the queue: the `Eq`
/// and `Clone` implementations of keys, the [`Order`](crate::Order), the limiter, the clock's `now`, and the counters
/// and histograms of the metrics. The queue hashes and drops keys, clones and calls wakers, creates sleeps and
/// registers gauges outside the lock.
///
/// # Panics
///
/// Panics in wakers and in user code under the lock propagate from methods and from the drop of a guard. The queue
/// stays usable after a panic:
///
/// - A call that has already dequeued a key returns the key, and only the panic hook reports the panic.
/// - If the `Clone` implementation of a key panics, the key is marked as done.
/// - If `push` of the `Order` panics, the key is not queued.
/// - If the metrics provider panics, it is not called again.
/// - If the clock panics, the operation uses the latest known time.
/// - If a guard is dropped while the thread is already panicking, no second panic propagates.
/// - A panic does not prevent the queue from waking other workers.
/// - If a waker panics when a delay ends, only the panic hook reports the panic.
///
/// A queue can contain at most 4,294,967,295 keys at a time. Adding a key to a full queue panics.
///
/// # Known limits
///
/// - The queue uses the timer of one tokio runtime. If all threads of this runtime are busy, the latency is unbounded,
///   even if another runtime is idle. Use [`StdClock`] for a queue that several runtimes share.
/// - After a burst of keys, the queue frees its memory only once it is empty. A single delayed key can keep the memory
///   of a whole burst allocated.
/// - A thread that finds the lock contended spins for a few microseconds before it blocks.
/// - If a queued key is added again with a delay and a higher priority, its priority is raised immediately.
/// - [`replace_after`](Self::replace_after) with a delay of zero queues the key, regardless of the
///   [`DelayPolicy`](crate::DelayPolicy). [`add_after`](Self::add_after) with a delay of zero follows the
///   `DelayPolicy`, like [`add`](Self::add).
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
/// queue.add("a"); // No other worker gets "a" until this guard is dropped.
/// match reconcile(&item) {
///     Ok(()) => item.forget(),
///     Err(()) => _ = item.retry(), // After 5 ms, then 10, then 20, at most 1000 s.
/// }
/// assert_eq!(queue.num_requeues(&"a"), 1);
/// ```
pub struct WorkQueue<K, C = StdClock> {
    shared: Arc<Shared<K, C>>,
}

/// Options for [`WorkQueue::add_with`].
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
    /// The delay before the key is queued. If `rate_limited` is also set, the shorter of the two delays applies.
    pub after: Option<Duration>,
    /// Whether to count a failure of the key and add the key after the limiter's delay.
    pub rate_limited: bool,
    /// The key's priority. Keys with a larger value are dequeued first if the [`Order`](crate::Order) uses priorities.
    pub priority: i32,
    /// The kind of the delay `after`, which determines the [`DelayPolicy`](crate::DelayPolicy) that applies. A
    /// rate-limited add is always a [retry](DelayKind::Retry).
    pub kind: DelayKind,
}

impl<K: Eq + Send + 'static, C: Clock> WorkQueue<K, C> {
    /// Creates an empty queue with the given configuration. [`default`](Self::default) uses the default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { shared: Shared::new(config) }
    }
}

impl<K, C: Clock> WorkQueue<K, C> {
    /// Returns the number of queued keys. Delayed keys and in-flight keys are not counted, even if an in-flight key was
    /// added again.
    ///
    /// Like [`counts`](Self::counts), this method first queues all keys whose delay has ended.
    pub fn len(&self) -> usize {
        self.counts().queued
    }

    /// Returns `true` if no key is queued. If no key is queued but the delay of a key has ended, this method queues the
    /// key and returns `false`. Unlike `is_empty`, [`len`](Self::len) queues all keys whose delay has ended.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Returns the number of keys in each state. This method first queues all keys whose delay has ended. The keys are
    /// queued in small batches, and the lock is released after each batch.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Returns the name of the queue, as set in [`QueueConfig`].
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns `true` if a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown_mode().is_some()
    }

    /// Returns the shutdown mode, or `None` if no shutdown has begun.
    pub fn shutdown_mode(&self) -> Option<ShutdownMode> {
        self.shared.shutdown_mode()
    }
}

impl<K: Hash + Eq, C: Clock> WorkQueue<K, C> {
    /// Adds `key` to the queue, like client-go's `Add`. Use [`add_with`](Self::add_with) to find out whether the key
    /// was queued.
    ///
    /// A key that is already queued keeps its position. A key that is in flight is queued when its guard is dropped. A
    /// key that is added several times is still queued only once. During a shutdown, this method only increments [a
    /// count in the report](crate::ShutdownReport::refused).
    ///
    /// If the lock is contended and no worker is waiting for a key, `add` pushes the key to an inbox of at most 64
    /// operations and returns. The next thread that acquires the lock applies the operations in the inbox. Dropping a
    /// guard uses the inbox under the same conditions as `add`. The inbox does not change the result of any call. The
    /// only visible effect of the inbox is that a panic in a key's `Eq`, the order or the metrics propagates from the
    /// call that applies the operations.
    pub fn add(&self, key: K) {
        self.shared.add(key);
    }

    /// Adds keys in order, like [`add`](Self::add), but acquires the lock less often.
    ///
    /// The lock is released after each batch of 64 keys. The iterator runs outside the lock.
    ///
    /// If the iterator, the `Eq` implementation of a key, or the `Order` panics, the keys of earlier batches stay in
    /// the queue. The keys of later batches are not added.
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

    /// Adds `key` with the given options, and returns the effect of the call. If a key is added several times, the
    /// highest requested priority applies.
    pub fn add_with(&self, key: K, options: AddOptions) -> Added {
        let AddOptions { after, rate_limited, priority, kind } = options;
        let hash = self.shared.hash(&key);
        let key = &mut Some(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        match after {
            _ if rate_limited => state.engine.add_rate_limited(hash, key, after, priority, now),
            Some(after) => state.engine.add_after(hash, key, after, kind, priority, now),
            None => state.engine.add(hash, key, priority, now),
        }
    }

    /// Adds `key` as a [reminder](DelayKind::Reminder) after a delay. The earlier deadline applies if the key already
    /// has a delay.
    ///
    /// If `after` is zero, adds the key immediately, like [`add`](Self::add). A delay that would end more than 584
    /// years after the queue was created is treated as infinite.
    pub fn add_after(&self, key: K, after: Duration) -> Added {
        self.add_with(key, AddOptions { after: Some(after), ..AddOptions::default() })
    }

    /// Counts a failure of `key`, and adds the key as a [retry](DelayKind::Retry) after the limiter's delay.
    ///
    /// By default, this call is ignored and counts no failure if the key already has a retry that is due at the same
    /// time or earlier. [`RetryAccounting::Always`](crate::RetryAccounting) counts every call as a failure.
    pub fn add_rate_limited(&self, key: K) -> Added {
        self.add_with(key, AddOptions { rate_limited: true, ..AddOptions::default() })
    }

    /// Sets the delay of `key` to `after` from now, and replaces any pending delay. If `after` is zero, cancels any
    /// pending delay and queues the key.
    pub fn replace_after(&self, key: K, after: Duration, kind: DelayKind) -> Added {
        let hash = self.shared.hash(&key);
        let key = &mut Some(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.replace_after(hash, key, after, kind, now)
    }

    /// Extends the pending delay of `key` to end no earlier than `after` from now. Returns `true` if the deadline
    /// changed.
    pub fn postpone(&self, key: &K, after: Duration) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.postpone(hash, key, after, now)
    }

    /// Cancels the pending delay of `key` and returns its deadline, or `None` if no delay is pending.
    pub fn cancel(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        let deadline = state.engine.cancel(hash, key, now);
        deadline.map(|deadline| self.shared.instant(deadline))
    }

    /// Removes `key` from the queue. An in-flight key that was added again is no longer queued when its guard is
    /// dropped. The key keeps its pending delay. Returns `true` if the key was queued, or if it was in flight and had
    /// been added again.
    pub fn remove(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.remove_queued(hash, key, now)
    }

    /// Resets the failure count of `key`. This method does not affect a pending delay or the guard of a worker.
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hash(key);
        self.shared.section().engine.forget(hash, key);
    }

    /// Returns the number of failures of `key` since the last call to `forget`, up to 65,535.
    pub fn num_requeues(&self, key: &K) -> u32 {
        let hash = self.shared.hash(key);
        let section = self.shared.section();
        section.engine.num_requeues(hash, key, &section.now)
    }
}

impl<K: Clone, C: Clock> WorkQueue<K, C> {
    /// Dequeues the next key without waiting.
    ///
    /// # Errors
    ///
    /// Returns [`TryGetError::Empty`] if no key is currently available, or [`TryGetError::ShutDown`] if the queue is
    /// shutting down and has no more keys to dequeue.
    pub fn try_get(&self) -> Result<WorkItem<K, C>, TryGetError> {
        try_get(&self.shared)
    }

    /// Dequeues the next key, and blocks the thread until one is available. Returns `None` when the queue is shutting
    /// down and has no more keys to dequeue.
    ///
    /// Workers are woken in FIFO order. If a key is already available, the call dequeues it immediately. If many delays
    /// end at the same time, each call queues only a few of the due keys before it dequeues a key. The
    /// [`Order`](crate::Order) receives due keys in small batches.
    pub fn blocking_get(&self) -> Option<WorkItem<K, C>> {
        Wait::new(&self.shared, None).block()
    }

    /// Dequeues the next key, and waits until one is available. This is the async version of
    /// [`blocking_get`](Self::blocking_get). The future resolves to `None` when the queue is shutting down and has no
    /// more keys to dequeue.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A key is dequeued only by the poll that returns it. If the future is woken but
    /// dropped before its next poll, the queue wakes another waiter. Keeping a woken future without polling it can
    /// delay a key by up to one [millisecond](WorkQueue#latency).
    ///
    /// # Fairness
    ///
    /// A task that always finds a key yields to the other tasks on its thread after at most 128 keys. With
    /// `TokioClock`, the task yields according to tokio's cooperative budget.
    pub fn get(&self) -> Get<'_, K, C>
    where
        C: Timer,
    {
        Get::new(Wait::new(&self.shared, None))
    }

    /// Returns the state of `key` for debugging, or `None` if the queue has no record of `key`. The running time of
    /// this method does not depend on the number of keys.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use pintle_workqueue::{DelayKind, WorkQueue};
    ///
    /// let queue: WorkQueue<&str> = WorkQueue::default();
    /// queue.add_after("a", Duration::from_secs(60));
    /// let state = queue.key_state(&"a").expect("the queue knows the key");
    /// assert!(matches!(state.delay, Some((DelayKind::Reminder, _))) && !state.dirty);
    /// assert_eq!(queue.key_state(&"b"), None);
    /// ```
    pub fn key_state(&self, key: &K) -> Option<KeyState<K>>
    where
        K: Hash + Eq,
    {
        self.shared.key_state(key)
    }

    /// Returns the state of each key for debugging, in no particular order. The lock is released after every few keys,
    /// so the result is not a consistent snapshot.
    pub fn snapshot(&self) -> Vec<KeyState<K>> {
        self.shared.snapshot()
    }

    /// Begins a shutdown. If a shutdown is already in progress, the stricter of the two modes applies. The returned
    /// [`Drain`] waits for the end of the shutdown. Dropping the `Drain` does not affect the shutdown.
    ///
    /// The queue rejects all adds after this call. This method first queues the keys whose delay has already ended, in
    /// small batches that hold the lock only briefly. Keys whose delay ends later are never queued.
    ///
    /// The shutdown begins even if this call propagates [a panic from user code](Self#panics).
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
