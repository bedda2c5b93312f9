//! Tests of the inbox and of wake-ups under loom. loom tries every interleaving with a few preemptions, in Rust's
//! memory model:
//!
//! ```text
//! RUSTFLAGS="--cfg pintle_loom" cargo test -p pintle-workqueue --test loom
//! ```
//!
//! loom reports a deadlock when all threads sleep, so a lost wake-up fails the test. The time is constant, except
//! that the clock [`Bell`] advances once. The `shuttle` tests cover all other time-dependent cases.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(pintle_loom)]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::{self, JoinHandle};
use pintle_workqueue::ratelimit::{Clock, Sleep, Timer};
use pintle_workqueue::{QueueConfig, ShutdownMode, WorkQueue};

type Queue = WorkQueue<usize, Still>;

/// A clock that never advances, so that a parked thread sleeps until it is woken.
struct Still(Instant);

impl Clock for Still {
    fn now(&self) -> Instant {
        self.0
    }

    fn park_until(&self, _deadline: Option<Instant>) {
        thread::park();
    }
}

impl Timer for Still {
    fn sleep_until(&self, _deadline: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// Runs the test in all interleavings with up to `preemptions` preemptions. The environment variable
/// `LOOM_MAX_PREEMPTIONS` overrides the number of preemptions.
fn explore(preemptions: usize, test: impl Fn(&Queue) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(preemptions);
    let epoch = Instant::now();
    model.check(move || test(&WorkQueue::new(QueueConfig::new(Still(epoch)))));
}

fn spawn<T: 'static>(queue: &Queue, run: impl FnOnce(Queue) -> T + 'static) -> JoinHandle<T> {
    let queue = queue.clone();
    thread::spawn(move || run(queue))
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn new_waiter_applies_a_late_add() {
    explore(4, |queue| {
        let adder = spawn(queue, |queue| queue.add(1));
        assert_eq!(*queue.blocking_get().unwrap(), 1);
        adder.join().unwrap();
    });
}

#[test]
fn keys_of_two_producers_are_dequeued() {
    explore(2, |queue| {
        let adders = [1, 2].map(|key| spawn(queue, move |queue| queue.add(key)));
        for _ in 0..2 {
            queue.blocking_get().unwrap().done();
        }
        adders.into_iter().for_each(|adder| adder.join().unwrap());
    });
}

/// The first waiter dequeues its key but does not finish it. The poll of the first waiter must wake the second
/// waiter.
#[test]
fn two_keys_wake_two_waiters() {
    explore(2, |queue| {
        let getters = [(); 2].map(|()| spawn(queue, |queue| queue.blocking_get()));
        queue.add(1);
        queue.add(2);
        let items = getters.map(|getter| getter.join().unwrap());
        assert!(items.iter().all(Option::is_some));
    });
}

#[test]
fn dropped_get_passes_its_wakeup_on() {
    explore(3, |queue| {
        let mut fickle = queue.get();
        assert!(poll(&mut fickle).is_pending());
        let steady = spawn(queue, |queue| queue.blocking_get().is_some());
        let adder = spawn(queue, |queue| queue.add(1));
        drop(fickle);
        assert!(steady.join().unwrap());
        adder.join().unwrap();
    });
}

/// The first add notifies a waiter, which is dropped during the second add. Both keys must be dequeued.
#[test]
fn get_dropped_between_two_adds_delays_neither_key() {
    explore(2, |queue| {
        let mut fickle = queue.get();
        assert!(poll(&mut fickle).is_pending());
        queue.add(1);
        let steady = spawn(queue, |queue| queue.blocking_get());
        let adder = spawn(queue, |queue| queue.add(2));
        drop(fickle);
        let items = [queue.blocking_get(), steady.join().unwrap()];
        assert!(items.iter().all(Option::is_some));
        adder.join().unwrap();
    });
}

/// If the dropped `get` had dequeued the first key, dropping it marks this key as done, and the test adds another
/// key.
#[test]
fn dropped_get_that_can_have_a_key_wakes_another() {
    explore(2, |queue| {
        let adder = spawn(queue, |queue| queue.add(1));
        let steady = spawn(queue, |queue| queue.blocking_get().is_some());
        if poll(&mut queue.get()).is_ready() {
            queue.add(2);
        }
        assert!(steady.join().unwrap());
        adder.join().unwrap();
    });
}

#[test]
fn dropped_guard_ends_the_drain() {
    explore(4, |queue| {
        queue.add(1);
        let held = queue.try_get().unwrap();
        let worker = thread::spawn(move || held.done());
        assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
        worker.join().unwrap();
    });
}

#[test]
fn next_returns_a_key_from_a_late_add() {
    explore(4, |queue| {
        queue.add(1);
        let held = queue.try_get().unwrap();
        let adder = spawn(queue, |queue| queue.add(2));
        let next = held.blocking_next().unwrap();
        assert_eq!((*next, queue.counts().in_flight), (2, 1));
        adder.join().unwrap();
    });
}

#[test]
fn finished_add_is_visible_to_later_calls() {
    explore(3, |queue| {
        let adder = spawn(queue, |queue| {
            queue.add(1);
            queue.add(2);
            assert!(queue.remove(&2));
        });
        queue.add(3);
        assert!(queue.remove(&3));
        adder.join().unwrap();
        assert_eq!(queue.len(), 1);
    });
}

#[test]
fn waiters_observe_the_shutdown() {
    explore(4, |queue| {
        let getter = spawn(queue, |queue| queue.blocking_get().is_none());
        drop(queue.shut_down(ShutdownMode::FinishBacklog));
        assert!(getter.join().unwrap());
    });
}

#[test]
fn shutdown_processes_or_rejects_each_add() {
    explore(2, |queue| {
        let adders = [1, 2].map(|key| spawn(queue, move |queue| queue.add(key)));
        drop(queue.shut_down(ShutdownMode::FinishBacklog));
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        let taken = std::iter::from_fn(|| queue.blocking_get()).count();
        let refused = queue.shut_down(ShutdownMode::FinishBacklog).wait().refused;
        assert_eq!(taken as u64 + refused, 2);
    });
}

/// A clock that advances once, by a minute, and then wakes its sleepers.
#[derive(Clone)]
struct Bell {
    epoch: Instant,
    has_rung: Arc<AtomicBool>,
    sleepers: Arc<Mutex<Vec<Waker>>>,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Bell {
    fn ring(&self) {
        let sleepers = {
            let mut sleepers = self.sleepers.lock().unwrap();
            self.has_rung.store(true, Ordering::SeqCst);
            std::mem::take(&mut *sleepers)
        };
        sleepers.into_iter().for_each(Waker::wake);
    }
}

impl Clock for Bell {
    fn now(&self) -> Instant {
        if self.has_rung.load(Ordering::SeqCst) { self.epoch + MINUTE } else { self.epoch }
    }

    fn park_until(&self, _deadline: Option<Instant>) {
        thread::park();
    }
}

impl Timer for Bell {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let bell = self.clone();
        Box::pin(poll_fn(move |cx| {
            let mut sleepers = bell.sleepers.lock().unwrap();
            if bell.now() >= deadline {
                return Poll::Ready(());
            }
            sleepers.push(cx.waker().clone());
            Poll::Pending
        }))
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match pin!(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Two tasks wait for a key: the first task is woken but never polled, and the second task is polled. The function
/// `act` makes a key available, immediately or when the clock advances.
fn unpolled_task_delays_no_other(preemptions: usize, act: fn(&WorkQueue<usize, Bell>)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(preemptions);
    let epoch = Instant::now();
    model.check(move || {
        let bell =
            Bell { epoch, has_rung: Arc::new(AtomicBool::new(false)), sleepers: Arc::new(Mutex::new(Vec::new())) };
        let queue = WorkQueue::new(QueueConfig::new(bell.clone()));
        let mut stuck = queue.get();
        assert!(poll(&mut stuck).is_pending());
        let steady = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.get()).is_some()
        });
        act(&queue);
        let rings = thread::spawn(move || bell.ring());
        assert!(steady.join().unwrap());
        rings.join().unwrap();
    });
}

#[test]
fn key_is_dequeued_when_first_task_is_never_polled() {
    unpolled_task_delays_no_other(2, |queue| queue.add(1));
}

#[test]
fn delay_ends_when_first_task_is_never_polled() {
    unpolled_task_delays_no_other(2, |queue| {
        queue.add_after(1, MINUTE);
        queue.add_after(2, MINUTE);
    });
}
