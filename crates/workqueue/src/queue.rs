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

/// A deduplicating work queue that dispatches each key to one worker at a time.
///
/// A key that is added several times before it is dequeued is dispatched once. The queue corresponds to client-go's
/// `RateLimitingInterface`. With a suitable [`QueueConfig`], the queue behaves like controller-runtime's `PriorityQueue`.
///
/// Cloning is cheap and returns a handle to the same queue. Threads ([`blocking_get`](WorkQueue::blocking_get)) and tasks of any executor
/// ([`get`](WorkQueue::get)) can use a queue concurrently. The queue has no background task. A thread that waits for a key wakes up by
/// itself when a delay ends. If only tasks wait for a key, the queue sets a timer for the end of the delay.
///
/// # Latency
///
/// While any worker is idle and promptly polled, a key waits at most 1 ms in the queue. A worker is idle while it waits in `get`. A worker
/// is promptly polled if its executor runs it soon after a wake-up.
///
/// The queue wakes one waiting worker per available key, but at most as many workers at a time as there are processors. A worker that
/// dequeues a key wakes the next worker. A woken task may not run, for example because another branch of its `select!`, or another task,
/// blocks its thread. If a woken worker has not dequeued its key after 1 ms, the queue wakes all waiting workers. The queue's [`Clock`]
/// measures this 1 ms. With an imprecise timer, the delay can be longer. tokio's timer adds up to 1 ms, and more if no runtime thread is
/// free to run the timer.
///
/// If tasks on several tokio runtimes wait, the queue uses the timer of the runtime whose task began to wait last. When the last task of
/// that runtime stops waiting, the queue switches to another runtime's timer.
///
/// Memory use depends on the number of distinct keys. Adding a key that is already queued uses no memory.
///
/// # Under the lock
///
/// One lock protects the queue. The lock is held only for a bounded amount of work, even if the queue has many keys or if many delays end
/// at the same time. The following user code runs under the lock and must not use the queue: the keys' `Eq` and `Clone` implementations,
/// the [`Order`](crate::Order), the limiter, the clock's `now`, and the metrics' counters and histograms. Outside the lock, the queue
/// hashes and drops keys, clones and calls wakers, creates sleeps and registers gauges.
///
/// # Panics
///
/// Methods, and the drop of a guard, propagate panics from wakers and from user code that runs under the lock. After a panic, the queue
/// stays usable:
///
/// - A call that has dequeued a key returns the key instead of propagating the panic. Only the panic hook reports this panic.
/// - A key whose `Clone` panicked is marked as done.
/// - If the `Order`'s `push` panicked, the key is not queued.
/// - If the metrics provider panicked, the queue does not call it again.
/// - If the clock panicked, the operation uses the latest known time.
/// - If a guard is dropped while the thread is already panicking, the drop does not propagate another panic.
/// - Other workers are still woken.
/// - If a waker panics when a delay ends, only the panic hook reports the panic.
///
/// A queue can have at most 4,294,967,295 keys at the same time. Adding another key panics.
///
/// # Known limits
///
/// - While all threads of the tokio runtime whose timer the queue uses are busy, the latency is unbounded, even if another runtime is idle.
///   For a queue that several runtimes share, use [`StdClock`] instead.
/// - After a burst of keys, the queue frees its memory only when it becomes empty. A single delayed key keeps the memory of the whole burst
///   allocated.
/// - If the lock is contended, a thread spins for a few microseconds before it blocks.
/// - If a queued key is added again with a delay and a higher priority, its priority is raised before the delay ends.
/// - [`replace_after`](Self::replace_after) with a delay of zero queues the key, regardless of the
///   [`DelayPolicy`](crate::DelayPolicy). [`add_after`](Self::add_after) with a delay of zero follows the policy, like
///   [`add`](Self::add).
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
    /// The delay after which the key is queued. If `rate_limited` is also set, the shorter of this delay and the limiter's delay applies.
    pub after: Option<Duration>,
    /// Whether to count a failure of the key, and to add the key after the limiter's delay.
    pub rate_limited: bool,
    /// The key's priority. If the [`Order`](crate::Order) uses priorities, keys with larger values are dequeued first.
    pub priority: i32,
}

impl<K: Eq + Send + 'static, C: Clock> WorkQueue<K, C> {
    /// Creates an empty queue with `config`. [`default`](Self::default) uses the default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { shared: Shared::new(config) }
    }
}

impl<K, C: Clock> WorkQueue<K, C> {
    /// Returns the number of queued keys. Delayed keys and keys in flight do not count, even if an in-flight key was added again.
    ///
    /// Like [`counts`](Self::counts), this method first queues all keys whose delays have ended.
    pub fn len(&self) -> usize {
        self.counts().queued
    }

    /// Returns `true` if no key is queued. This method first queues keys whose delays have ended, until one key is queued.
    /// [`len`](Self::len) queues all of these keys.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Returns the number of keys in each state. This method first queues all keys whose delays have ended. It releases the lock after
    /// every few keys.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Returns the queue's name, as set in [`QueueConfig`].
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
    /// Adds `key` to the queue, like client-go's `Add`. To find out whether the key was queued, use [`add_with`](Self::add_with).
    ///
    /// A key that is already queued keeps its position. A key that is in flight is queued when its guard is dropped.
    /// A key that is added several times is still queued only once. After a shutdown has begun, this method only increments [a count in the
    /// report](crate::ShutdownReport::refused).
    ///
    /// If the lock is contended and no worker waits for a key, `add` pushes the key to an inbox of at most 64 entries and returns. The next
    /// thread that takes the lock applies the operations in the inbox. Dropping a guard uses the inbox in the same way. The inbox does not
    /// change any call's result. However, if a key's `Eq`, the order or the metrics panic, the panic propagates from the call that applies
    /// the operations.
    pub fn add(&self, key: K) {
        self.shared.add(key);
    }

    /// Adds many keys in order, like [`add`](Self::add), but takes the lock less often.
    ///
    /// The method releases the lock after each batch of 64 keys. The iterator runs without the lock.
    ///
    /// If the iterator, a key's `Eq` implementation, or the `Order` panics, keys from earlier batches stay in the queue. Keys from later
    /// batches are not added.
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

    /// Adds `key` with `options`, and returns the effect of the call. If a key is added several times, the highest of the requested
    /// priorities applies.
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

    /// Adds `key` after a delay, as a [reminder](DelayKind::Reminder). If the key already has a delay, the earlier
    /// deadline applies.
    ///
    /// If `after` is zero, adds the key immediately, like [`add`](Self::add). A delay that would end more than 584 years after the queue's
    /// creation never ends.
    pub fn add_after(&self, key: K, after: Duration) -> Added {
        self.add_with(key, AddOptions { after: Some(after), ..AddOptions::default() })
    }

    /// Counts a failure of `key`, and adds the key after the limiter's delay, as a [retry](DelayKind::Retry).
    ///
    /// By default, the call has no effect and counts no failure if the key already has a retry that is due at the same time or earlier.
    /// [`RetryAccounting`](crate::RetryAccounting) changes this rule.
    pub fn add_rate_limited(&self, key: K) -> Added {
        self.add_with(key, AddOptions { rate_limited: true, ..AddOptions::default() })
    }

    /// Sets the delay of `key` to `after` from now, replacing any pending delay. If `after` is zero, cancels any pending delay and queues
    /// the key.
    pub fn replace_after(&self, key: K, after: Duration, kind: DelayKind) -> Added {
        let hash = self.shared.hash(&key);
        let key = &mut Some(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.replace_after(hash, key, after, kind, now)
    }

    /// Extends the pending delay of `key`, so that the delay ends no earlier than `after` from now. Returns `true` if the deadline changed.
    pub fn postpone(&self, key: &K, after: Duration) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.postpone(hash, key, after, now)
    }

    /// Cancels the pending delay of `key` and returns its deadline, or `None` if no delay was pending.
    pub fn cancel(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        let deadline = state.engine.cancel(hash, key, now);
        deadline.map(|deadline| self.shared.instant(deadline))
    }

    /// Removes `key` from the queue. A key in flight that was added again will not be queued when its guard is dropped. A pending delay
    /// does not change. Returns `true` if the key was queued, or if it was in flight and had been added again.
    pub fn remove(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.remove_queued(hash, key, now)
    }

    /// Resets the failure count of `key`. A pending delay and a worker's guard do not change.
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
    /// Returns [`TryGetError::Empty`] if no key is available now, and [`TryGetError::ShutDown`] if the queue is shutting down and has no
    /// more keys to dequeue.
    pub fn try_get(&self) -> Result<WorkItem<K, C>, TryGetError> {
        try_get(&self.shared)
    }

    /// Dequeues the next key, blocking the thread until a key is available. Returns `None` when the queue is shutting down and has no more
    /// keys to dequeue.
    ///
    /// Workers are woken in the order in which they began to wait. If a key is available, the call dequeues it immediately. If many delays
    /// end at the same time, each call queues a few of the due keys before it dequeues one key. Therefore, the [`Order`](crate::Order)
    /// receives due keys in small batches.
    pub fn blocking_get(&self) -> Option<WorkItem<K, C>> {
        Wait::new(&self.shared, None).block()
    }

    /// Dequeues the next key, waiting until a key is available. This is the async version of [`blocking_get`](Self::blocking_get). The
    /// future resolves to `None` when the queue is shutting down and has no more keys to dequeue.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A key is dequeued only by the poll that returns it. If a woken future is dropped before its next poll,
    /// the queue wakes another waiter. A woken future that is not polled and not dropped can delay a key by up to one
    /// [millisecond](WorkQueue#latency).
    ///
    /// # Fairness
    ///
    /// A task that always finds a key yields to other tasks on its thread after at most 128 keys. With `TokioClock`, tokio's cooperative
    /// budget determines when the task yields.
    pub fn get(&self) -> Get<'_, K, C>
    where
        C: Timer,
    {
        Get::new(Wait::new(&self.shared, None))
    }

    /// Returns the state of `key` for debugging, or `None` if the queue has no record of `key`. The run time does not depend on the number
    /// of keys.
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

    /// Returns the state of each key for debugging, in no particular order. This method releases the lock after every few keys, so the
    /// result is not a consistent snapshot.
    pub fn snapshot(&self) -> Vec<KeyState<K>> {
        self.shared.snapshot()
    }

    /// Begins a shutdown. If a shutdown has already begun, the stricter of the two modes applies. The returned [`Drain`] waits for the end
    /// of the shutdown. Dropping the `Drain` does not affect the shutdown.
    ///
    /// After this call, the queue rejects all adds. Before the shutdown begins, this method queues the keys whose delay has already ended,
    /// in small batches that never hold the lock for long. All other delayed keys are never queued.
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
