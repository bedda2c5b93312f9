//! Tests of delays, retries, ageing and metrics.

use std::future::Future;
use std::sync::Arc as StdArc;
use std::task::Context;
use std::time::{Duration, Instant};

use pintle_metrics::{InMemoryProvider, Value};
use pintle_workqueue::ratelimit::{ManualClock, RateLimiter, Throttle};
use pintle_workqueue::{AddOptions, Added, Priority, QueueConfig, ShutdownMode};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use crate::{Count, Queue, SECOND, block_on, explore, join, poll_and_drop, queue, queue_with, spawn, waker};

/// Both keys are dequeued, although only one of the two waiters waits until the next deadline.
#[test]
fn delays_end_no_matter_which_waiter_leaves() {
    explore(|| {
        let ((queue, clock), taken) = (queue(), Count::new());
        queue.add_after(1, SECOND);
        queue.add_after(2, SECOND);
        let fickle = {
            let taken = taken.clone();
            spawn(&queue, move |queue| poll_and_drop(queue.get(), 2).into_iter().for_each(|_| taken.add()))
        };
        let steady = [(); 2].map(|()| {
            let taken = taken.clone();
            spawn(&queue, move |queue| std::iter::from_fn(|| queue.blocking_get()).for_each(|_| taken.add()))
        });
        clock.advance(SECOND);
        taken.wait_for(2);
        fickle.join().unwrap();
        drop(queue.shut_down(ShutdownMode::FinishBacklog));
        join(steady);
    });
}

/// The timekeeper is the waiter whose timeout is the next deadline. In this test, the timekeeper stops waiting before
/// its timeout.
#[test]
fn leaving_waiter_passes_the_timer_on() {
    explore(|| {
        let (queue, clock) = queue();
        queue.add_after(1, SECOND);
        let fickle = spawn(&queue, |queue| assert!(poll_and_drop(queue.get(), 1).is_none()));
        let steady = spawn(&queue, |queue| queue.blocking_get().is_some());
        fickle.join().unwrap();
        clock.advance(SECOND);
        assert!(steady.join().unwrap());
    });
}

#[test]
fn earlier_delay_wakes_a_sleeping_waiter() {
    explore(|| {
        let (queue, clock) = queue();
        queue.add_after(1, 10 * SECOND);
        let getter = spawn(&queue, |queue| queue.blocking_get().map(|item| *item));
        queue.add_after(2, SECOND);
        clock.advance(SECOND);
        assert_eq!(getter.join().unwrap(), Some(2));
    });
}

/// Adds a reminder, a retry, and a key without a delay. Each key fails once, and is therefore processed twice. The
/// thread that sets a delay also advances the clock.
#[test]
fn delays_and_retries_end_for_threads_and_tasks() {
    explore(|| {
        let ((queue, clock), succeeded) = (queue(), Count::new());
        let tries = Arc::new([(); 3].map(|()| AtomicUsize::new(0)));
        let workers = [(); 2].map(|()| {
            let (tries, succeeded, clock) = (Arc::clone(&tries), succeeded.clone(), clock.clone());
            spawn(&queue, move |queue| {
                while let Some(item) = queue.blocking_get() {
                    if tries[*item].fetch_add(1, Ordering::SeqCst) == 0 {
                        item.retry();
                        clock.advance(SECOND);
                    } else {
                        item.forget();
                        succeeded.add();
                    }
                }
            })
        });
        let adder = {
            let clock = clock.clone();
            spawn(&queue, move |queue| {
                queue.add_after(0, SECOND);
                clock.advance(SECOND);
                queue.add(1);
            })
        };
        queue.add_rate_limited(2);
        clock.advance(SECOND);
        succeeded.wait_for(3);
        adder.join().unwrap();
        let report = queue.shut_down(ShutdownMode::FinishBacklog).wait();
        assert!(report.complete && report.delayed.is_empty(), "{report:?}");
        join(workers);
        assert!(tries.iter().all(|tries| tries.load(Ordering::SeqCst) == 2));
    });
}

struct Forgetful(Count);

impl RateLimiter<usize> for Forgetful {
    fn delay(&mut self, _: &usize, _: u32, _: Instant) -> Duration {
        SECOND
    }

    fn forget(&mut self, _: &usize) {
        self.0.add();
    }
}

#[test]
fn waiting_thread_forgets_expired_failures() {
    explore(|| {
        let forgotten = Count::new();
        let limiter = Box::new(Forgetful(forgotten.clone()));
        let (queue, clock) = queue_with(|config| QueueConfig { limiter, keep_failures: Some(SECOND), ..config });
        let work = |limit: usize| {
            let clock = clock.clone();
            move |queue: Queue| {
                let take =
                    || if limit == 0 { queue.blocking_get() } else { poll_and_drop(queue.get(), limit).flatten() };
                while let Some(item) = take() {
                    item.done();
                    clock.advance(SECOND);
                }
            }
        };
        let (fickle, steady) = (spawn(&queue, work(2)), spawn(&queue, work(0)));
        [1, 2].into_iter().for_each(|key| _ = queue.add_rate_limited(key));
        clock.advance(SECOND);
        forgotten.wait_for(2);
        assert!(queue.snapshot().is_empty());
        fickle.join().unwrap();
        drop(queue.shut_down(ShutdownMode::FinishBacklog));
        steady.join().unwrap();
    });
}

/// One priority level corresponds to one second of waiting. A key that has waited more than a second longer is dequeued
/// first, even if another key's priority is one level higher. The add may go through the inbox.
#[test]
fn ageing_starts_at_the_add() {
    explore(|| {
        let order = Box::new(Priority::with_ageing(SECOND));
        let (queue, clock) = queue_with(|config| QueueConfig { order, ..config });
        let busy = spawn(&queue, |queue| (0..2).for_each(|_| _ = queue.counts()));
        queue.add(0);
        clock.advance(SECOND + Duration::from_nanos(2));
        queue.add_with(1, AddOptions { priority: 1, ..AddOptions::default() });
        busy.join().unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).map(|item| *item).collect();
        assert_eq!(taken, [0, 1]);
    });
}

#[test]
fn ageing_works_with_concurrent_adds() {
    explore(|| {
        let order = Box::new(Priority::with_ageing(SECOND));
        let (queue, clock) = queue_with(|config| QueueConfig { order, ..config });
        let adders = [0, 10].map(|first| spawn(&queue, move |queue| (first..first + 3).for_each(|key| queue.add(key))));
        let ticker = thread::spawn(move || (0..3).for_each(|_| clock.advance(SECOND)));
        let taken: Vec<usize> = (0..6).map(|_| *queue.blocking_get().unwrap()).collect();
        for adder in 0..2 {
            let own: Vec<_> = taken.iter().copied().filter(|key| key / 10 == adder).collect();
            assert!(own.is_sorted(), "{taken:?}");
        }
        join(adders);
        ticker.join().unwrap();
    });
}

fn metrics() -> (Queue, ManualClock, InMemoryProvider) {
    let memory = InMemoryProvider::new();
    let provider = StdArc::new(memory.clone());
    let (queue, clock) = queue_with(|config| QueueConfig { metrics: Some(provider), ..config });
    (queue, clock, memory)
}

fn durations(memory: &InMemoryProvider, name: &str) -> (u64, f64) {
    let found = memory.distribution(name, &[]).unwrap();
    (found.count(), found.sum())
}

#[test]
fn metrics_are_consistent() {
    explore(|| {
        let ((queue, clock, memory), succeeded) = (metrics(), Count::new());
        let adders = [0, 10].map(|first| spawn(&queue, move |queue| (first..first + 2).for_each(|key| queue.add(key))));
        let workers = [0, 1].map(|worker| {
            let (succeeded, clock) = (succeeded.clone(), clock.clone());
            spawn(&queue, move |queue| {
                let mut retries = 0;
                while let Some(item) = queue.blocking_get() {
                    if worker == 0 && item.num_requeues() == 0 {
                        assert_eq!(item.retry(), Added::Scheduled);
                        clock.advance(SECOND);
                        retries += 1;
                    } else {
                        item.forget();
                        succeeded.add();
                    }
                }
                retries
            })
        });
        for _ in 0..2 {
            for sample in memory.samples() {
                let Value::Gauge(value) = sample.value else { continue };
                assert!(value >= 0.0, "{} is {value}", sample.metric.name);
            }
        }
        join(adders);
        succeeded.wait_for(4);
        assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
        let retries: u64 = join(workers).into_iter().sum();
        let value = |name: &str| memory.value(name, &[]).unwrap();
        let (adds, retried) = (value("workqueue_adds_total"), value("workqueue_retries_total"));
        assert_eq!((adds, retried), (4.0 + retries as f64, retries as f64));
        assert_eq!((value("workqueue_depth"), value("workqueue_unfinished_work_seconds")), (0.0, 0.0));
        for name in ["workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"] {
            assert_eq!(durations(&memory, name).0, 4 + retries, "{name}");
        }
    });
}

/// The metrics measure the time from the add to the dequeue, and from the dequeue to the drop of the guard. The results
/// must be the same if the add and the drop go through the inbox.
#[test]
fn durations_are_measured_between_calls() {
    explore(|| {
        let (queue, clock, memory) = metrics();
        let busy = spawn(&queue, |queue| (0..2).for_each(|_| _ = queue.counts()));
        queue.add(0);
        clock.advance(SECOND);
        let item = queue.try_get().unwrap();
        clock.advance(2 * SECOND);
        item.done();
        clock.advance(4 * SECOND);
        queue.counts();
        assert_eq!(durations(&memory, "workqueue_queue_duration_seconds"), (1, 1.0));
        assert_eq!(durations(&memory, "workqueue_work_duration_seconds"), (1, 2.0));
        busy.join().unwrap();
    });
}

#[test]
fn throttle_serves_all_remaining_waiters() {
    explore(|| {
        let clock = ManualClock::new();
        let throttle = Throttle::new(1.0, 1, clock.clone());
        assert!(throttle.try_accept());
        let fickle = thread::spawn({
            let throttle = throttle.clone();
            move || poll_and_drop(throttle.accept(), 2).is_some()
        });
        let steady = thread::spawn({
            let throttle = throttle.clone();
            move || throttle.blocking_accept()
        });
        clock.advance(SECOND);
        if fickle.join().unwrap() {
            clock.advance(SECOND);
        }
        assert_eq!(steady.join().unwrap(), Ok(()));
    });
}

#[test]
fn unpolled_task_does_not_delay_others() {
    explore(|| {
        let (queue, clock) = queue();
        let mut stuck = Box::pin(queue.get());
        assert!(stuck.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        let steady = [(); 2].map(|()| spawn(&queue, |queue| block_on(queue.get()).map(|item| *item)));
        queue.add_after(1, SECOND);
        let adder = spawn(&queue, |queue| queue.add(2));
        clock.advance(SECOND);
        adder.join().unwrap();
        // At the end of the delay or at the add, the queue may have woken the task that is never polled. A millisecond
        // later, it must wake the other tasks.
        clock.advance(SECOND);
        let mut taken = join(steady);
        taken.sort_unstable();
        assert_eq!(taken, [Some(1), Some(2)]);
    });
}
