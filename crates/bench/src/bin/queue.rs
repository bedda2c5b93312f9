//! One work of the queue benchmark: `queue WORK`. `go/queue` does the same works on client-go.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

use std::hash::Hash;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pintle_bench::{Sample, measure, measure_left};
use pintle_ratelimit::{Clock, ExponentialFailureRateLimiter, ItemRateLimiter, KeepFailures, StdClock};
use pintle_workqueue::{QueueConfig, ShutdownMode, WorkQueue};

/// Copied as Go's strings are: an address and a length, and nothing is counted.
type Key = &'static str;

type Work = fn() -> Sample;

const WORKS: &[(&str, Work)] = &[
    ("add", || add_drain(1_000_000, true, 0)),
    ("drain-1", || add_drain(1_000_000, false, 1)),
    ("drain-8", || add_drain(1_000_000, false, 8)),
    ("add-drain-1", || add_drain(1_000_000, true, 1)),
    ("add-drain-8", || add_drain(1_000_000, true, 8)),
    ("hot", || hot(&keys(100_000))),
    ("hot-counted", || hot(&counted(100_000))),
    ("cycle", || cycle(&keys(1)[0])),
    ("cycle-counted", || cycle(&counted(1)[0])),
    ("fresh", fresh),
    ("add-after", || add_after(false)),
    ("ripen", || add_after(true)),
    ("rate-limited", || rate_limited(false)),
    ("retried", || rate_limited(true)),
    ("item-limiter", item_limiter),
    ("footprint", || footprint(false)),
    ("left-over", || footprint(true)),
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1);
    let Some((_, work)) = WORKS.iter().find(|(work, _)| Some(*work) == name.as_deref()) else {
        eprintln!("usage: queue WORK, one of:");
        WORKS.iter().for_each(|(work, _)| eprintln!("  {work}"));
        return ExitCode::from(2);
    };
    match serde_json::to_string(&work()) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Adds `n` distinct keys, then has them drained by so many workers. The adding is measured or not.
fn add_drain(n: usize, with_adds: bool, workers: usize) -> Sample {
    let keys = keys(n);
    let queue: WorkQueue<Key> = WorkQueue::default();
    let add = || {
        for key in &keys {
            queue.add(*key);
        }
    };
    if !with_adds {
        add();
    }
    measure(|| {
        if with_adds {
            add();
        }
        let _ = queue.shut_down(ShutdownMode::FinishBacklog);
        together(workers, |_| while queue.blocking_get().is_some() {});
        n
    })
}

/// 8 producers add 100 k keys over and over while 8 consumers take them. An operation is an add, or a get with its done.
fn hot<K: Hash + Eq + Clone + Send + Sync + 'static>(keys: &[K]) -> Sample {
    const PRODUCERS: usize = 8;
    const CONSUMERS: usize = 8;
    const ADDS: usize = 250_000;
    let queue: WorkQueue<K> = WorkQueue::default();
    measure(|| {
        let taken: usize = thread::scope(|scope| {
            let consume = || std::iter::from_fn(|| queue.blocking_get()).count();
            let consumers: Vec<_> = (0..CONSUMERS).map(|_| scope.spawn(consume)).collect();
            together(PRODUCERS, |producer| {
                let mut at = producer * 12_345;
                for _ in 0..ADDS {
                    at = (at + 7_919) % keys.len();
                    queue.add(keys[at].clone());
                }
            });
            let _ = queue.shut_down(ShutdownMode::FinishBacklog);
            consumers.into_iter().map(|consumer| consumer.join().unwrap_or_default()).sum()
        });
        PRODUCERS * ADDS + taken
    })
}

/// One key is added, taken and done, with nobody else about.
fn cycle<K: Hash + Eq + Clone + Send + 'static>(key: &K) -> Sample {
    const N: usize = 3_000_000;
    let queue: WorkQueue<K> = WorkQueue::default();
    measure(|| {
        for _ in 0..N {
            queue.add(key.clone());
            drop(queue.blocking_get());
        }
        N
    })
}

/// 100 keys are added, taken and done, on a new queue each time.
fn fresh() -> Sample {
    const QUEUES: usize = 10_000;
    let keys = keys(100);
    measure(|| {
        for _ in 0..QUEUES {
            let queue: WorkQueue<Key> = WorkQueue::default();
            for key in &keys {
                queue.add(*key);
            }
            keys.iter().for_each(|_| drop(queue.blocking_get()));
        }
        QUEUES * keys.len()
    })
}

/// Delays 1 M keys by 0 to 1 s. Either that alone is measured, or all of it, until the last one is done.
fn add_after(to_the_end: bool) -> Sample {
    const N: usize = 1_000_000;
    let mut random = fastrand::Rng::with_seed(1);
    let work = keys(N).into_iter().map(|key| (key, Duration::from_nanos(random.u64(0..1_000_000_000))));
    let work: Vec<_> = work.collect();
    let queue: WorkQueue<Key> = WorkQueue::default();
    measure(|| {
        for (key, delay) in &work {
            queue.add_after(*key, *delay);
        }
        if to_the_end {
            (0..N).for_each(|_| drop(queue.blocking_get()));
        }
        N
    })
}

/// Adds 1 M keys after the delay of the item limiter, 5 ms each. Either that alone is measured, or all of it, until the last
/// one is forgotten and done.
fn rate_limited(to_the_end: bool) -> Sample {
    const N: usize = 1_000_000;
    let keys = keys(N);
    let queue: WorkQueue<Key> = WorkQueue::new(QueueConfig { limiter: Box::new(limiter()), ..QueueConfig::default() });
    measure(|| {
        keys.iter().for_each(|key| {
            queue.add_rate_limited(*key);
        });
        for _ in 0..if to_the_end { N } else { 0 } {
            if let Some(item) = queue.blocking_get() {
                item.forget();
            }
        }
        N
    })
}

/// 1 k items fail and are forgotten.
fn item_limiter() -> Sample {
    const N: usize = 5_000_000;
    let keys = keys(1000);
    let mut limiter = ItemRateLimiter::new(limiter(), KeepFailures::UntilForgotten);
    let now = StdClock.now();
    measure(|| {
        for key in keys.iter().cycle().take(N) {
            std::hint::black_box(limiter.when(key, now));
            limiter.forget(key);
        }
        N
    })
}

/// Adds 10 M keys: the memory that takes beside the keys themselves. Or what of it is left when all are done.
fn footprint(to_the_end: bool) -> Sample {
    const N: usize = 10_000_000;
    let keys = keys(N);
    let queue: WorkQueue<Key> = WorkQueue::default();
    let work = || {
        keys.iter().for_each(|key| {
            queue.add(*key);
        });
        if to_the_end {
            (0..N).for_each(|_| drop(queue.blocking_get()));
        }
        N
    };
    if to_the_end { measure_left(work) } else { measure(work) }
}

fn limiter() -> ExponentialFailureRateLimiter {
    ExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1000))
}

/// Namespaced names of 30 bytes, each in 32 bytes of its own, side by side: as Go's allocator lays them out.
fn keys(n: usize) -> Vec<Key> {
    const STRIDE: usize = 32;
    let mut names = String::with_capacity(n * STRIDE);
    for i in 0..n {
        names.push_str(&format!("{:STRIDE$}", format!("namespace-{:04}/object-{i:08}", i % 1000)));
    }
    let names: &'static str = names.leak();
    (0..n).map(|i| names[i * STRIDE..(i + 1) * STRIDE].trim_end()).collect()
}

/// The same, as keys that are shared by counting: what most Rust programs use.
fn counted(n: usize) -> Vec<Arc<str>> {
    keys(n).into_iter().map(Arc::from).collect()
}

fn together(n: usize, work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for i in 0..n {
            let work = &work;
            scope.spawn(move || work(i));
        }
    });
}
