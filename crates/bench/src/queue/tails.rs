//! Measures tail latencies of calls with more threads than CPUs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pintle_workqueue::{ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::Crew;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};
use crate::stopwatch::Stopwatch;

/// 16 producers each add 100 k keys, chosen at random from 100 k keys, while 16 workers process the keys. The threads
/// do not pause, and each add and each `done` is measured.
pub(super) fn storm<K: Key, C: Crew>(crew: &C, setting: Setting) -> Sample {
    let each = setting.size(100_000);
    let keys: Arc<[K]> = keys(each).into();
    let queue: WorkQueue<K, C::Clock> = setting.queue();
    let (added, done) = (Stopwatch::default(), Stopwatch::default());
    let sample = measure(|| {
        let worker = |_| {
            let mut done = done.clone();
            crew.worker(&queue, move |item| done.time(|| drop(item)))
        };
        let producer = |seed| {
            let (queue, keys, mut added, mut random) =
                (queue.clone(), Arc::clone(&keys), added.clone(), Rng::with_seed(seed));
            crew.producer(each, None, move |_| {
                let key = keys[random.usize(..keys.len())].clone();
                added.time(|| queue.add(key));
            })
        };
        let workers = (0..16).map(worker).collect();
        let adds = crew.join_all((0..16).map(producer).collect());
        let _ = queue.shut_down(ShutdownMode::FinishBacklog);
        Tally::calls(adds, crew.join_all(workers))
    });
    sample
        .with("us, p50 of add", added.quantile_us(0.5))
        .with("us, p99.9 of add", added.quantile_us(0.999))
        .with("us, p50 of done", done.quantile_us(0.5))
        .with("us, p99.9 of done", done.quantile_us(0.999))
}

/// For 2 s, two threads add, get and finish keys without pauses. A third thread repeatedly sleeps and then reads the
/// counts of the queue. Measures these reads.
pub(super) fn counts<K: Key>(setting: Setting) -> Sample {
    // There are enough keys to finish each key before it is added again. Therefore, each add has a separate get.
    const EACH: usize = 1000;
    let keys = keys::<K>(2 * EACH);
    let queue: WorkQueue<K> = setting.queue();
    let stop = AtomicBool::new(false);
    let all = Stopwatch::default();
    let mut counts = all.clone();
    let hog = |keys: &[K]| {
        let mut keys = keys.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed));
        let turn = |key: &K| {
            queue.add(key.clone());
            queue.blocking_get()
        };
        std::iter::from_fn(|| keys.next().and_then(turn)).count()
    };
    let sample = measure(|| {
        let turns = thread::scope(|scope| {
            let hogs: Vec<_> = keys.chunks(EACH).map(|keys| scope.spawn(|| hog(keys))).collect();
            let end = Instant::now() + Duration::from_millis(setting.size(2000) as u64);
            while Instant::now() < end {
                thread::sleep(Duration::from_micros(500));
                counts.time(|| queue.counts());
            }
            stop.store(true, Ordering::Relaxed);
            drop(queue.shut_down(ShutdownMode::Abandon));
            hogs.into_iter().map(|hog| hog.join().expect("a thread of the workload panicked")).sum()
        });
        Tally::keys(turns)
    });
    drop(counts);
    sample.with("us, p50 of counts()", all.quantile_us(0.5)).with("us, p99 of counts()", all.quantile_us(0.99))
}
