//! Measures the time that keys wait in the queue while a worker computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pintle_workqueue::{ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::Crew;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};
use crate::stopwatch::Stopwatch;

const WORKERS: usize = 8;
const ROUNDS: usize = 200;
const PAUSE: Duration = Duration::from_millis(1);
const COMPUTES: Duration = Duration::from_millis(5);

/// Eight workers wait for keys. In each round, one worker gets a key, adds `fan` other keys, and then computes for 5
/// ms. The next round starts when all keys of this round are done. Measures the time from the add of each of the `fan`
/// keys until a worker gets it.
pub(super) fn busy<K: Key, C: Crew>(crew: &C, setting: Setting, fan: usize) -> Sample {
    let rounds = setting.size(ROUNDS);
    let keys: Arc<[K]> = keys(rounds * (fan + 1)).into();
    let added: Arc<[AtomicU64]> = keys.iter().map(|_| AtomicU64::new(0)).collect();
    let queue: WorkQueue<K, C::Clock> = setting.queue();
    let hand_outs = Stopwatch::default();
    let done = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let workers = (0..WORKERS).map(|_| {
        let (inner, keys, added, done, mut hand_outs) =
            (queue.clone(), Arc::clone(&keys), Arc::clone(&added), Arc::clone(&done), hand_outs.clone());
        crew.worker(&queue, move |item| {
            let number = item.key().number();
            if number % (fan + 1) > 0 {
                hand_outs.note(start.elapsed() - Duration::from_nanos(added[number].load(Ordering::Relaxed)));
            } else {
                for key in number + 1..=number + fan {
                    added[key].store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    inner.add(keys[key].clone());
                }
                let end = Instant::now() + COMPUTES;
                while Instant::now() < end {}
            }
            done.fetch_add(1, Ordering::Relaxed);
        })
    });
    let workers = workers.collect();
    let sample = measure(|| {
        for round in 0..rounds {
            queue.add(keys[round * (fan + 1)].clone());
            while done.load(Ordering::Relaxed) < (round + 1) * (fan + 1) {
                thread::sleep(PAUSE);
            }
        }
        let _ = queue.shut_down(ShutdownMode::FinishBacklog);
        let gets = crew.join_all(workers);
        Tally { operations: gets, adds: gets, gets }
    });
    sample
        .with("us, p50 of hand-out while one worker computes", hand_outs.quantile_us(0.5))
        .with("us, p99 of hand-out while one worker computes", hand_outs.quantile_us(0.99))
}
