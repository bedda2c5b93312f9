//! Measures a queue with many keys. Each key is added, dequeued and finished once.

use std::time::Instant;

use pintle_workqueue::{ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::Crew;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};

/// Adds 1 M keys and shuts down the queue. After the shutdown, `workers` workers get and finish all keys. The
/// measurement includes both phases.
pub(super) fn add_then_drain<K: Key, C: Crew>(crew: &C, setting: Setting, workers: usize) -> Sample {
    let keys = keys::<K>(setting.size(1_000_000));
    let queue: WorkQueue<K, C::Clock> = setting.queue();
    let mut adding = 0.0;
    let sample = measure(|| {
        let start = Instant::now();
        for key in &keys {
            queue.add(key.clone());
        }
        adding = start.elapsed().as_nanos() as f64;
        let _ = queue.shut_down(ShutdownMode::FinishBacklog);
        let workers = (0..workers).map(|_| crew.taker(&queue, setting)).collect();
        Tally { operations: keys.len(), adds: keys.len(), gets: crew.join_all(workers) }
    });
    let draining = sample.wall_ns - adding;
    let n = sample.operations;
    sample.with("adding, ns/key", adding / n).with("draining, ns/key", draining / n)
}

/// A producer adds 1 M keys while `workers` workers wait for keys. Measures the time from the first add until the last
/// key is done.
pub(super) fn through<K: Key, C: Crew>(crew: &C, setting: Setting, workers: usize) -> Sample {
    let keys = keys::<K>(setting.size(1_000_000));
    let queue: WorkQueue<K, C::Clock> = setting.queue();
    let workers = (0..workers).map(|_| crew.taker(&queue, setting)).collect();
    measure(|| {
        let (adding, n) = (queue.clone(), keys.len());
        let adds = crew.join(crew.producer(n, None, move |i| adding.add(keys[i].clone())));
        let _ = queue.shut_down(ShutdownMode::FinishBacklog);
        Tally { operations: n, adds, gets: crew.join_all(workers) }
    })
}
