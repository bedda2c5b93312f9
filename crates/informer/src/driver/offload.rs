//! Runs long functions outside the worker threads of the async runtime.
//!
//! A function is first sent to tokio's blocking thread pool. Other code can occupy the pool indefinitely, so a function
//! that does not start within [`PATIENCE`] runs on a new thread.
//!
//! All informers of a runtime share one limit on concurrent functions. The limit is the number of processors, but at
//! least two. A function that has waited for [`LONGEST_WAIT`] starts even if the limit is reached. Without this
//! exception, user code that waits for another offloaded function could cause a deadlock.
//!
//! Each runtime has its own limit, because the runtime's clock may be paused. A paused clock does not advance while the
//! runtime's blocking threads are busy. If runtimes shared a limit, a task could wait for a permit that another runtime
//! uses. The paused clock would advance during this wait, and timers would fire too early.

use std::any::Any;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// The time that a function waits for a thread of tokio's blocking pool before a new thread is started.
const PATIENCE: Duration = Duration::from_millis(100);

/// The time that a function waits for a permit before it starts without a permit.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Runs `work` on another thread and waits for its result. If `work` panics, the panic resumes in the caller. If the
/// future is dropped before `work` has started, `work` never runs.
pub(super) async fn off_the_runtime<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let done = offload(Box::new(move || Box::new(work()))).await;
    *done.downcast().expect("the type of the result")
}

/// Drops a value on another thread without waiting, because dropping a large value takes long.
pub(super) fn drop_off_the_runtime(much: impl Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => {
            let work: Work = Box::new(move || {
                drop(much);
                Box::new(())
            });
            drop(runtime.spawn(offload(work)));
        }
        Err(_) => drop(much),
    }
}

type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// The non-generic part of [`off_the_runtime`], which the compiler emits only once per program.
async fn offload(work: Work) -> Box<dyn Any + Send> {
    let permit = Permit::wait().await;
    let (answer, mut answered) = oneshot::channel();
    let queued = Queued::new(move || {
        let done = catch_unwind(AssertUnwindSafe(work));
        drop(permit);
        // An error means that the caller has already dropped the future.
        let _ = answer.send(done);
    });
    let job = queued.0.clone();
    drop(spawn_blocking(move || run(&job)));
    let in_time = tokio::select! {
        biased;
        done = &mut answered => Some(done),
        () = sleep(PATIENCE) => None,
    };
    let done = match in_time {
        Some(done) => done,
        None => {
            let job = queued.0.clone();
            let thread = thread::Builder::new().name("informer-work".into()).spawn(move || run(&job));
            if thread.is_err() {
                // The operating system cannot start a new thread, so run the offloaded function on the current thread.
                run(&queued.0);
            }
            answered.await
        }
    };
    match done {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        // The runtime is shutting down: it has dropped the offloaded function, and will also drop the current task.
        Err(_) => pending().await,
    }
}

type Job = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A function that runs once, on the first thread that is available. Dropping the `Queued` cancels a function that has
/// not started.
struct Queued(Job);

impl Queued {
    fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(work)))))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let never_begun = take(&self.0);
        drop(never_begun);
    }
}

fn take(job: &Job) -> Option<Box<dyn FnOnce() + Send>> {
    job.lock().take()
}

fn run(job: &Job) {
    if let Some(work) = take(job) {
        work();
    }
}

#[derive(Default)]
struct Limit {
    taken: AtomicUsize,
    freed: Notify,
}

impl Limit {
    fn current() -> Arc<Self> {
        static LIMITS: Mutex<Vec<(Id, Weak<Limit>)>> = Mutex::new(Vec::new());
        let runtime = Handle::current().id();
        let mut limits = LIMITS.lock();
        let known = limits.iter().find(|(id, _)| *id == runtime).and_then(|(_, limit)| limit.upgrade());
        known.unwrap_or_else(|| {
            limits.retain(|(_, limit)| limit.strong_count() > 0);
            let limit = Arc::default();
            limits.push((runtime, Arc::downgrade(&limit)));
            limit
        })
    }
}

struct Permit(Arc<Limit>);

impl Permit {
    /// Returns `None` after [`LONGEST_WAIT`]. Waiting tasks are not queued, so a task that is never polled again does
    /// not block other tasks.
    async fn wait() -> Option<Self> {
        let limit = Limit::current();
        let wait = async {
            loop {
                let freed = limit.freed.notified();
                if let Some(permit) = Self::try_take(&limit) {
                    return permit;
                }
                freed.await;
            }
        };
        timeout(LONGEST_WAIT, wait).await.ok()
    }

    fn try_take(limit: &Arc<Limit>) -> Option<Self> {
        let next = |taken: usize| (taken < permits()).then(|| taken + 1);
        // Create the `Permit` only if the counter was incremented, because dropping a `Permit` decrements `taken`.
        limit.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok().then(|| Self(limit.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
        self.0.freed.notify_waiters();
    }
}

fn permits() -> usize {
    static PERMITS: OnceLock<usize> = OnceLock::new();
    *PERMITS.get_or_init(|| thread::available_parallelism().map_or(2, |n| n.get().max(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn offloaded_work_is_bounded_by_processors() {
        let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let pieces: Vec<_> = (0..100)
            .map(|_| {
                let (under_way, most) = (under_way.clone(), most.clone());
                tokio::spawn(off_the_runtime(move || {
                    most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    (0..100).for_each(|_| thread::yield_now());
                    under_way.fetch_sub(1, Ordering::SeqCst);
                }))
            })
            .collect();
        for piece in pieces {
            piece.await.unwrap();
        }
        assert!((1..=permits()).contains(&most.load(Ordering::SeqCst)), "{most:?} at once");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_work_releases_its_permit() {
        for _ in 0..100 {
            let piece = tokio::spawn(off_the_runtime(|| {}));
            tokio::task::yield_now().await;
            piece.abort();
            let _ = piece.await;
        }
        assert_eq!(off_the_runtime(|| 7).await, 7);
    }

    /// If all runtimes shared a limit, the paused clock of this runtime would advance while it waits for another
    /// runtime's permit.
    #[tokio::test(start_paused = true)]
    async fn full_limit_of_another_runtime_costs_no_time() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let other = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let tasks = (0..permits()).map(|_| {
                let (begun, released) = (begun.clone(), released.clone());
                runtime.spawn(off_the_runtime(move || {
                    begun.send(()).unwrap();
                    // The channel carries no messages, so `recv` returns an error when the sender is dropped.
                    released.lock().recv().unwrap_err();
                }))
            });
            let tasks: Vec<_> = tasks.collect();
            runtime.block_on(async {
                for task in tasks {
                    task.await.unwrap();
                }
            });
        });
        for _ in 0..permits() {
            begins.recv().await.unwrap();
        }
        let began = tokio::time::Instant::now();
        assert_eq!(off_the_runtime(|| 7).await, 7);
        assert_eq!(began.elapsed(), Duration::ZERO);
        drop(release);
        other.join().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn panic_of_offloaded_work_reaches_the_caller() {
        let piece = tokio::spawn(off_the_runtime(|| panic!("wanted")));
        assert!(piece.await.unwrap_err().is_panic());
    }
}
