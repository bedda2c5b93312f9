//! Measures the time that a key waits for a worker in a process with a low CPU limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pintle_workqueue::{ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::{Crew, Pace};
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};
use crate::stopwatch::Stopwatch;

const CREW: usize = 16;
const TICK: Duration = Duration::from_millis(5);
const TICKS: usize = 400;

/// For 2 s, 16 producers together add `keys_per_second` keys per second. Each producer adds its share of the keys
/// every 5 ms, at different times than the other producers. 16 workers wait for the keys. Measures the time from the
/// add of a key until a worker gets it. The parent process sets the CPU limit.
pub(super) fn hand_off<K: Key, C: Crew>(crew: &C, setting: Setting, keys_per_second: usize) -> Sample {
    let share = keys_per_second * TICK.as_millis() as usize / 1000 / CREW;
    let ticks = setting.size(TICKS);
    // Use each key only once, so that the queue never merges adds.
    let keys: Arc<[K]> = keys(CREW * ticks * share).into();
    let added: Arc<[AtomicU64]> = keys.iter().map(|_| AtomicU64::new(0)).collect();
    let queue: WorkQueue<K, C::Clock> = setting.queue();
    let hand_offs = Stopwatch::default();
    let start = Instant::now();
    let workers = (0..CREW).map(|_| {
        let (added, mut hand_offs) = (Arc::clone(&added), hand_offs.clone());
        crew.worker(&queue, move |item| {
            let before = Duration::from_nanos(added[item.key().number()].load(Ordering::Relaxed));
            hand_offs.note(start.elapsed() - before);
        })
    });
    let workers = workers.collect();
    let sample = measure(|| {
        let now = Instant::now();
        let producer = |i: usize| {
            let (queue, keys, added) = (queue.clone(), Arc::clone(&keys), Arc::clone(&added));
            let pace = Pace { first: now + TICK * i as u32 / CREW as u32, every: TICK };
            crew.producer(ticks, Some(pace), move |tick| {
                for key in (i * ticks + tick) * share..(i * ticks + tick + 1) * share {
                    added[key].store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    queue.add(keys[key].clone());
                }
            })
        };
        let producers = (0..CREW).map(producer).collect();
        crew.join_all(producers);
        let _ = queue.shut_down(ShutdownMode::FinishBacklog);
        Tally { operations: keys.len(), adds: keys.len(), gets: crew.join_all(workers) }
    });
    sample
        .with("us, p50 of hand-off", hand_offs.quantile_us(0.5))
        .with("us, p99 of hand-off", hand_offs.quantile_us(0.99))
}
