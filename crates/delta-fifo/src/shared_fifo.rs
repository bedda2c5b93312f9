//! A queue between threads or tasks: a lock, and ways to wait.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::panic::FirstPanic;
use crate::wait::Wait;
use crate::{FifoClosed, Queue};

/// A [`Queue`] between threads, tasks, or both.
///
/// It has no task of its own, and needs no runtime: what it returns to wait with is a future that can as well
/// [block a thread](Wait::wait). Producers change the queue through [`lock`](Self::lock), or through [`room`](Self::room) if they are to
/// wait for a slow consumer. Consumers either [`process`](Self::process) under the lock, or [`take`](Self::take) and work with the
/// queue free. In both cases the queue [has synced](Queue::has_synced) when the first list has been processed, not only taken out; who
/// wants to know waits in [`synced`](Self::synced).
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
    /// Who waits for the queue to change. It has a lock of its own, so that who gives a wait up may have the queue at that time.
    waiters: Mutex<Waiters>,
    config: SharedFifoConfig,
    /// The thread that processes what it popped, and so holds `state`.
    processing: Mutex<Option<ThreadId>>,
}

/// How a [`SharedFifo`] differs from the usual.
pub struct SharedFifoConfig {
    /// [`room`](SharedFifo::room) waits until fewer items than this wait. By default 2,000, as in client-go.
    pub bound: usize,
    /// What is told of the queue.
    pub metrics: Option<Box<dyn FifoMetrics>>,
}

/// The metrics of a [`SharedFifo`], as in client-go. The methods are called under the queue's lock, so the last reported value matches
/// the queue. They must neither block nor use the queue.
///
/// A panic of a method propagates from the call that changed the queue, after all waiters have been woken.
pub trait FifoMetrics: Send + Sync {
    /// So many items wait now: a gauge, `informer_queued_items` of client-go.
    fn queued(&self, items: usize);

    /// What was taken out has been processed, and it took so long: a histogram, `informer_processing_latency_seconds` of client-go.
    fn processed(&self, took: Duration);
}

/// Exclusive access to the queue in a [`SharedFifo`]. Dropping it wakes the callers that wait for a change of the queue.
///
/// # Panics
///
/// The drop propagates the first panic of the metrics or of a waker, unless the thread is unwinding. All waiters are woken first.
pub struct Guard<'a, Q: Queue> {
    // Dropped first, so that nobody is woken under the lock.
    state: MutexGuard<'a, State<Q>>,
    fifo: &'a SharedFifo<Q>,
    has_changed: bool,
    /// What was popped is processed until this is dropped.
    in_process: Option<InProcess>,
    after: After,
}

/// What was taken out of a [`SharedFifo`]. When it is dropped, what was taken has been processed.
///
/// `popped` may be moved out; then hold on to the rest of it for as long as the work goes on. Its drop takes the lock of the queue, so
/// it is not to be dropped by who has a [`Guard`] at that time.
pub struct Taken<'a, Q: Queue, P> {
    /// What was taken out.
    pub popped: P,
    _in_hand: InHand<'a, Q>,
}

struct InHand<'a, Q: Queue> {
    fifo: &'a SharedFifo<Q>,
    in_process: InProcess,
}

#[derive(Clone, Copy)]
struct InProcess {
    /// None: nobody wants to know.
    since: Option<Instant>,
}

struct State<Q> {
    queue: Q,
    /// Something was taken, and is at work on.
    is_in_hand: bool,
}

#[derive(Default)]
struct Waiters {
    wakers: Vec<(u64, Waker)>,
    last: u64,
}

/// What happens when the lock is free: all are woken, and the first panic goes on.
#[derive(Default)]
struct After {
    wakers: Vec<(u64, Waker)>,
    panic: FirstPanic,
}

impl<Q: Queue> SharedFifo<Q> {
    /// Puts a queue between threads or tasks.
    pub fn new(queue: Q, config: SharedFifoConfig) -> Self {
        let state = State { queue, is_in_hand: false };
        Self { state: Mutex::new(state), waiters: Mutex::default(), config, processing: Mutex::new(None) }
    }

    /// Waits for exclusive use of the queue, however many items wait: to look something up, to close it, to put something in
    /// that cannot wait.
    ///
    /// # Panics
    ///
    /// If it is called by the function that [`process`](Self::process) runs: it would wait for itself. That function gets the queue as
    /// an argument.
    pub fn lock(&self) -> Guard<'_, Q> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let processing = *self.processing.lock().unwrap_or_else(PoisonError::into_inner);
                assert_ne!(
                    processing,
                    Some(thread::current().id()),
                    "a function that processes what was popped holds the queue; it must use the one that it is given",
                );
                // A panic of the user's functions leaves the queue in order, so poison says nothing.
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        Guard { state, fifo: self, has_changed: false, in_process: None, after: After::default() }
    }

    /// Waits until there is room, and then for exclusive use of the queue: the producer's side of back-pressure. Of a closed
    /// queue there is always room.
    ///
    /// The guard is bound to its thread, so it is to be dropped before the next `.await`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub fn room(&self) -> Wait<impl Future<Output = Guard<'_, Q>> + Unpin> {
        self.wait_until(|guard| match guard.len() < self.config.bound || guard.is_closed() {
            true => Ok(guard),
            false => Err(guard),
        })
    }

    /// Waits for something that `pop` takes out, such as `RealFifo::pop` or `|fifo| fifo.pop_batch(1000)`, and leaves the queue free
    /// while it is worked on. Nobody else gets anything until it is dropped.
    ///
    /// # Errors
    ///
    /// [`FifoClosed`] once the queue is closed and empty.
    ///
    /// # Panics
    ///
    /// If the queue has [known objects](Queue::has_known_objects): between the moment a change leaves the queue and the moment it is among
    /// these, a replacement would find it in neither, and would miss its deletion.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes nothing out.
    pub fn take<P>(
        &self,
        mut pop: impl FnMut(&mut Q) -> Option<P>,
    ) -> Wait<impl Future<Output = Result<Taken<'_, Q, P>, FifoClosed>> + Unpin> {
        let knows = self.lock().has_known_objects();
        assert!(!knows, "a queue that has known objects stays locked while what was popped is processed: use process");
        self.wait_until(move |mut guard| {
            let Some(popped) = guard.try_pop(&mut pop) else { return Err(guard) };
            guard.state.is_in_hand = popped.is_ok();
            Ok(popped.map(|popped| Taken { popped, _in_hand: InHand { fifo: self, in_process: self.config.begin() } }))
        })
    }

    /// Waits for something that `pop` takes out, and calls `process` with the queue and with that. Returns what `process` returns.
    ///
    /// The queue stays locked while `process` runs, as one with [known objects](Queue::has_known_objects) has to. So `process` should
    /// do no more than bring these up to date.
    ///
    /// If `process` panics, what was popped is lost and the queue stays usable.
    ///
    /// # Errors
    ///
    /// [`FifoClosed`] once the queue is closed and empty.
    ///
    /// # Panics
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes nothing out.
    pub fn process<P, R>(
        &self,
        mut pop: impl FnMut(&mut Q) -> Option<P>,
        mut process: impl FnMut(&mut Q, P) -> R,
    ) -> Wait<impl Future<Output = Result<R, FifoClosed>> + Unpin> {
        self.wait_until(move |mut guard| {
            let Some(popped) = guard.try_pop(&mut pop) else { return Err(guard) };
            Ok(popped.map(|popped| {
                let _processing = Processing::begin(&self.processing);
                guard.in_process = Some(self.config.begin());
                process(&mut guard, popped)
            }))
        })
    }

    /// Waits until the queue [has synced](Queue::has_synced): the first list has been processed. False: it was closed and
    /// emptied before that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub fn synced(&self) -> Wait<impl Future<Output = bool> + Unpin> {
        self.wait_until(|guard| {
            let is_over = guard.is_closed() && guard.is_empty() && !guard.state.is_in_hand;
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

/// Tries whenever the queue has changed. An attempt that came to nothing gives the guard back.
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
        // An executor's code, which runs without the lock.
        let waker = context.waker().clone();
        match (this.attempt)(this.fifo.lock()) {
            Ok(output) => Poll::Ready(output),
            // The guard is there until it waits, so that no change is missed.
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

// Nothing in it is pinned.
impl<Q: Queue, A> Unpin for Attempts<'_, Q, A> {}

impl<Q: Queue, A> Drop for Attempts<'_, Q, A> {
    fn drop(&mut self) {
        if let Some(id) = self.waiter {
            // What it was to wake may go with it, and is dropped under no lock.
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
    /// None: there is nothing yet.
    fn try_pop<P>(&mut self, pop: &mut impl FnMut(&mut Q) -> Option<P>) -> Option<Result<P, FifoClosed>> {
        if self.state.is_in_hand {
            return None;
        }
        match pop(&mut self.state.queue) {
            Some(popped) => {
                self.has_changed = true;
                Some(Ok(popped))
            }
            None => self.is_closed().then_some(Err(FifoClosed)),
        }
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
        let metrics = self.fifo.config.metrics.as_deref();
        if let Some(InProcess { since }) = self.in_process {
            self.state.queue.processed();
            if let (Some(metrics), Some(since)) = (metrics, since) {
                self.after.panic.catch(|| metrics.processed(since.elapsed()));
            }
        }
        if self.has_changed {
            if let Some(metrics) = metrics {
                let len = self.state.queue.len();
                self.after.panic.catch(|| metrics.queued(len));
            }
            self.after.wakers = std::mem::take(&mut self.fifo.waiters().wakers);
        }
    }
}

impl Drop for After {
    fn drop(&mut self) {
        let mut panic = std::mem::take(&mut self.panic);
        for (_, waker) in self.wakers.drain(..) {
            panic.catch(|| waker.wake());
        }
        panic.pass_on();
    }
}

impl<Q: Queue> Drop for InHand<'_, Q> {
    fn drop(&mut self) {
        let mut guard = self.fifo.lock();
        guard.state.is_in_hand = false;
        guard.in_process = Some(self.in_process);
        guard.has_changed = true;
    }
}

/// Marks the thread that processes, for as long as it does.
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
