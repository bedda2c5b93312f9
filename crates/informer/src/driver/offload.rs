//! Runs long functions on threads that are not workers of the async runtime.
//!
//! A function is first sent to tokio's pool of blocking threads. Other code may block that pool for an arbitrarily long
//! time. So a function that does not start within [`PATIENCE`] gets a new thread.
//!
//! All informers of a process share one limit. At most one function for each processor runs at the same time, or two
//! functions if there is only one processor. A function that has waited for [`LONGEST_WAIT`] starts anyway. Otherwise
//! user code that waits for another offloaded function could deadlock.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// How long a function may wait for a thread of tokio's pool.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a function waits for a permit before it starts without one.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Runs `work` on another thread and waits for its result. If `work` panics, this function resumes the panic in its
/// caller. If the future is dropped before `work` has started, `work` never runs.
pub(super) async fn off_the_runtime<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
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
                // The operating system cannot start a thread, so run the function on this thread.
                run(&queued.0);
            }
            answered.await
        }
    };
    match done {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        // The runtime is shutting down. The runtime has dropped the offloaded function, and will also drop the current
        // task.
        Err(_) => pending().await,
    }
}

/// Drops a possibly large value on another thread, without waiting.
pub(super) fn drop_off_the_runtime(much: impl Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(off_the_runtime(move || drop(much)))),
        Err(_) => drop(much),
    }
}

type Job = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A function that runs once, on the first thread that is free. Dropping the `Queued` cancels the function if the
/// function has not started.
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
    job.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Runs the function, unless another thread has already started it.
fn run(job: &Job) {
    if let Some(work) = take(job) {
        work();
    }
}

/// A permit to run one offloaded function.
struct Permit(());

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static FREED: Notify = Notify::const_new();

impl Permit {
    /// Waits for a permit. Returns `None` after [`LONGEST_WAIT`]. Tasks that wait for a permit do not form a queue, so
    /// a task that is never polled again does not block other tasks.
    async fn wait() -> Option<Self> {
        let wait = async {
            loop {
                let freed = FREED.notified();
                if let Some(permit) = Self::try_take() {
                    return permit;
                }
                freed.await;
            }
        };
        timeout(LONGEST_WAIT, wait).await.ok()
    }

    fn try_take() -> Option<Self> {
        static PERMITS: OnceLock<usize> = OnceLock::new();
        let permits = *PERMITS.get_or_init(|| thread::available_parallelism().map_or(2, |n| n.get().max(2)));
        let next = |taken: usize| (taken < permits).then(|| taken + 1);
        // Create the permit only on success, because dropping a permit decreases the number of taken permits.
        TAKEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok().then(|| Self(()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::AcqRel);
        FREED.notify_waiters();
    }
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
        let permits = thread::available_parallelism().map_or(2, |n| n.get().max(2));
        assert!((1..=permits).contains(&most.load(Ordering::SeqCst)), "{most:?} at once");
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

    #[tokio::test(start_paused = true)]
    async fn panic_of_offloaded_work_reaches_the_caller() {
        let piece = tokio::spawn(off_the_runtime(|| panic!("wanted")));
        assert!(piece.await.unwrap_err().is_panic());
    }
}
