//! Executes runs on separate threads. Each run has a separate runtime and a separate paused clock.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tracing::dispatcher::has_been_set;
use tracing::subscriber::{NoSubscriber, set_default};

use crate::Violation;

/// The stack size of each thread. The stack is large, because futures are large in builds without optimizations.
const STACK: usize = 16 << 20;

/// Runs one future on a separate thread.
pub(super) fn one<R: Send>(run: impl AsyncFnOnce() -> Result<R, Violation> + Send) -> Result<R, Violation> {
    thread::scope(|scope| {
        let thread =
            thread::Builder::new().name("testkit".into()).stack_size(STACK).spawn_scoped(scope, || block_on(run));
        match thread.map_err(|error| Violation::Start(Box::new(error)))?.join() {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// Runs one future for each job on all processors, and starts no more jobs after a failure. Of several failures, returns the failure of the
/// first job in the order of the jobs.
pub(super) fn all<J: Sync>(jobs: &[J], run: impl AsyncFn(&J) -> Result<(), Violation> + Sync) -> Result<(), Violation> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let work = || {
        // Install a subscriber that discards all logs. Without a subscriber, a controller prints the first error to
        // stderr, but errors are expected in these runs.
        let _quiet = (!has_been_set()).then(|| set_default(NoSubscriber::new()));
        while let Some(job) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|job| *job < jobs.len()) {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            if let Err(failure) = block_on(async || run(&jobs[job]).await) {
                is_over.store(true, Ordering::Relaxed);
                failures.lock().unwrap_or_else(PoisonError::into_inner).push((job, failure));
            }
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, |count| count.get()).min(jobs.len());
        let mut threads = Vec::new();
        for _ in 0..workers {
            let builder = thread::Builder::new().name("testkit".into()).stack_size(STACK);
            threads.push(builder.spawn_scoped(scope, work).map_err(|error| Violation::Start(Box::new(error)))?);
        }
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        Ok::<(), Violation>(())
    })?;
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|(job, _)| *job);
    match failures.into_iter().next() {
        Some((_, failure)) => Err(failure),
        None => Ok(()),
    }
}

fn block_on<R>(run: impl AsyncFnOnce() -> Result<R, Violation>) -> Result<R, Violation> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.map_err(|error| Violation::Start(Box::new(error)))?.block_on(run())
}
