//! The lock-and-wake core under a scheduler that tries interleavings:
//!
//! ```text
//! RUSTFLAGS="--cfg pintle_shuttle" cargo test -p pintle-workqueue --test shuttle
//! ```
//!
//! Shuttle calls a run in which every thread sleeps a deadlock, so a lost wake-up fails the test by itself.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(pintle_shuttle)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pintle_workqueue::ratelimit::{ManualClock, Throttle};
use pintle_workqueue::{AddOptions, Added, QueueConfig, ShutdownMode, WorkQueue};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

type Queue = WorkQueue<usize, ManualClock>;

const SECOND: Duration = Duration::from_secs(1);
const ITERATIONS: usize = 1000;

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = StdArc::new(test);
    let again = StdArc::clone(&test);
    shuttle::check_random(move || test(), ITERATIONS);
    shuttle::check_pct(move || again(), ITERATIONS, 3);
}

fn queue() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
}

/// Waits until somebody has to be woken by the clock, and moves it there.
fn advance_when_somebody_sleeps(clock: &ManualClock) {
    while clock.next_deadline().is_none() {
        thread::yield_now();
    }
    clock.advance(SECOND);
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: StdArc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(StdArc::new(Unpark(thread::current())))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = waker();
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// The keys 0 to 3 by one thread, 10 to 13 by another.
fn two_add_four_each(queue: &Queue) -> Vec<thread::JoinHandle<()>> {
    let add = |adder: usize| {
        let queue = queue.clone();
        thread::spawn(move || {
            for key in 0..4 {
                queue.add(10 * adder + key);
            }
        })
    };
    (0..2).map(add).collect()
}

/// Polls so many times, whether woken or not, and gives up.
fn poll_and_drop<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let waker = waker();
    let mut future: Pin<Box<F>> = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        thread::yield_now();
    }
    None
}

#[test]
fn every_getter_is_woken_for_a_key() {
    explore(|| {
        let (queue, _) = queue();
        let getters: Vec<_> = (0..3)
            .map(|worker| {
                let queue = queue.clone();
                thread::spawn(move || match worker {
                    0 => block_on(queue.get()).is_some(),
                    _ => queue.blocking_get().is_some(),
                })
            })
            .collect();
        let adder = thread::spawn({
            let queue = queue.clone();
            move || {
                queue.add(1);
                queue.add(2);
            }
        });
        queue.add(3);
        adder.join().unwrap();
        assert!(getters.into_iter().all(|getter| getter.join().unwrap()));
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn no_add_is_left_lying() {
    explore(|| {
        let (queue, _) = queue();
        let adders = two_add_four_each(&queue);
        for _ in 0..8 {
            assert!(queue.blocking_get().is_some());
        }
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn an_add_is_seen_by_what_comes_after_it() {
    explore(|| {
        let (queue, _) = queue();
        let adders: Vec<_> = (0..2)
            .map(|adder| {
                let queue = queue.clone();
                thread::spawn(move || {
                    for key in 0..3 {
                        queue.add(10 * adder + key);
                        let seen = queue.snapshot().into_iter().any(|state| state.key == 10 * adder + key);
                        assert!(seen);
                    }
                })
            })
            .collect();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        let report = queue.shut_down(ShutdownMode::FinishInFlight).wait();
        assert_eq!(report.queued.len(), 6);
    });
}

/// Whoever meets the shutdown is told so, and nobody else's key is lost: not even one that did not wait for the lock.
#[test]
fn a_shutdown_refuses_no_add_that_was_accepted() {
    explore(|| {
        let (queue, _) = queue();
        let adders: Vec<_> = (0..3)
            .map(|adder| {
                let queue = queue.clone();
                thread::spawn(move || {
                    (0..2)
                        .filter(|key| queue.add_with(10 * adder + key, AddOptions::default()) != Added::ShutDown)
                        .count()
                })
            })
            .collect();
        let worker = thread::spawn({
            let queue = queue.clone();
            move || std::iter::from_fn(|| queue.blocking_get()).count()
        });
        let drain = queue.shut_down(ShutdownMode::FinishBacklog);
        let accepted: usize = adders.into_iter().map(|adder| adder.join().unwrap()).sum();
        let report = drain.wait();
        assert_eq!((report.complete, report.refused), (true, 6 - accepted as u64));
        assert_eq!(worker.join().unwrap(), accepted);
    });
}

/// The order of a thread's adds is that of its keys, late or not.
#[test]
fn keys_keep_the_order_of_the_thread_that_adds_them() {
    explore(|| {
        let (queue, _) = queue();
        let adders = two_add_four_each(&queue);
        let taken: Vec<usize> = (0..8).map(|_| *queue.blocking_get().unwrap()).collect();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        for adder in 0..2 {
            let own: Vec<_> = taken.iter().copied().filter(|key| key / 10 == adder).collect();
            assert!(own.is_sorted(), "{taken:?}");
        }
    });
}

#[test]
fn a_cancelled_get_passes_its_wake_up_on() {
    explore(|| {
        let (queue, _) = queue();
        let fickle = thread::spawn({
            let queue = queue.clone();
            move || poll_and_drop(queue.get(), 2).is_some()
        });
        let steady = thread::spawn({
            let queue = queue.clone();
            move || queue.blocking_get().is_some()
        });
        queue.add(1);
        let taken = fickle.join().unwrap();
        if taken {
            // Its key is done by now; there has to be one for the other.
            queue.add(2);
        }
        assert!(steady.join().unwrap());
    });
}

#[test]
fn the_time_is_kept_whoever_leaves() {
    explore(|| {
        let (queue, clock) = queue();
        queue.add_after(1, SECOND);
        queue.add_after(2, SECOND);
        let fickle = thread::spawn({
            let queue = queue.clone();
            move || drop(poll_and_drop(queue.get(), 2))
        });
        let steady: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || while let Some(_item) = queue.blocking_get() {})
            })
            .collect();
        advance_when_somebody_sleeps(&clock);
        fickle.join().unwrap();
        // Both have come, though only one of the waiters keeps the time.
        while queue.counts().delayed + queue.counts().queued + queue.counts().in_flight > 0 {
            thread::yield_now();
        }
        drop(queue.shut_down(ShutdownMode::FinishBacklog));
        steady.into_iter().for_each(|steady| steady.join().unwrap());
    });
}

#[test]
fn an_earlier_delay_is_not_slept_through() {
    explore(|| {
        let (queue, clock) = queue();
        queue.add_after(1, 10 * SECOND);
        let getter = thread::spawn({
            let queue = queue.clone();
            move || queue.blocking_get().map(|item| *item)
        });
        queue.add_after(2, SECOND);
        clock.advance(SECOND);
        assert_eq!(getter.join().unwrap(), Some(2));
    });
}

#[test]
fn all_drainers_are_woken_and_all_getters_leave() {
    explore(|| {
        let (queue, _) = queue();
        queue.add(1);
        queue.add(2);
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || {
                    while let Some(item) = queue.blocking_get() {
                        // A key that is added while it is held has to be finished too.
                        if *item == 1 {
                            queue.add(1);
                        }
                        if queue.is_shutting_down() {
                            continue;
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        let drainers: Vec<_> = (0..2)
            .map(|drainer| {
                let queue = queue.clone();
                thread::spawn(move || {
                    let drain = queue.shut_down(ShutdownMode::FinishBacklog);
                    if drainer == 0 { block_on(drain) } else { drain.wait() }
                })
            })
            .collect();
        for drainer in drainers {
            let report = drainer.join().unwrap();
            assert!(report.complete && report.queued.is_empty() && report.in_flight.is_empty());
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn a_harder_shutdown_frees_a_stuck_drain() {
    explore(|| {
        let (queue, _) = queue();
        queue.add(1);
        let held = queue.try_get().unwrap();
        let drainer = thread::spawn({
            let queue = queue.clone();
            move || queue.shut_down(ShutdownMode::FinishBacklog).wait()
        });
        drop(queue.shut_down(ShutdownMode::Abandon));
        assert_eq!(drainer.join().unwrap().in_flight, [1]);
        drop(held);
    });
}

#[test]
fn a_cancelled_drain_does_not_take_the_others_wake_up() {
    explore(|| {
        let (queue, _) = queue();
        queue.add(1);
        let held = queue.try_get().unwrap();
        let fickle = thread::spawn({
            let queue = queue.clone();
            move || drop(poll_and_drop(queue.shut_down(ShutdownMode::FinishInFlight), 2))
        });
        let steady = thread::spawn({
            let queue = queue.clone();
            move || queue.shut_down(ShutdownMode::FinishInFlight).wait().complete
        });
        drop(held);
        assert!(steady.join().unwrap());
        fickle.join().unwrap();
    });
}

#[test]
fn a_key_is_held_by_one_worker_and_no_add_is_lost() {
    explore(|| {
        let (queue, _) = queue();
        let held = Arc::new(AtomicUsize::new(0));
        let (wanted, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, held, wanted, seen) =
                    (queue.clone(), Arc::clone(&held), Arc::clone(&wanted), Arc::clone(&seen));
                thread::spawn(move || {
                    while let Some(_item) = queue.blocking_get() {
                        assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0, "held twice");
                        seen.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst);
                        thread::yield_now();
                        held.fetch_sub(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            wanted.fetch_add(1, Ordering::SeqCst);
            queue.add(1);
        }
        assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(seen.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn a_throttle_serves_all_who_stay() {
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
        advance_when_somebody_sleeps(&clock);
        if fickle.join().unwrap() {
            advance_when_somebody_sleeps(&clock);
        }
        assert_eq!(steady.join().unwrap(), Ok(()));
    });
}
