//! Executes runs on separate threads. Each run has its own runtime and paused clock.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use pintle_meta::__private::{Mutex, TestClock};
use tokio::runtime::Builder;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::quiet::discard_logs;
use crate::journal::Journal;
use crate::lab::START;
use crate::violation::Violation;
use crate::world::Settings;

/// The stack size of each thread. The stack is large, because futures are large in unoptimized builds.
const STACK: usize = 16 << 20;
/// The number of consecutive checks without an advance of the paused clock after which a run is considered stalled.
const CHECKS: u32 = 10;
/// The number of finished runs after which the progress is logged.
const LOGGED: usize = 20;

/// Executes a single run with [`block_on`] on a separate thread.
pub(super) fn one<R: Send>(
    settings: &Settings,
    run: impl AsyncFnOnce(Arc<Journal>) -> Result<R, Violation> + Send,
) -> Result<R, Violation> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("testkit".into())
            .stack_size(STACK)
            .spawn_scoped(scope, || block_on(settings, run));
        match thread.map_err(|error| Violation::Start(Box::new(error)))?.join() {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// Executes jobs on all processors until a job fails. If several jobs fail, returns the failure that comes first in the
/// order of `jobs`. The jobs execute their runs with [`block_on`]. Logs the progress of `check`.
pub(super) fn all<J: Sync>(
    check: &str,
    jobs: &[J],
    run: impl Fn(&J) -> Result<(), Violation> + Sync,
) -> Result<(), Violation> {
    tracing::info!(check, runs = jobs.len(), "starting the runs");
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let (finished, progress) = channel();
    let work = |finished: Sender<()>| {
        // Discard the logs, because errors are expected in these runs.
        let _quiet = discard_logs();
        while let Some(job) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|job| *job < jobs.len()) {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            if let Err(failure) = run(&jobs[job]) {
                is_over.store(true, Ordering::Relaxed);
                failures.lock().push((job, failure));
            }
            // The receiver waits until all senders are dropped.
            let _ = finished.send(());
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, |count| count.get()).min(jobs.len());
        let mut threads = Vec::new();
        for _ in 0..workers {
            let builder = thread::Builder::new().name("testkit".into()).stack_size(STACK);
            let (work, finished) = (&work, finished.clone());
            let thread = builder.spawn_scoped(scope, move || work(finished));
            threads.push(thread.map_err(|error| Violation::Start(Box::new(error)))?);
        }
        drop(finished);
        // Log on the thread of the caller, because the other threads discard their logs.
        for (done, ()) in (1..).zip(progress) {
            if done % LOGGED == 0 {
                tracing::info!(check, done, runs = jobs.len(), "finished runs");
            }
        }
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        Ok::<(), Violation>(())
    })?;
    let mut failures = failures.into_inner();
    failures.sort_by_key(|(job, _)| *job);
    match failures.into_iter().next() {
        Some((_, failure)) => Err(failure),
        None => Ok(()),
    }
}

/// Executes a run with a new runtime, a new paused clock and a new journal. Fails if the paused clock does not advance
/// for the [limit on real time](Settings::stall_limit), or if the operator's role does not allow a request.
pub(super) fn block_on<R>(
    settings: &Settings,
    run: impl AsyncFnOnce(Arc<Journal>) -> Result<R, Violation>,
) -> Result<R, Violation> {
    let last_park = Arc::new(Mutex::new(None));
    let parked = last_park.clone();
    // The paused clock advances only when the runtime parks, which happens when no task is ready.
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().start_paused(true).on_thread_park(move || *parked.lock() = Some(Instant::now()));
    let runtime = runtime.build().map_err(|error| Violation::Start(Box::new(error)))?;
    let stalled = CancellationToken::new();
    let _watchdog = watchdog(last_park, settings.stall_limit, stalled.clone())?;
    runtime.block_on(async {
        let start = Instant::now();
        // The server of the run uses the same clock.
        let _clock = TestClock::set(move || START + start.elapsed());
        let journal = Arc::new(Journal::new());
        tokio::select! {
            biased;
            () = stalled.cancelled() => Err(journal.stalled(settings.stall_limit)),
            // Check the role first, because a missing permission is often the cause of another violation.
            result = run(journal.clone()) => settings.check_role(&journal).and(result),
        }
    })
}

/// Starts a thread that cancels `stalled` if the paused clock does not advance for the real time `limit`. `last_park` is
/// the time on the paused clock at which the runtime last parked. Dropping the returned sender ends the thread.
fn watchdog(
    last_park: Arc<Mutex<Option<Instant>>>,
    limit: Duration,
    stalled: CancellationToken,
) -> Result<Sender<()>, Violation> {
    let (sender, run) = channel();
    let watch = move || {
        let (mut last, mut unchanged) = (*last_park.lock(), 0);
        // Count checks instead of measuring the time, because a debugger or a suspended machine also pauses this
        // thread.
        while run.recv_timeout(limit / CHECKS) == Err(RecvTimeoutError::Timeout) {
            let now = *last_park.lock();
            unchanged = if now == last { unchanged + 1 } else { 0 };
            last = now;
            if unchanged == CHECKS {
                return stalled.cancel();
            }
        }
    };
    let thread = thread::Builder::new().name("testkit-watchdog".into()).spawn(watch);
    thread.map_err(|error| Violation::Start(Box::new(error)))?;
    Ok(sender)
}
