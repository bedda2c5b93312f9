//! Tests of cases that client-go does not test: rows X1 to X10 in tests/ROWS.md. Rows X11 and X12 are in metrics.rs.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pintle_workqueue::ratelimit::{Clock, ManualClock, Sleep, Timer};
use pintle_workqueue::{
    Added, DelayPolicy, QueueConfig, RetryAccounting, ShutdownMode, TryGetError, WorkQueue, parallelize_until,
};

use crate::watch::Wakes;

type Queue<C = ManualClock> = WorkQueue<&'static str, C>;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
}

fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The queue has no `done(key)` method. Only the owner of a guard can mark the key as done, and only once. The crate
/// docs show that a second `done` does not compile.
#[test]
fn x1_only_the_guard_can_finish_a_key() {
    let (queue, _) = queue();
    queue.add("a");
    let first = queue.try_get().unwrap();
    queue.add("a");
    queue.forget(&"a");
    queue.cancel(&"a");
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty, "only the guard releases the key");
    drop(first);
    let second = queue.try_get().unwrap();
    assert_eq!((queue.len(), queue.counts().in_flight), (0, 1));
    drop(second);
    assert!(queue.snapshot().is_empty());
}

#[test]
fn x2_two_concurrent_drainers_are_both_woken() {
    let (queue, _) = queue();
    queue.add("a");
    let item = queue.try_get().unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut first = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    let mut second = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    assert!(first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending());
    drop(item);
    assert_eq!(wakes.count(), 2);
    assert!(first.as_mut().poll(&mut cx).is_ready() && second.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn x3_drain_with_queued_and_none_in_flight() {
    let (queue, _) = queue();
    queue.add("a");
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    assert!(poll(&mut drain).is_pending(), "the backlog is not empty");
    queue.try_get().unwrap().done();
    let Poll::Ready(report) = poll(&mut drain) else { panic!("the backlog is empty") };
    assert!(report.complete && report.queued.is_empty());
}

/// At the beginning of the shutdown, a `get` that waits for a delay returns immediately, and the queue drops its timer.
#[test]
fn x4_drain_on_a_delaying_queue_releases_the_timer() {
    let (queue, clock) = queue();
    queue.add_after("a", 3600 * SECOND);
    {
        let mut get = pin!(queue.get());
        assert!(poll(&mut get).is_pending());
        assert_eq!(clock.sleepers(), 1);
        let report = queue.shut_down(ShutdownMode::FinishBacklog).wait();
        assert_eq!((report.complete, report.delayed), (true, vec!["a"]));
        assert!(matches!(poll(&mut get), Poll::Ready(None)));
    }
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn x5_add_while_a_delayed_entry_exists() {
    let runs = |pending: DelayPolicy| {
        let clock = ManualClock::new();
        let mut config = QueueConfig::new(clock.clone());
        config.pending_reminder = pending;
        let queue = WorkQueue::new(config);
        queue.add_after("a", SECOND);
        queue.add("a");
        let now = queue.try_get().is_ok();
        clock.advance(SECOND);
        (now, queue.try_get().is_ok())
    };
    assert_eq!(runs(DelayPolicy::Keep), (true, true));
    assert_eq!(runs(DelayPolicy::Absorb), (true, false));
    assert_eq!(runs(DelayPolicy::Respect), (false, true));
}

#[test]
fn x6_collapsed_retry_counts_only_when_configured() {
    let failures = |charge: RetryAccounting| {
        let mut config = QueueConfig::new(ManualClock::new());
        config.charge = charge;
        let queue = WorkQueue::new(config);
        assert_eq!(queue.add_rate_limited("a"), Added::Scheduled);
        assert_eq!(queue.add_rate_limited("a"), Added::Merged);
        drop(queue.shut_down(ShutdownMode::FinishBacklog));
        assert_eq!(queue.add_rate_limited("a"), Added::ShutDown);
        queue.num_requeues(&"a")
    };
    assert_eq!(failures(RetryAccounting::IfScheduled), 1);
    assert_eq!(failures(RetryAccounting::Always), 3);
}

/// An add never blocks, because the queue has no channel that could be full.
#[test]
fn x7_shutdown_with_thousands_of_delayed_adds() {
    let clock = ManualClock::new();
    let queue: WorkQueue<u32, _> = WorkQueue::new(QueueConfig::new(clock));
    for key in 0..5000 {
        assert_eq!(queue.add_after(key, SECOND), Added::Scheduled);
    }
    let drain = queue.shut_down(ShutdownMode::FinishBacklog);
    for key in 5000..10_000 {
        assert_eq!(queue.add_after(key, SECOND), Added::ShutDown);
    }
    let report = drain.wait();
    assert_eq!((report.delayed.len(), report.refused), (5000, 5000));
}

#[test]
fn x8_a_worker_that_panics_is_done() {
    let (queue, _) = queue();
    queue.add("a");
    let item = queue.try_get().unwrap();
    queue.add("a");
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _item = item;
        panic!("a bug in the worker");
    }));
    assert!(panicked.is_err());
    assert_eq!(*queue.try_get().unwrap(), "a", "the add during processing is not lost");
    assert_eq!(queue.counts().in_flight, 0);
}

#[test]
fn x8_a_worker_that_is_cancelled_is_done() {
    let (queue, _) = queue();
    queue.add("a");
    {
        let work = async {
            let _item = queue.get().await.unwrap();
            std::future::pending::<()>().await;
        };
        let mut work = pin!(work);
        assert!(poll(&mut work).is_pending());
        assert_eq!(queue.counts().in_flight, 1);
    }
    assert_eq!(queue.counts().in_flight, 0);
}

#[test]
fn x9_a_parallel_piece_that_panics_ends_alone() {
    let four = NonZeroUsize::new(4).unwrap();
    let done = AtomicUsize::new(0);
    let unfinished = parallelize_until(
        four,
        100,
        NonZeroUsize::new(10).unwrap(),
        || false,
        |piece| {
            assert!(piece % 40 != 7, "piece {piece} is broken");
            done.fetch_add(1, Ordering::Relaxed);
        },
    )
    .unwrap_err();
    assert_eq!(done.into_inner(), 97);
    let panics: Vec<_> = unfinished.panics.iter().map(|panic| (panic.piece, panic.message.as_str())).collect();
    assert_eq!(panics, [(7, "piece 7 is broken"), (47, "piece 47 is broken"), (87, "piece 87 is broken")]);
    assert!(unfinished.skipped.is_empty());
}

struct Hasty(ManualClock);

impl Clock for Hasty {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, deadline: Option<Instant>) {
        self.0.advance(3600 * SECOND);
        self.0.park_until(deadline);
    }
}

impl Timer for Hasty {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        self.0.advance(3600 * SECOND);
        self.0.sleep_until(deadline)
    }
}

/// Deadlines are absolute: the sleep ends immediately and wakes the waiter if the clock has already passed the
/// deadline.
#[test]
fn x10_the_clock_moves_between_deadline_and_timer() {
    let queue: Queue<Hasty> = WorkQueue::new(QueueConfig::new(Hasty(ManualClock::new())));
    queue.add_after("a", SECOND);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    {
        let mut get = pin!(queue.get());
        assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(wakes.count(), 1);
        assert!(matches!(poll(&mut get), Poll::Ready(Some(_))));
    }
    queue.add_after("b", SECOND);
    assert_eq!(queue.blocking_get().map(|item| *item), Some("b"));
}

#[test]
fn shutdown_only_ever_tightens() {
    let (queue, _) = queue();
    queue.add("a");
    drop(queue.shut_down(ShutdownMode::FinishInFlight));
    drop(queue.shut_down(ShutdownMode::FinishBacklog));
    assert_eq!(queue.shutdown_mode(), Some(ShutdownMode::FinishInFlight));
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::ShutDown);
    let report = queue.shut_down(ShutdownMode::FinishBacklog).wait();
    assert_eq!((report.mode, report.queued), (ShutdownMode::FinishInFlight, vec!["a"]));
    drop(queue.shut_down(ShutdownMode::Abandon));
    assert_eq!(queue.shutdown_mode(), Some(ShutdownMode::Abandon));
}

#[test]
fn drain_reports_remaining_keys_at_its_deadline() {
    let (queue, clock) = queue();
    queue.add("a");
    let _held = queue.try_get().unwrap();
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishInFlight).with_timeout(SECOND));
    assert!(poll(&mut drain).is_pending());
    clock.advance(SECOND);
    let Poll::Ready(report) = poll(&mut drain) else { panic!("the timeout has elapsed") };
    assert_eq!((report.complete, report.in_flight), (false, vec!["a"]));
}

/// A single timer serves all waiting tasks, even after the task that waited first was dropped.
#[test]
fn one_timer_serves_all_tasks_and_outlives_the_first() {
    let (queue, clock) = queue();
    queue.add_after("a", SECOND);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut other = pin!(queue.get());
    {
        let mut keeper = pin!(queue.get());
        assert!(poll(&mut keeper).is_pending());
        assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(clock.sleepers(), 1, "all tasks share one timer");
    }
    assert_eq!((wakes.count(), clock.sleepers()), (0, 1));
    assert_eq!(clock.next_deadline(), Some(clock.now() + SECOND));
    clock.advance(SECOND);
    assert_eq!(wakes.count(), 1);
    assert!(matches!(poll(&mut other), Poll::Ready(Some(_))));
    assert_eq!(clock.sleepers(), 0, "no task waits");
}

#[test]
fn earlier_delay_moves_the_timer_forward() {
    let (queue, clock) = queue();
    queue.add_after("late", SECOND);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add_after("early", MS);
    assert_eq!((wakes.count(), clock.sleepers()), (0, 1), "no task is woken to change the timer");
    assert_eq!(clock.next_deadline(), Some(clock.now() + MS));
    clock.advance(MS);
    assert_eq!(wakes.count(), 1);
}

#[test]
fn wakeup_of_a_dropped_get_is_not_lost() {
    let (queue, _) = queue();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut second = pin!(queue.get());
    {
        let mut first = pin!(queue.get());
        assert!(poll(&mut first).is_pending());
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        queue.add("a");
        assert_eq!(wakes.count(), 0, "only the first waiter is woken");
    }
    assert_eq!(wakes.count(), 1);
    assert!(matches!(poll(&mut second), Poll::Ready(Some(_))));
}
