//! Workloads with delayed adds while a worker is already waiting.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pintle_ratelimit::{ExponentialFailureRateLimiter, RateLimiter, StdClock, default_controller_rate_limiter};
use pintle_workqueue::{QueueConfig, ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::{Crew, Threads};
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};

#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// A limiter whose delay for a key grows with each failure.
    Item,
    /// client-go's default limiter, which combines a delay per key with a token bucket for all keys. The bucket allows
    /// a burst of 100 keys, and then 10 keys per second.
    Default,
}

/// Adds 1 M keys with random delays of up to one second. The measurement ends when all keys are done.
pub(super) fn add_after<K: Key>(setting: Setting) -> Sample {
    let mut random = Rng::with_seed(1);
    let delay = |key| (key, Duration::from_nanos(random.u64(..1_000_000_000)));
    let keys: Vec<(K, Duration)> = keys(setting.size(1_000_000)).into_iter().map(delay).collect();
    let queue = setting.queue();
    until_done(&queue, keys.len(), keys.len(), || {
        for (key, delay) in &keys {
            queue.add_after(key.clone(), *delay);
        }
    })
}

/// Adds 1 M keys with delays from a rate limiter. The measurement ends when all keys are done. With client-go's default
/// limiter, it ends when the first 100 keys are done.
pub(super) fn add_rate_limited<K: Key>(setting: Setting, limit: Limit) -> Sample {
    let keys = keys::<K>(setting.size(1_000_000));
    let (limiter, soon): (Box<dyn RateLimiter<K>>, _) = match limit {
        Limit::Item => (Box::new(ExponentialFailureRateLimiter::default()), keys.len()),
        Limit::Default => (Box::new(default_controller_rate_limiter()), 100),
    };
    let queue = WorkQueue::new(QueueConfig { limiter, ..setting.config(StdClock) });
    until_done(&queue, keys.len(), soon, || {
        for key in &keys {
            queue.add_rate_limited(key.clone());
        }
    })
}

/// Measures a worker while the closure `adds` adds `n` keys, until the worker has finished `soon` keys.
fn until_done<K: Key>(queue: &WorkQueue<K>, n: usize, soon: usize, adds: impl FnOnce()) -> Sample {
    let (sender, soon_done) = mpsc::channel();
    let mut taken = 0;
    let worker = Threads.worker(queue, move |item| {
        drop(item);
        taken += 1;
        if taken == soon {
            let _ = sender.send(());
        }
    });
    let mut adding = 0.0;
    let mut sample = measure(|| {
        let start = Instant::now();
        adds();
        adding = start.elapsed().as_nanos() as f64;
        let _ = soon_done.recv();
        Tally::keys(n)
    });
    drop(queue.shut_down(ShutdownMode::Abandon));
    sample.gets = Threads.join(worker) as f64;
    sample.with("ns/call", adding / n as f64)
}
