//! Moves long computations to other threads, so that even a single-threaded runtime continues to serve requests.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::PollSemaphore;

/// The maximum number of input bytes that are processed on the current thread. Processing this many bytes takes at most
/// a few milliseconds. Offloading costs about 20 µs.
const OFFLOAD_BYTES: usize = 16 << 10;

/// An argument for [`work_on`] that always offloads, for work that may take long even if the input is small.
pub const ALWAYS: usize = usize::MAX;

/// The permits of a server for running offloaded steps. A step is the code of a future between two awaits. The number
/// of permits is the number of processors, but at least two. The permits also limit memory, because processing an input
/// can use hundreds of times the size of the input. Offloaded steps do not wait for each other.
#[derive(Clone, Debug)]
pub struct OffloadPermits {
    permits: Arc<Semaphore>,
    is_inline: bool,
}

impl Default for OffloadPermits {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(max_permits())), is_inline: false }
    }
}

impl OffloadPermits {
    /// Creates permits that disable offloading, so that all steps run on the thread that polls the future.
    pub fn inline() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), is_inline: true }
    }
}

fn max_permits() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get).max(2)
}

/// Declares that the code up to the next await will process `bytes` bytes. If `bytes` is large and the code is part of
/// an [`Offload`], the code continues on another thread as soon as a permit is available. In all other cases, the code
/// up to the next await continues on the current thread.
///
/// # Cancel safety
///
/// Dropping the future has no effect.
pub async fn work_on(bytes: usize) {
    if !is_long(bytes) {
        return;
    }
    poll_fn(|_| match EXECUTION.get() {
        Execution::Inline => {
            WANTS_OFFLOAD.set(true);
            Poll::Pending
        }
        Execution::Offloaded | Execution::Unmanaged => Poll::Ready(()),
    })
    .await;
}

/// Returns `true` if processing `bytes` bytes should be moved to another thread.
pub fn is_long(bytes: usize) -> bool {
    bytes > OFFLOAD_BYTES
}

thread_local! {
    static EXECUTION: Cell<Execution> = const { Cell::new(Execution::Unmanaged) };
    /// Whether the current step has requested to run the next step on a blocking thread.
    static WANTS_OFFLOAD: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Execution {
    /// The step is not part of an [`Offload`].
    Unmanaged,
    /// The step runs on a runtime thread.
    Inline,
    /// The step runs on a blocking thread.
    Offloaded,
}

/// A future that moves its long steps to other threads. A step is the code of the future between two awaits. A call of
/// [`work_on`] marks the next step as long. Short steps run on the thread that polls the future, so a waiting future
/// occupies no other thread. An `Offload` polls the inner future as usual until a long step begins, so the deadlines of
/// the inner future work even if no permit or thread becomes available.
///
/// # Cancel safety
///
/// Dropping the `Offload` during an offloaded step lets the step finish, and then drops the inner future. If the
/// `Offload` is dropped before an offloaded step has started, the step does not run.
pub struct Offload<T> {
    state: OffloadState<T>,
    permits: PollSemaphore,
    is_inline: bool,
    is_queued: bool,
}

impl<T> fmt::Debug for Offload<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offload").finish_non_exhaustive()
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum OffloadState<T> {
    Inline(Work<T>),
    /// A step of the inner future is running or waiting to run in a blocking task. `work` contains the inner future
    /// until this task takes it.
    Offloaded {
        work: Arc<Mutex<Option<Work<T>>>>,
        step: JoinHandle<Option<(Work<T>, Poll<T>)>>,
    },
    Done,
}

impl<T> Offload<T> {
    /// Creates a future that runs `work`. Long steps of `work` wait for a permit and then run on another thread.
    pub fn new(permits: &OffloadPermits, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            state: OffloadState::Inline(Box::pin(work)),
            permits: PollSemaphore::new(permits.permits.clone()),
            is_inline: permits.is_inline,
            is_queued: false,
        }
    }

    /// Returns a permit if `wanted` is `true` and a permit is available. If `wanted` is `false`, it stops waiting for a
    /// permit.
    fn permit(&mut self, wanted: bool, context: &mut Context<'_>) -> Option<OwnedSemaphorePermit> {
        if wanted {
            let permit = self.permits.poll_acquire(context);
            self.is_queued = permit.is_pending();
            // This cannot fail, because the semaphore is never closed.
            return match permit {
                Poll::Ready(permit) => permit,
                Poll::Pending => None,
            };
        }
        if std::mem::take(&mut self.is_queued) {
            self.permits = PollSemaphore::new(self.permits.clone_inner());
        }
        None
    }
}

impl<T: Send + 'static> Future for Offload<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        loop {
            match std::mem::replace(&mut this.state, OffloadState::Done) {
                OffloadState::Inline(mut work) => {
                    let execution = if this.is_inline { Execution::Unmanaged } else { Execution::Inline };
                    let (polled, wants_offload) = poll_step(&mut work, execution, context);
                    if polled.is_ready() {
                        return polled;
                    }
                    let Some(permit) = this.permit(wants_offload, context) else {
                        this.state = OffloadState::Inline(work);
                        return Poll::Pending;
                    };
                    this.state = offload_step(work, permit, context);
                }
                OffloadState::Offloaded { work, step: mut handle } => {
                    let mut waiting = work.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(mut queued) = waiting.take() {
                        let (polled, wants_offload) = poll_step(&mut queued, Execution::Inline, context);
                        if polled.is_ready() {
                            return polled;
                        }
                        if !wants_offload {
                            this.state = OffloadState::Inline(queued);
                            return Poll::Pending;
                        }
                        *waiting = Some(queued);
                    }
                    drop(waiting);
                    let Poll::Ready(end) = Pin::new(&mut handle).poll(context) else {
                        this.state = OffloadState::Offloaded { work, step: handle };
                        return Poll::Pending;
                    };
                    match end.map_err(tokio::task::JoinError::try_into_panic) {
                        Ok(Some((_, Poll::Ready(done)))) => return Poll::Ready(done),
                        // Poll the future again to register the current waker, because the offloaded step may have used
                        // another waker.
                        Ok(Some((work, Poll::Pending))) => this.state = OffloadState::Inline(work),
                        Err(Ok(panic)) => std::panic::resume_unwind(panic),
                        // The blocking task was cancelled because the runtime is shutting down.
                        Ok(None) | Err(Err(_)) => return Poll::Pending,
                    }
                }
                OffloadState::Done => return Poll::Pending,
            }
        }
    }
}

/// Offloads the next step of `work`. The step does not run if the [`Offload`] is dropped before its start.
fn offload_step<T: Send + 'static>(
    work: Work<T>,
    permit: OwnedSemaphorePermit,
    context: &Context<'_>,
) -> OffloadState<T> {
    let work = Arc::new(Mutex::new(Some(work)));
    let (waiting, waker) = (Arc::downgrade(&work), context.waker().clone());
    let step = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut work = waiting.upgrade()?.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let (polled, _) = poll_step(&mut work, Execution::Offloaded, &mut Context::from_waker(&waker));
        Some((work, polled))
    });
    OffloadState::Offloaded { work, step }
}

fn poll_step<T>(work: &mut Work<T>, execution: Execution, context: &mut Context<'_>) -> (Poll<T>, bool) {
    /// Restores the thread-local state on drop, because offloads can be nested and steps can panic.
    struct Outer(Execution, bool);
    impl Drop for Outer {
        fn drop(&mut self) {
            EXECUTION.set(self.0);
            WANTS_OFFLOAD.set(self.1);
        }
    }
    let _outer = Outer(EXECUTION.replace(execution), WANTS_OFFLOAD.replace(false));
    let polled = work.as_mut().poll(context);
    (polled, WANTS_OFFLOAD.get())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::RecvTimeoutError;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn here() -> ThreadId {
        thread::current().id()
    }

    #[tokio::test]
    async fn inline_permits_keep_long_steps_on_the_thread() {
        let place = Offload::new(&OffloadPermits::inline(), async {
            work_on(ALWAYS).await;
            here()
        });
        assert_eq!(place.await, here());
    }

    #[tokio::test]
    async fn only_long_steps_are_offloaded() {
        let places = Offload::new(&OffloadPermits::default(), async {
            let mut places = vec![here()];
            work_on(OFFLOAD_BYTES).await;
            places.push(here());
            work_on(OFFLOAD_BYTES + 1).await;
            places.push(here());
            // This call continues on the current thread, which already runs an offloaded step.
            work_on(OFFLOAD_BYTES + 1).await;
            places.push(here());
            tokio::task::yield_now().await;
            places.push(here());
            work_on(OFFLOAD_BYTES + 1).await;
            places.push(here());
            places
        });
        let places = places.await.into_iter().map(|place| place == here()).collect::<Vec<_>>();
        assert_eq!(places, [true, true, false, false, true, false]);
    }

    #[tokio::test]
    async fn work_outside_an_offload_stays_in_place() {
        assert!(work_on(OFFLOAD_BYTES + 1).now_or_never().is_some());
        let panics = Offload::new(&OffloadPermits::default(), async { panic!("here") });
        assert!(tokio::spawn(panics).await.is_err_and(|error| error.is_panic()));
        assert!(work_on(OFFLOAD_BYTES + 1).now_or_never().is_some(), "also after a panic");
    }

    #[tokio::test]
    async fn panic_of_offloaded_step_reaches_the_awaiter() {
        let panics = Offload::new(&OffloadPermits::default(), async {
            work_on(OFFLOAD_BYTES + 1).await;
            panic!("offloaded");
        });
        assert!(tokio::spawn(panics).await.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test]
    async fn offloaded_steps_are_limited_to_the_processors() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (mut go, mut steps) = (Vec::new(), Vec::new());
        let permits = OffloadPermits::default();
        for _ in 0..=max_permits() {
            let (end, wait) = std::sync::mpsc::channel::<()>();
            let begun = begun.clone();
            go.push(end);
            steps.push(tokio::spawn(Offload::new(&permits, async move {
                work_on(OFFLOAD_BYTES + 1).await;
                begun.send(here()).expect("the test counts");
                wait.recv_timeout(Duration::from_secs(30)).is_err_and(|error| error == RecvTimeoutError::Disconnected)
            })));
        }
        for _ in 0..max_permits() {
            assert!(begins.recv().await.is_some_and(|thread| thread != here()));
        }
        assert_eq!(permits.permits.available_permits(), 0);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(begins.try_recv().is_err(), "one step waits");
        drop(go);
        for step in steps {
            assert!(step.await.expect("no panic"), "released in time");
        }
        assert!(begins.try_recv().is_ok_and(|thread| thread != here()));
    }

    #[tokio::test]
    async fn dropped_offload_finishes_its_running_step() {
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (go, wait) = std::sync::mpsc::channel();
        let (end, ended) = tokio::sync::oneshot::channel();
        let permits = OffloadPermits::default();
        let work = Offload::new(&permits, async move {
            work_on(OFFLOAD_BYTES + 1).await;
            begun.send(()).expect("the test waits");
            wait.recv_timeout(Duration::from_secs(30)).expect("released");
            let _end = end.send("done");
            tokio::task::yield_now().await;
            unreachable!("dropped after the step");
        });
        let task = tokio::spawn(work);
        has_begun.await.expect("the step begins");
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(permits.permits.available_permits(), max_permits() - 1, "it keeps its permit");
        go.send(()).expect("the step is waiting");
        assert_eq!(ended.await, Ok("done"));
    }

    /// The step cannot be offloaded, because another task occupies the only blocking thread or all permits. The
    /// deadline belongs to the inner future.
    #[test]
    fn deadline_fires_while_a_step_waits_for_a_thread() {
        let runtime = || tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_time().build();
        for no_permit in [false, true] {
            let runtime = runtime().expect("a runtime");
            let (permits, has_run) = (OffloadPermits::default(), Arc::new(AtomicBool::new(false)));
            let held_by_others =
                permits.permits.clone().try_acquire_many_owned(if no_permit { max_permits() as u32 } else { 0 });
            let (free, wait) = std::sync::mpsc::channel::<()>();
            let busy = runtime.spawn_blocking(move || wait.recv().is_err());
            let flag = has_run.clone();
            let limited = |limit: Duration| {
                let flag = flag.clone();
                Offload::new(&permits, async move {
                    let long = async {
                        work_on(OFFLOAD_BYTES + 1).await;
                        flag.store(true, Ordering::Relaxed);
                    };
                    tokio::time::timeout(limit, long).await.is_ok()
                })
            };
            assert!(!runtime.block_on(limited(Duration::from_millis(1))), "no permit: {no_permit}");
            drop(free);
            assert!(runtime.block_on(busy).expect("no panic"));
            drop(held_by_others);
            assert!(!has_run.load(Ordering::Relaxed), "the step was dropped");
            assert!(runtime.block_on(limited(Duration::from_secs(30))), "the next step runs");
        }
    }
}
