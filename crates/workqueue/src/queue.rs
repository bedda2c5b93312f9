//! The queue type.

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
/// If a key is added several times before it is dequeued, a worker gets the key once. The queue corresponds to
/// client-go's `RateLimitingInterface`. With a suitable [`QueueConfig`], the queue behaves like controller-runtime's
/// `PriorityQueue`.
///
/// Clones are cheap and are handles to the same queue. A queue can be used at the same time by threads
/// ([`blocking_get`](WorkQueue::blocking_get)) and by tasks of any executor ([`get`](WorkQueue::get)). The queue has no
/// background task. A thread that waits for a key also wakes up when a delay ends. If only tasks wait, the queue sets a
/// timer.
///
/// # Latency
///
/// If a worker is idle and its executor polls it, a key waits at most 1 ms in the queue. A worker is idle while it
/// waits in `get`. The executor polls a worker if it runs the worker soon after a wake-up.
///
/// The queue wakes one waiting worker per available key. At any time, the queue wakes at most as many workers as there
/// are processors. A worker that dequeues a key wakes the next worker. A woken task may not run, because another branch of its `select!`,
/// or another task, blocks its thread. If a woken worker has not dequeued its key after 1 ms, the queue wakes all waiting workers. The
/// queue's [`Clock`] measures this 1 ms. If the timer is imprecise, the delay can be longer than 1 ms. tokio's timer adds up to 1 ms, and
/// more if no thread of the runtime is free to run the timer.
///
/// If tasks of several tokio runtimes wait, the queue uses the timer of the runtime whose task began to wait last. When
/// the last task of this runtime stops waiting, the queue uses the timer of another runtime.
///
/// The memory that the queue uses depends on the number of distinct keys. Adding a key that is already queued uses no memory.
///
/// # Under the lock
///
/// One lock protects the queue. The lock is held only for a bounded amount of work, even if the queue has many keys or if many delays end
/// at the same time. The following user code runs under the lock and must not use the queue: `Eq` and `Clone` of keys, and the
/// [`Order`](crate::Order). The limiter, the clock's `now`, and the counters and histograms of the metrics also run under the lock. Outside
/// the lock, the queue hashes and drops keys, clones and calls wakers, creates sleeps and registers gauges.
///
/// # Panics
///
/// Methods propagate panics of user code that runs under the lock, and panics of wakers. Dropping a guard propagates
/// such panics too. After a panic, the queue stays usable:
///
/// - A call that has dequeued a key returns the key and does not propagate the panic. Only the panic hook reports this
///   panic.
/// - A key whose `Clone` panicked is marked as done.
/// - If the `Order` panicked while a key was pushed, the key is not queued.
/// - If the metrics provider panicked, the queue does not call it again.
/// - If the clock panicked, the operation uses the latest known time.
/// - If a guard is dropped while the thread is already panicking, the drop does not propagate another panic.
/// - Other workers are still woken.
/// - If a waker panics when a delay ends, only the panic hook reports the panic.
///
/// A queue can have at most 4,294,967,295 keys at the same time. Adding a further key panics.
///
/// # Known limits
///
/// - The tokio runtime whose timer the queue uses may have no idle thread. If the runtime has no idle thread, the
///   latency is not bounded, even if another runtime is idle. If several runtimes share a queue, the queue can use
///   [`StdClock`] instead.
/// - After a burst of keys, the queue frees its memory only when the queue is empty. So a single delayed key keeps this memory allocated.
/// - If the lock is contended, a thread spins for a few microseconds before it blocks.
/// - If a queued key is added with a delay and a higher priority, the priority of the queued key is raised immediately.
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
    /// The delay after which the key is queued. If `rate_limited` is also set, the shorter of the two delays applies.
    pub after: Option<Duration>,
    /// Whether the call counts a failure of the key and adds the key after the limiter's delay.
    pub rate_limited: bool,
    /// The priority of the key. A key with a larger value is dequeued first if the [`Order`](crate::Order) uses
    /// priorities.
    pub priority: i32,
}

impl<K: Eq + Send + 'static, C: Clock> WorkQueue<K, C> {
    /// Creates an empty queue with this configuration. [`default`](Self::default) creates an empty queue with the
    /// default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { shared: Shared::new(config) }
    }
}

impl<K, C: Clock> WorkQueue<K, C> {
    /// Returns the number of queued keys. Delayed keys and keys in flight do not count, even if a key in flight was
    /// added again.
    ///
    /// Like [`counts`](Self::counts), this method first queues all keys whose delays have ended.
    pub fn len(&self) -> usize {
        self.counts().queued
    }

    /// Returns whether no key is queued. If delays have ended, this method queues their keys only until one key is queued. In contrast,
    /// [`len`](Self::len) queues all of them.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Returns the number of keys in each state. This method first queues all keys whose delays have ended. The method releases the lock
    /// after every few keys.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Returns the name of the queue from its [`QueueConfig`].
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown_mode().is_some()
    }

    /// Returns the shutdown mode. Returns `None` if no shutdown has begun.
    pub fn shutdown_mode(&self) -> Option<ShutdownMode> {
        self.shared.shutdown_mode()
    }
}

impl<K: Hash + Eq, C: Clock> WorkQueue<K, C> {
    /// Adds `key` to the queue, like client-go's `Add`. [`add_with`](Self::add_with) returns the effect of the call, and this method does
    /// not.
    ///
    /// A key that is already queued keeps its position. A key that is in flight is queued when its guard is dropped.
    /// A key that is added several times is still queued only once. After a shutdown has begun, this method only increments [a count in the
    /// report](crate::ShutdownReport::refused).
    ///
    /// If the lock is contended and no worker waits for a key, `add` pushes the key to an inbox of at most 64 entries
    /// and returns. The next thread that takes the lock applies the inbox. Dropping a guard uses the inbox in the same
    /// way. The inbox does not change the result of any call. However, if the key's `Eq`, the order or the metrics panic, the panic
    /// propagates from the call that applies the inbox.
    pub fn add(&self, key: K) {
        self.shared.add(key);
    }

    /// Adds many keys in order, like [`add`](Self::add), but takes the lock less often.
    ///
    /// The method releases the lock after every 64 keys. The iterator runs without the lock.
    ///
    /// Keys are added in batches of 64. If the iterator, the `Eq` implementation of a key, or the `Order` panics, the keys of earlier
    /// batches stay in the queue. The keys of later batches are not added.
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

    /// Adds `key` with `options`, and returns the effect of the call. A queued key has the highest of the priorities with which it was
    /// added.
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
    /// If `after` is zero, adds the key immediately, like [`add`](Self::add). A delay that would end more than 584
    /// years after the creation of the queue never ends.
    pub fn add_after(&self, key: K, after: Duration) -> Added {
        self.add_with(key, AddOptions { after: Some(after), ..AddOptions::default() })
    }

    /// Counts a failure of `key`, and adds the key after the limiter's delay, as a [retry](DelayKind::Retry).
    ///
    /// By default, if the key already has a retry that is due at the same time or earlier, the call has no effect. The call then does not
    /// count a failure. [`RetryAccounting`](crate::RetryAccounting) changes this rule.
    pub fn add_rate_limited(&self, key: K) -> Added {
        self.add_with(key, AddOptions { rate_limited: true, ..AddOptions::default() })
    }

    /// Sets the delay of `key` to `after` from now. The new delay replaces a pending delay. If `after` is zero, the
    /// call cancels a pending delay and queues the key.
    pub fn replace_after(&self, key: K, after: Duration, kind: DelayKind) -> Added {
        let hash = self.shared.hash(&key);
        let key = &mut Some(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.replace_after(hash, key, after, kind, now)
    }

    /// Extends the pending delay of `key`, so that it ends no earlier than `after` from now. Returns whether the
    /// deadline changed.
    pub fn postpone(&self, key: &K, after: Duration) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.postpone(hash, key, after, now)
    }

    /// Cancels the pending delay of `key` and returns its deadline. Returns `None` if no delay was pending.
    pub fn cancel(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        let deadline = state.engine.cancel(hash, key, now);
        deadline.map(|deadline| self.shared.instant(deadline))
    }

    /// Removes `key` from the queue. If the key is in flight and was added again, it is not queued when its guard is
    /// dropped. A pending delay of the key does not change. Returns true if the key was queued, or if it was in flight and had been added
    /// again.
    pub fn remove(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.remove_queued(hash, key, now)
    }

    /// Resets the failure count of `key`. A pending delay and the guard of a worker do not change.
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hash(key);
        self.shared.section().engine.forget(hash, key);
    }

    /// Returns the number of failures of `key` since the last call of `forget`. The maximum is 65,535.
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
    /// Returns [`TryGetError::Empty`] if no key is available now. Returns [`TryGetError::ShutDown`] if the queue is
    /// shutting down and has no more keys to dequeue.
    pub fn try_get(&self) -> Result<WorkItem<K, C>, TryGetError> {
        try_get(&self.shared)
    }

    /// Dequeues the next key. Blocks the thread until a key is available. Returns `None` when the queue is shutting
    /// down and has no more keys to dequeue.
    ///
    /// Workers are woken in the order in which they began to wait. If a key is available, the call dequeues it
    /// immediately. If many delays end at the same time, each call queues a few of their keys before it dequeues one key. Therefore, the
    /// [`Order`](crate::Order) receives the keys in small batches.
    pub fn blocking_get(&self) -> Option<WorkItem<K, C>> {
        Wait::new(&self.shared, None).block()
    }

    /// Dequeues the next key. Waits until a key is available. This method is the async version of
    /// [`blocking_get`](Self::blocking_get). The future resolves to `None` when the queue is shutting down and has no
    /// more keys to dequeue.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A key is dequeued only by the poll that returns it. If the future is dropped after
    /// it was woken, the queue wakes another waiter instead. If the future is woken, but then is not polled and not dropped, a key can be
    /// delayed by up to one [millisecond](WorkQueue#latency).
    ///
    /// # Fairness
    ///
    /// If a task always finds a key, it yields to other tasks of its thread after at most 128 keys. If the clock is
    /// `TokioClock`, the task yields according to tokio's cooperative budget instead.
    pub fn get(&self) -> Get<'_, K, C>
    where
        C: Timer,
    {
        Get::new(Wait::new(&self.shared, None))
    }

    /// Returns the state of `key`, for debugging. Returns `None` if the queue has no record of the key. The run time of
    /// this call does not depend on the number of keys.
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

    /// Returns the state of each key, in no particular order, for debugging. This method releases the lock after every few keys, so the
    /// result is not a consistent snapshot.
    pub fn snapshot(&self) -> Vec<KeyState<K>> {
        self.shared.snapshot()
    }

    /// Begins a shutdown. If a shutdown has already begun, the stricter of the two modes applies. The returned
    /// [`Drain`] waits until the shutdown has ended. If you do not want to wait, drop the `Drain`.
    ///
    /// After this call, the queue rejects all adds. Before the shutdown begins, this method queues the keys whose delay has already ended.
    /// The method does this in small batches, so that the lock is never held for long. All other delayed keys are never queued.
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
