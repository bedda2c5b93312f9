//! The queue type.

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

/// A deduplicating work queue that dispatches each key to one worker at a time.
///
/// If a key is added several times before it is dequeued, a worker gets it once. This is client-go's `RateLimitingInterface`. With a
/// suitable [`QueueConfig`] it behaves like controller-runtime's `PriorityQueue`.
///
/// Clones are cheap and share the queue. Threads ([`blocking_get`](WorkQueue::blocking_get)) and tasks of any executor
/// ([`get`](WorkQueue::get)) can use a queue at the same time. There is no background task. A thread that waits for a key also waits for
/// delays. If only tasks wait, the queue sets a timer.
///
/// # Latency
///
/// A key waits at most 1 ms in the queue while a worker is idle and its executor polls it. A worker is idle while it
/// waits in `get`. An executor polls a worker if it runs the worker after a wake-up.
///
/// The queue wakes one waiting worker per available key. The number of workers that are being woken is at most the
/// number of processors. A worker that dequeues a key wakes the next worker. A woken task may not run, because another
/// branch of its `select!` or another task blocks its thread. If a woken worker has not dequeued its key after 1 ms,
/// the queue wakes all waiting workers. The 1 ms is a deadline on the queue's [`Clock`]. The imprecision of the timer
/// increases the delay. tokio's timer adds up to 1 ms, and more if no thread of the runtime is free to run its timer.
///
/// With tasks of several tokio runtimes, the queue uses the timer of the runtime whose task began to wait last. When the last task of this
/// runtime stops waiting, the queue sets the timer of another runtime.
///
/// The memory depends on the number of distinct keys. Adding a key again uses no memory.
///
/// # Under the lock
///
/// One lock protects the queue. The work of each critical section is bounded, even if the queue has many keys or many
/// keys become due at the same time. The following user code runs under the lock and must not use the queue: `Eq` and
/// `Clone` of keys, the [`Order`](crate::Order), the limiter, the clock's `now`, and the counters and histograms of the
/// metrics. Outside the lock, the queue hashes and drops keys, clones and calls wakers, creates sleeps and registers
/// gauges.
///
/// # Panics
///
/// Methods propagate panics of user code that runs under the lock, and panics of wakers. Dropping a guard does the
/// same. The queue stays usable:
///
/// - A call that has dequeued a key returns the key. In this case, the panic hook reports the panic, and the call does
///   not propagate it.
/// - A key whose `Clone` panicked is done.
/// - If pushing a key to the order panicked, the key is not queued.
/// - A metrics provider that panicked is not called again.
/// - If the clock panics, the operation uses the latest known time.
/// - If the thread is already panicking, a drop does not propagate another panic.
/// - A panic does not prevent other workers from being woken.
/// - If a waker panics when a delay ends, the panic is only reported by the panic hook.
///
/// The queue panics if it would have 4,294,967,296 keys at the same time.
///
/// # Known limits
///
/// - The tokio runtime that sets the timer may have no idle thread. In that case, the latency is not bounded, even if
///   another runtime is idle. Queues that several runtimes share can use [`StdClock`] instead.
/// - The queue frees the memory of a burst of keys only when it is empty. A single delayed key prevents the queue from
///   freeing this memory.
/// - If the lock is contended, a thread spins for a few microseconds before it sleeps.
/// - A delayed add with a higher priority also raises the current priority of a queued key.
/// - [`replace_after`](Self::replace_after) with a zero delay queues the key, regardless of the [`DelayPolicy`](crate::DelayPolicy).
///   [`add_after`](Self::add_after) with a zero delay follows the policy, like [`add`](Self::add).
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
    /// The delay. If the add is also rate-limited, the shorter of the two delays applies.
    pub after: Option<Duration>,
    /// Whether the add counts as a failure and waits for the limiter's delay.
    pub rate_limited: bool,
    /// The priority. A larger value comes first if the [`Order`](crate::Order) uses priorities.
    pub priority: i32,
}

impl<K: Eq + Send + 'static, C: Clock> WorkQueue<K, C> {
    /// Creates an empty queue. [`default`](Self::default) creates a queue with the default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { shared: Shared::new(config) }
    }
}

impl<K, C: Clock> WorkQueue<K, C> {
    /// Returns the number of queued keys. The number excludes delayed keys and all keys in flight, even keys in flight
    /// that were added again.
    ///
    /// Like [`counts`](Self::counts), this method first queues all keys whose delays have ended.
    pub fn len(&self) -> usize {
        self.counts().queued
    }

    /// Returns whether no key is queued. Unlike [`len`](Self::len), this method stops processing delays when it finds a queued key.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Returns the number of keys in each state. The method first queues all keys whose delays have ended, a few in
    /// each critical section.
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

    /// Returns the shutdown mode, or `None` if no shutdown has begun.
    pub fn shutdown_mode(&self) -> Option<ShutdownMode> {
        self.shared.shutdown_mode()
    }
}

impl<K: Hash + Eq, C: Clock> WorkQueue<K, C> {
    /// Marks `key` as dirty and queues it: client-go's `Add`. [`add_with`](Self::add_with) returns the effect.
    ///
    /// A key that is already queued keeps its position. A key that is in flight is queued when its guard is dropped.
    /// The key is queued only once, for any number of adds. After a shutdown has begun, an add only increments a count
    /// in the [report](crate::ShutdownReport::refused).
    ///
    /// If the lock is contended and no worker waits for a key, `add` pushes the key to an inbox of at most 64 entries and returns. The next
    /// thread that takes the lock applies the inbox. Dropping a guard works the same way. The results of all calls are
    /// the same as without the inbox, with one exception. A panic of the key's `Eq`, of the order or of the metrics
    /// propagates from the call that applies the operations in the inbox.
    pub fn add(&self, key: K) {
        self.shared.add(key);
    }

    /// Adds many keys in order, as [`add`](Self::add) does, but takes the lock less often.
    ///
    /// The method releases the lock after every 64 keys. The iterator is called without the lock.
    ///
    /// If the iterator, the `Eq` of a key or the order panics, the keys before the last batch of 64 were added. The
    /// keys after that batch were not added.
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

    /// Adds `key` with `options`. A queued key has the highest priority of all its adds.
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

    /// Adds `key` after a delay, as a [reminder](DelayKind::Reminder). If a delay of the key is already pending, the earlier deadline
    /// applies.
    ///
    /// A zero delay adds the key immediately, as [`add`](Self::add) does. If a delay would end more than 584 years
    /// after the creation of the queue, it never ends.
    pub fn add_after(&self, key: K, after: Duration) -> Added {
        self.add_with(key, AddOptions { after: Some(after), ..AddOptions::default() })
    }

    /// Counts a failure of `key` and adds it after the limiter's delay, as a [retry](DelayKind::Retry).
    ///
    /// By default, the call has no effect and counts no failure if a retry with an earlier or equal deadline is pending. See
    /// [`RetryAccounting`](crate::RetryAccounting).
    pub fn add_rate_limited(&self, key: K) -> Added {
        self.add_with(key, AddOptions { rate_limited: true, ..AddOptions::default() })
    }

    /// Sets the delay of `key` to `after` from now. A pending delay is replaced. A zero delay cancels a pending delay and queues the key.
    pub fn replace_after(&self, key: K, after: Duration, kind: DelayKind) -> Added {
        let hash = self.shared.hash(&key);
        let key = &mut Some(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.replace_after(hash, key, after, kind, now)
    }

    /// Extends a pending delay of `key` so that it ends no earlier than `after` from now. Returns whether the deadline changed.
    pub fn postpone(&self, key: &K, after: Duration) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.postpone(hash, key, after, now)
    }

    /// Cancels a pending delay of `key` and returns its deadline, or `None` if no delay was pending.
    pub fn cancel(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        let deadline = state.engine.cancel(hash, key, now);
        deadline.map(|deadline| self.shared.instant(deadline))
    }

    /// Removes `key` from the queue. If the key is in flight, it is not queued again when its guard is dropped. A pending delay is
    /// unchanged. Returns whether the key was queued, or was added again while in flight.
    pub fn remove(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        let mut section = self.shared.section();
        let (state, now) = section.parts();
        state.engine.remove_queued(hash, key, now)
    }

    /// Resets the failure count of `key`. A pending delay and the guard of a worker are unchanged.
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hash(key);
        self.shared.section().engine.forget(hash, key);
    }

    /// Returns the number of failures of `key` since the last `forget`. The maximum is 65,535.
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
    /// [`TryGetError::Empty`] if no key is available now. [`TryGetError::ShutDown`] if the queue is shutting down and
    /// has no more keys to dequeue.
    pub fn try_get(&self) -> Result<WorkItem<K, C>, TryGetError> {
        self.shared.try_get()
    }

    /// Dequeues the next key and blocks the thread until one is available. Returns `None` when the queue is shutting down and has no more
    /// keys to dequeue.
    ///
    /// Waiting workers are woken in the order of their arrival. A worker that finds an available key dequeues it
    /// immediately. If many keys become due at the same time, each `get` queues a few of them before it dequeues a key.
    /// Therefore, the order receives the keys in small batches.
    pub fn blocking_get(&self) -> Option<WorkItem<K, C>> {
        Wait::new(&self.shared, None).block()
    }

    /// Dequeues the next key and waits until one is available. The async version of [`blocking_get`](Self::blocking_get). Resolves to
    /// `None` when the queue is shutting down and has no more keys to dequeue.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Only the poll that returns a key dequeues it. If the dropped future was already
    /// woken, another waiter is woken instead. If a future is woken but not polled or dropped, it delays a key by up to
    /// one [millisecond](WorkQueue#latency).
    ///
    /// # Fairness
    ///
    /// A task that always finds a key yields to other tasks of its thread after at most 128 keys. With `TokioClock`,
    /// the task yields according to tokio's cooperative budget instead.
    pub fn get(&self) -> Get<'_, K, C>
    where
        C: Timer,
    {
        Get::new(Wait::new(&self.shared, None))
    }

    /// Returns the state of `key`, for debugging, or `None` if the queue has no record of the key. The run time of this
    /// call does not depend on the number of keys.
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

    /// Returns the state of each key, in no particular order, for debugging. The method copies a few keys in each
    /// critical section, so the result is not one consistent snapshot.
    pub fn snapshot(&self) -> Vec<KeyState<K>> {
        self.shared.snapshot()
    }

    /// Begins a shutdown. If a shutdown is in progress, the stricter of the two modes applies. The returned [`Drain`]
    /// waits until the shutdown has ended. Drop the `Drain` if you do not want to wait.
    ///
    /// After this call, the queue rejects adds, and never queues keys with a pending delay. Keys that are already due are
    /// queued first, in small batches, so the lock is never held for long.
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
