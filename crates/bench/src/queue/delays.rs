//! Adds that are delayed, while somebody waits for the keys.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pintle_ratelimit::{ExponentialFailureRateLimiter, RateLimiter, StdClock, default_controller_rate_limiter};
use pintle_workqueue::{QueueConfig, ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::{Crew, Threads};
use super::keys::{Key, keys};
use crate::Sample;
use crate::meter::{Tally, measure};

/// What says how long a key waits.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// Its own failures.
    Item,
    /// These, and a bucket for all keys: client-go's default, which lets 100 pass and then 10 a second.
    Default,
}

/// 1 M keys are added after 0 to 1 s each. Measured until the last is done.
pub(super) fn add_after<K: Key>(how: Setting) -> Sample {
    let mut random = Rng::with_seed(1);
    let delay = |key| (key, Duration::from_nanos(random.u64(..1_000_000_000)));
    let keys: Vec<(K, Duration)> = keys(how.size(1_000_000)).into_iter().map(delay).collect();
    let queue = how.queue();
    until_done(&queue, keys.len(), keys.len(), || {
        for (key, delay) in &keys {
            queue.add_after(key.clone(), *delay);
        }
    })
}

/// 1 M keys are added by a limiter's delays. Measured until the last is done, of those that are not for another day.
pub(super) fn add_rate_limited<K: Key>(how: Setting, limit: Limit) -> Sample {
    let keys = keys::<K>(how.size(1_000_000));
    let (limiter, soon): (Box<dyn RateLimiter<K>>, _) = match limit {
        Limit::Item => (Box::new(ExponentialFailureRateLimiter::default()), keys.len()),
        Limit::Default => (Box::new(default_controller_rate_limiter()), 100),
    };
    let queue = WorkQueue::new(QueueConfig { limiter, ..how.config(StdClock) });
    until_done(&queue, keys.len(), soon, || {
        for key in &keys {
            queue.add_rate_limited(key.clone());
        }
    })
}

/// Measures `adds`, so many, while a worker waits for the keys, until it is done with `soon` of them.
fn until_done<K: Key>(queue: &WorkQueue<K>, n: usize, soon: usize, adds: impl FnOnce()) -> Sample {
    let (tell, told) = mpsc::channel();
    let mut taken = 0;
    let worker = Threads.worker(queue, move |item| {
        drop(item);
        taken += 1;
        if taken == soon {
            let _ = tell.send(());
        }
    });
    let mut adding = 0.0;
    let mut sample = measure(|| {
        let start = Instant::now();
        adds();
        adding = start.elapsed().as_nanos() as f64;
        let _ = told.recv();
        Tally::keys(n)
    });
    drop(queue.shut_down(ShutdownMode::Abandon));
    sample.gets = Threads.join(worker) as f64;
    sample.with("ns/call", adding / n as f64)
}
