//! Measures how long a single call can hold the queue's lock.
//!
//! A program cannot directly measure how long a call holds a lock. However, a call holds at most one lock at a time, so
//! its CPU time is an upper bound. The upper bound includes the cost of reading the thread's CPU clock once. Some calls
//! take the lock many times, but each time only briefly. For these, the workloads also measure the slowest concurrent
//! `done` on another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pintle_ratelimit::{Clock, ManualClock};
use pintle_workqueue::{WorkItem, WorkQueue};

use super::Setting;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure, resident, thread_cpu};

/// The number of in-flight keys that another thread finishes one by one during the measurement.
const HELD: usize = 100_000;

/// Measures a single thread that gets and finishes 1 M delayed keys that become due at the same time.
pub(super) fn due<K: Key>(setting: Setting) -> Sample {
    let (mut get, mut done) = (Longest::default(), Longest::default());
    let sample = when_due::<K>(setting, |queue, n| {
        let mut calls = Calls::begin();
        for _ in 0..n {
            let item = calls.time(&mut get, || queue.blocking_get());
            calls.time(&mut done, || drop(item));
        }
        Tally::keys(n)
    });
    sample.with("CPU us, longest get", get.micros()).with("CPU us, longest done", done.micros())
}

/// Measures one read of the queue's counts after 1 M delayed keys have become due at the same time.
pub(super) fn due_counts<K: Key>(setting: Setting) -> Sample {
    let mut counts = Longest::default();
    let sample = when_due::<K>(setting, |queue, n| {
        let queued = Calls::begin().time(&mut counts, || queue.counts().queued);
        assert_eq!(queued, n, "all keys are due");
        Tally { operations: 1, adds: 0, gets: 0 }
    });
    sample.with("CPU us, counts()", counts.micros())
}

pub(super) fn grow<K: Key>(setting: Setting) -> Sample {
    let queue: WorkQueue<K> = setting.queue();
    let (keys, held) = prepare(&queue, setting.size(10_000_000));
    let (mut add, mut get, mut done) = (Longest::default(), Longest::default(), Longest::default());
    let before = resident();
    let (sample, other) = concurrently(held, || {
        measure(|| {
            let mut calls = Calls::begin();
            for key in &keys {
                calls.time(&mut add, || queue.add(key.clone()));
            }
            for _ in &keys {
                let item = calls.time(&mut get, || queue.blocking_get());
                calls.time(&mut done, || drop(item));
            }
            Tally::keys(keys.len())
        })
    });
    sample
        .with("CPU us, longest add", add.micros())
        .with("CPU us, longest get", get.micros())
        .with("CPU us, longest done", done.micros())
        .with("us, longest done of another thread", other.micros())
        .with("bytes left when it is empty", resident() - before)
}

/// Measures the closure `calls`. Before the measurement, 1 M keys with different delays become due while no call uses
/// the queue.
fn when_due<K: Key>(setting: Setting, calls: impl FnOnce(&WorkQueue<K, ManualClock>, usize) -> Tally) -> Sample {
    let clock = ManualClock::new();
    let queue = WorkQueue::new(setting.config(clock.clone()));
    let (keys, held) = prepare::<K, _>(&queue, setting.size(1_000_000));
    let mut random = Rng::with_seed(1);
    for key in &keys {
        queue.add_after(key.clone(), Duration::from_nanos(random.u64(1..1_000_000_000)));
    }
    clock.advance(Duration::from_secs(1));
    let (sample, other) = concurrently(held, || measure(|| calls(&queue, keys.len())));
    sample.with("us, longest done of another thread", other.micros())
}

/// Returns `n` keys to add, and the guards of [`HELD`] other keys that are in flight.
fn prepare<K: Key, C: Clock>(queue: &WorkQueue<K, C>, n: usize) -> (Vec<K>, Vec<WorkItem<K, C>>) {
    let mut keys = keys::<K>(n + HELD);
    let take = |key| {
        queue.add(key);
        queue.blocking_get()
    };
    let held = keys.drain(n..).filter_map(take).collect();
    (keys, held)
}

/// Runs `work` while another thread repeatedly finishes one of the `held` keys and then sleeps. Returns the result of
/// `work`, and the duration of the slowest `done`.
fn concurrently<K: Key, C: Clock, T>(held: Vec<WorkItem<K, C>>, work: impl FnOnce() -> T) -> (T, Longest) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut longest = Longest::default();
            for item in held.into_iter().take_while(|_| !over.load(Ordering::Relaxed)) {
                let start = Instant::now();
                drop(item);
                longest.lift(start.elapsed());
                thread::sleep(Duration::from_micros(50));
            }
            longest
        });
        let result = work();
        over.store(true, Ordering::Relaxed);
        (result, other.join().expect("a thread of the workload panicked"))
    })
}

/// Measures the CPU time of each call on a single thread.
struct Calls {
    last: Duration,
}

impl Calls {
    fn begin() -> Self {
        Self { last: thread_cpu() }
    }

    fn time<T>(&mut self, longest: &mut Longest, call: impl FnOnce() -> T) -> T {
        let result = call();
        let now = thread_cpu();
        longest.lift(now - self.last);
        self.last = now;
        result
    }
}

#[derive(Default)]
struct Longest(Duration);

impl Longest {
    fn lift(&mut self, to: Duration) {
        self.0 = self.0.max(to);
    }

    fn micros(&self) -> f64 {
        self.0.as_nanos() as f64 / 1e3
    }
}
