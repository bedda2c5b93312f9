//! A wrapper that shares a queue between threads or tasks.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::error::FifoClosed;
use crate::panic::FirstPanic;
use crate::queue::Queue;
use crate::wait::Wait;

/// A [`Queue`] that is shared between threads, tasks, or both.
///
/// The queue has no background task and needs no runtime. The wait methods of the queue return futures, which can also
/// [block a thread](Wait::wait).
///
/// Producers access the queue through [`lock`](Self::lock), or through [`room`](Self::room) to wait for a slow
/// consumer. Consumers either [`process`](Self::process) items while the queue is locked, or [`take`](Self::take) items
/// and process them after unlocking the queue. The queue [has synced](Queue::has_synced) once the consumer has
/// processed the first list. [`synced`](Self::synced) waits for this.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
///
/// use pintle_delta_fifo::{RealFifo, RealFifoConfig, SharedFifo, SharedFifoConfig};
///
/// let fifo = RealFifo::new(|name: &String| Ok(name.clone()), RealFifoConfig::default());
/// let fifo = Arc::new(SharedFifo::new(fifo, SharedFifoConfig::default()));
/// let consumer = thread::spawn({
///     let fifo = fifo.clone();
///     move || {
///         let mut seen = 0;
///         // `take(…).await` in a task.
///         while let Ok(batch) = fifo.take(|fifo| fifo.pop_batch(1000)).wait() {
///             seen += batch.popped.items.len();
///         }
///         seen
///     }
/// });
/// fifo.room().wait().add("a".to_owned())?;
/// fifo.room().wait().add("b".to_owned())?;
/// fifo.lock().close();
/// assert_eq!(consumer.join().unwrap(), 2);
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct SharedFifo<Q> {
    state: Mutex<State<Q>>,
    /// The wakers of callers that wait for a change of the queue. The wakers have a separate lock, because a caller may drop a
    /// waiting future while it holds the queue's lock.
    waiters: Mutex<Waiters>,
    config: SharedFifoConfig,
    /// The thread that is running a `process` function under the lock of `state`.
    processing: Mutex<Option<ThreadId>>,
}

/// The configuration of a [`SharedFifo`].
pub struct SharedFifoConfig {
    /// The number of queued items at which [`room`](SharedFifo::room) starts to wait. The default is 2,000, as in
    /// client-go.
    pub bound: usize,
    /// Receives the metrics of the queue. `None` disables metrics.
    pub metrics: Option<Box<dyn FifoMetrics>>,
}

/// Receives the metrics of a [`SharedFifo`], as in client-go. The queue calls the methods of `FifoMetrics` while it is
/// locked, so the last reported values match the queue. The methods must not block or access the queue.
///
/// If a method panics, the call that changed the queue first wakes all waiters. The call then resumes the panic, unless
/// it returns popped items. See the [panics of a guard](Guard#panics).
pub trait FifoMetrics: Send + Sync {
    /// Reports the number of queued items: client-go's gauge `informer_queued_items`.
    fn queued(&self, items: usize);

    /// Reports the processing time of popped items: client-go's histogram `informer_processing_latency_seconds`.
    fn processed(&self, took: Duration);
}

/// A guard for exclusive access to a [`SharedFifo`]'s queue. Dropping the guard wakes the callers that wait for the queue to change.
///
/// # Panics
///
/// If the metrics or a waker panic, dropping the guard wakes all waiters and then resumes the first panic. The panic is
/// not resumed if the thread is already panicking. [`take`](SharedFifo::take) and [`process`](SharedFifo::process) drop
/// such a panic and return their result, because otherwise the popped items would be lost. The panic hook reports every
/// panic, even if it is not resumed.
pub struct Guard<'a, Q: Queue> {
    // The first field, so that the lock is released before the other fields wake the waiters.
    state: MutexGuard<'a, State<Q>>,
    fifo: &'a SharedFifo<Q>,
    has_changed: bool,
    /// The popped items that the consumer is processing. Dropping the `Guard` marks these items as processed.
    in_process: Option<InProcess>,
    after: After,
}

/// Items that a consumer has taken from a [`SharedFifo`]. Dropping a `Taken` marks the items as processed.
///
/// The caller may move `popped` out, but must keep the `Taken` until the items are processed. Dropping a `Taken` locks
/// the queue, so do not drop it while you hold a [`Guard`]. Dropping a `Taken` panics in the same cases as dropping a
/// `Guard`.
pub struct Taken<'a, Q: Queue, P> {
    /// The popped items.
    pub popped: P,
    _claim: Claim<'a, Q>,
}

struct Claim<'a, Q: Queue> {
    fifo: &'a SharedFifo<Q>,
    in_process: InProcess,
}

#[derive(Clone, Copy)]
struct InProcess {
    /// The time when these items were popped, or `None` if metrics are disabled.
    since: Option<Instant>,
}

struct State<Q> {
    queue: Q,
    is_claimed: bool,
}

#[derive(Default)]
struct Waiters {
    wakers: Vec<(u64, Waker)>,
    last: u64,
}

/// The actions after the lock is released: wake all waiters, then resume the first panic.
#[derive(Default)]
struct After {
    wakers: Vec<(u64, Waker)>,
    panic: FirstPanic,
}

impl<Q: Queue> SharedFifo<Q> {
    /// Creates a shared queue.
    pub fn new(queue: Q, config: SharedFifoConfig) -> Self {
        let state = State { queue, is_claimed: false };
        Self { state: Mutex::new(state), waiters: Mutex::default(), config, processing: Mutex::new(None) }
    }

    /// Blocks until the queue is locked, even if the queue is full. Use this method for lookups, for `close`, and for
    /// changes that must not wait for a slow consumer.
    ///
    /// # Panics
    ///
    /// Panics if a function that was passed to [`process`](Self::process) calls this method, because the call would
    /// deadlock. A function that was passed to `process` should use the queue that it receives as an argument.
    pub fn lock(&self) -> Guard<'_, Q> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let processing = *self.processing.lock().unwrap_or_else(PoisonError::into_inner);
                assert_ne!(
                    processing,
                    Some(thread::current().id()),
                    "`lock` was called by a `process` function, which holds the lock; use the queue that is passed to the function",
                );
                // Ignore lock poisoning, because the queue stays consistent if user code panics.
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        Guard { state, fifo: self, has_changed: false, in_process: None, after: After::default() }
    }

    /// Waits until the queue contains fewer items than the bound, and then locks the queue. Use this method in
    /// producers to slow them down when the consumer is slow. If the queue is closed, this method ignores the bound.
    ///
    /// The guard is not `Send`, so drop it before you `.await`. Each change of the queue wakes all waiting producers,
    /// even if the queue has room for only one item.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub fn room(&self) -> Wait<impl Future<Output = Guard<'_, Q>> + Unpin> {
        self.wait_until(
            |guard| if guard.len() < self.config.bound || guard.is_closed() { Ok(guard) } else { Err(guard) },
        )
    }

    /// Waits until `pop` returns items, and returns these items. `pop` is a function such as `RealFifo::pop` or `|fifo|
    /// fifo.pop_batch(1000)`. The queue is unlocked while the caller processes the items. Other consumers wait until
    /// the returned [`Taken`] is dropped.
    ///
    /// # Errors
    ///
    /// Returns [`FifoClosed`] if the queue is closed and empty.
    ///
    /// # Panics
    ///
    /// Panics if the queue uses [known objects](Queue::has_known_objects), because the popped object would be missing
    /// from both the queue and the known objects. A `replace` before the consumer updates the known objects would then
    /// not detect the deletion of the popped object. Also panics in the same cases as [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no items are popped.
    pub fn take<P>(
        &self,
        mut pop: impl FnMut(&mut Q) -> Option<P>,
    ) -> Wait<impl Future<Output = Result<Taken<'_, Q, P>, FifoClosed>> + Unpin> {
        let knows = self.lock().has_known_objects();
        assert!(!knows, "a queue with known objects must stay locked while popped items are processed: use `process`");
        self.wait_until(move |mut guard| {
            let Some(popped) = guard.try_pop(&mut pop) else { return Err(guard) };
            guard.state.is_claimed = popped.is_ok();
            let taken =
                popped.map(|popped| Taken { popped, _claim: Claim { fifo: self, in_process: self.config.begin() } });
            Ok(guard.end_with(taken))
        })
    }

    /// Waits until `pop` returns items, and calls `process` with the queue and the items. Returns the result of `process`.
    ///
    /// The queue stays locked while `process` runs, as queues with [known objects](Queue::has_known_objects) require,
    /// so `process` should do no more than update the known objects.
    ///
    /// If `process` panics, the popped items are lost, but the queue remains usable.
    ///
    /// # Errors
    ///
    /// Returns [`FifoClosed`] if the queue is closed and empty.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no items are popped.
    pub fn process<P, R>(
        &self,
        mut pop: impl FnMut(&mut Q) -> Option<P>,
        mut process: impl FnMut(&mut Q, P) -> R,
    ) -> Wait<impl Future<Output = Result<R, FifoClosed>> + Unpin> {
        self.wait_until(move |mut guard| {
            let Some(popped) = guard.try_pop(&mut pop) else { return Err(guard) };
            let result = popped.map(|popped| {
                let _processing = Processing::begin(&self.processing);
                guard.in_process = Some(self.config.begin());
                process(&mut guard, popped)
            });
            Ok(guard.end_with(result))
        })
    }

    /// Waits until the queue [has synced](Queue::has_synced). Returns `false` if the queue is closed and becomes empty
    /// before it has synced.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub fn synced(&self) -> Wait<impl Future<Output = bool> + Unpin> {
        self.wait_until(|guard| {
            let is_over = guard.is_closed() && guard.is_empty() && !guard.state.is_claimed;
            match guard.has_synced() {
                true => Ok(true),
                false if is_over => Ok(false),
                false => Err(guard),
            }
        })
    }

    fn wait_until<'a, A, R>(&'a self, attempt: A) -> Wait<Attempts<'a, Q, A>>
    where
        A: FnMut(Guard<'a, Q>) -> Result<R, Guard<'a, Q>>,
    {
        Wait::new(Attempts { fifo: self, attempt, waiter: None })
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedFifoConfig {
    fn begin(&self) -> InProcess {
        InProcess { since: self.metrics.as_ref().map(|_| Instant::now()) }
    }
}

impl Default for SharedFifoConfig {
    fn default() -> Self {
        Self { bound: 2000, metrics: None }
    }
}

/// A future that calls `attempt` at the first poll and after each change of the queue, until it returns `Ok`. Without a result,
/// `attempt` returns the queue's guard as an error.
struct Attempts<'a, Q: Queue, A> {
    fifo: &'a SharedFifo<Q>,
    attempt: A,
    waiter: Option<u64>,
}

impl<'a, Q: Queue, A, R> Future for Attempts<'a, Q, A>
where
    A: FnMut(Guard<'a, Q>) -> Result<R, Guard<'a, Q>>,
{
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let this = &mut *self;
        // Clone the waker before locking the queue, because cloning a waker runs executor code.
        let waker = context.waker().clone();
        match (this.attempt)(this.fifo.lock()) {
            Ok(output) => Poll::Ready(output),
            // Keep the guard until the waker is registered, so that no change is missed.
            Err(guard) => {
                let mut waiters = this.fifo.waiters();
                let id = *this.waiter.get_or_insert_with(|| {
                    waiters.last += 1;
                    waiters.last
                });
                let before = waiters.take(id);
                waiters.wakers.push((id, waker));
                drop((waiters, guard));
                drop(before);
                Poll::Pending
            }
        }
    }
}

// No field is structurally pinned.
impl<Q: Queue, A> Unpin for Attempts<'_, Q, A> {}

impl<Q: Queue, A> Drop for Attempts<'_, Q, A> {
    fn drop(&mut self) {
        if let Some(id) = self.waiter {
            // Drop the waker after unlocking the queue, because dropping a waker can run user code.
            let waker = self.fifo.waiters().take(id);
            drop(waker);
        }
    }
}

impl Waiters {
    fn take(&mut self, id: u64) -> Option<Waker> {
        let place = self.wakers.iter().position(|(other, _)| *other == id)?;
        Some(self.wakers.swap_remove(place).1)
    }
}

impl<Q: Queue> Guard<'_, Q> {
    /// Tries to pop items, and returns `None` if no item is available yet.
    fn try_pop<P>(&mut self, pop: &mut impl FnMut(&mut Q) -> Option<P>) -> Option<Result<P, FifoClosed>> {
        if self.state.is_claimed {
            return None;
        }
        let observed = |queue: &Q| (queue.len(), queue.has_synced(), queue.is_closed());
        let before = observed(self);
        // Set this flag before `pop`, so that the waiters are woken even if `pop` panics.
        self.has_changed = true;
        let popped = pop(&mut self.state.queue);
        // Without a change, do not wake waiters, because two waiting consumers would otherwise wake each other forever.
        self.has_changed = popped.is_some() || observed(self) != before;
        match popped {
            Some(popped) => Some(Ok(popped)),
            None => self.is_closed().then_some(Err(FifoClosed)),
        }
    }

    /// Unlocks the queue, wakes the waiters, and returns `result`. If the metrics or a waker panic, resumes the panic only if
    /// `result` is an error.
    fn end_with<R>(mut self, result: Result<R, FifoClosed>) -> Result<R, FifoClosed> {
        let mut after = self.settle();
        drop(self);
        let panic = after.run();
        match result {
            Ok(_) => panic.discard(),
            Err(_) => panic.pass_on(),
        }
        result
    }

    /// Reports the changes to the metrics. Returns the actions to perform after the lock is released.
    fn settle(&mut self) -> After {
        let mut after = After::default();
        let metrics = self.fifo.config.metrics.as_deref();
        if let Some(InProcess { since }) = self.in_process.take() {
            self.state.queue.processed();
            if let (Some(metrics), Some(since)) = (metrics, since) {
                after.panic.catch(|| metrics.processed(since.elapsed()));
            }
        }
        if std::mem::take(&mut self.has_changed) {
            if let Some(metrics) = metrics {
                let len = self.state.queue.len();
                after.panic.catch(|| metrics.queued(len));
            }
            after.wakers = std::mem::take(&mut self.fifo.waiters().wakers);
        }
        after
    }
}

impl<Q: Queue> Deref for Guard<'_, Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.state.queue
    }
}

impl<Q: Queue> DerefMut for Guard<'_, Q> {
    fn deref_mut(&mut self) -> &mut Q {
        self.has_changed = true;
        &mut self.state.queue
    }
}

impl<Q: Queue> Drop for Guard<'_, Q> {
    fn drop(&mut self) {
        self.after = self.settle();
    }
}

impl After {
    fn run(&mut self) -> FirstPanic {
        let mut panic = std::mem::take(&mut self.panic);
        for (_, waker) in self.wakers.drain(..) {
            panic.catch(|| waker.wake());
        }
        panic
    }
}

impl Drop for After {
    fn drop(&mut self) {
        self.run().pass_on();
    }
}

impl<Q: Queue> Drop for Claim<'_, Q> {
    fn drop(&mut self) {
        let mut guard = self.fifo.lock();
        guard.state.is_claimed = false;
        guard.in_process = Some(self.in_process);
        guard.has_changed = true;
    }
}

struct Processing<'a>(&'a Mutex<Option<ThreadId>>);

impl<'a> Processing<'a> {
    fn begin(thread: &'a Mutex<Option<ThreadId>>) -> Self {
        *thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
        Self(thread)
    }
}

impl Drop for Processing<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl<Q: Queue + fmt::Debug> fmt::Debug for Guard<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.queue.fmt(f)
    }
}

impl<Q: Queue, P: fmt::Debug> fmt::Debug for Taken<'_, Q, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").field("popped", &self.popped).finish_non_exhaustive()
    }
}

impl<Q> fmt::Debug for SharedFifo<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFifo").field("bound", &self.config.bound).finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedFifoConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFifoConfig").field("bound", &self.bound).finish_non_exhaustive()
    }
}
