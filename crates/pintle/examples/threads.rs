//! Uses a work queue and rate limiters with plain threads, without an async runtime.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pintle::ratelimit::{
    BucketRateLimiter, ExponentialFailureRateLimiter, MaxOfRateLimiter, StdClock, Throttle, ThrottleError, TokenBucket,
};
use pintle::workqueue::{QueueConfig, ShutdownMode, WorkQueue};

fn main() -> Result<(), ThrottleError> {
    // The delay of a key doubles with each failure, from 1 ms up to 1 s. The limiter allows at most 100 retries per
    // second for all keys together, after a burst of 100.
    let (base, cap) = (Duration::from_millis(1), Duration::from_secs(1));
    let limiter = MaxOfRateLimiter::new(vec![
        Box::new(ExponentialFailureRateLimiter::new(base, cap)),
        Box::new(BucketRateLimiter::new(TokenBucket::full(100.0, 100))),
    ]);
    let queue: WorkQueue<String> = WorkQueue::new(QueueConfig { limiter: Box::new(limiter), ..QueueConfig::default() });
    // This limiter is like client-go's `flowcontrol.NewTokenBucketRateLimiter`. The limiter allows at most 200 calls
    // per second for all threads together, after a burst of 10.
    let throttle = Throttle::new(200.0, 10, StdClock);
    let runs = Mutex::new(BTreeMap::<String, u32>::new());

    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(item) = queue.blocking_get() {
                    throttle.blocking_accept().expect("the throttle is never stopped");
                    let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
                    let count = runs.entry(item.clone()).or_default();
                    *count += 1;
                    // Every third key fails twice.
                    match (item.ends_with('3'), *count) {
                        (true, ..=2) => _ = item.retry(),
                        _ => item.forget(),
                    }
                }
            });
        }
        let started = Instant::now();
        for number in 0..30 {
            queue.add(format!("team-a/web-{}", number % 10)); // The queue deduplicates keys.
        }
        queue.add_after("team-a/later".into(), Duration::from_millis(20));
        // A drain does not wait for delayed keys. Wait until no key is delayed or queued.
        while queue.counts().delayed > 0 || !queue.is_empty() {
            thread::park_timeout(Duration::from_millis(1));
        }
        let report = queue.shut_down(ShutdownMode::FinishBacklog).with_timeout(Duration::from_secs(10)).wait();
        assert!(report.complete, "{report:?}");
        println!("the queue is drained after {:?}", started.elapsed());
    });

    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{runs:?}");
    // A key that is added while a worker processes it runs again, so the number of runs can be higher.
    assert!(runs.len() == 11 && runs["team-a/web-3"] >= 3, "{runs:?}");
    Ok(())
}
