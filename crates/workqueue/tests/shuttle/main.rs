//! Tests of the queue under shuttle, which tries different interleavings:
//!
//! ```text
//! RUSTFLAGS="--cfg pintle_shuttle" cargo test -p pintle-workqueue --test shuttle
//! ```
//!
//! shuttle reports a deadlock when all threads sleep, so a lost wake-up fails the test. A parked thread may wake up
//! spuriously while another thread is running, so a test thread must not spin while other threads wait. Test threads
//! therefore wait for a [`Count`]. `loom.rs` tests the inbox and wake-ups with loom.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(pintle_shuttle)]

mod late;
mod time;
mod wake;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{QueueConfig, WorkQueue};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread::{self, JoinHandle};

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
    queue_with(|config| config)
}

fn queue_with(
    configure: impl FnOnce(QueueConfig<usize, ManualClock>) -> QueueConfig<usize, ManualClock>,
) -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(configure(QueueConfig::new(clock.clone()))), clock)
}

fn spawn<T: Send + 'static>(queue: &Queue, run: impl FnOnce(Queue) -> T + Send + 'static) -> JoinHandle<T> {
    let queue = queue.clone();
    thread::spawn(move || run(queue))
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[derive(Clone)]
struct Count {
    count: Arc<AtomicUsize>,
    waits: thread::Thread,
}

impl Count {
    fn new() -> Self {
        Self { count: Arc::new(AtomicUsize::new(0)), waits: thread::current() }
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.waits.unpark();
    }

    fn wait_for(&self, count: usize) {
        while self.count.load(Ordering::SeqCst) < count {
            thread::park();
        }
    }
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

/// Polls a future `polls` times, whether or not it was woken, and then drops it.
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
