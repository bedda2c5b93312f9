//! Measures a queue to which a small set of keys is added many times.

use std::sync::Arc;

use fastrand::Rng;
use pintle_workqueue::{ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::Crew;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};

/// Eight producers each add 1 M keys, chosen at random from 100 k keys, while eight workers process the keys. The
/// measurement ends when all keys are done.
pub(super) fn hot<K: Key, C: Crew>(crew: &C, setting: Setting) -> Sample {
    let keys: Arc<[K]> = keys(setting.size(100_000)).into();
    let queue: WorkQueue<K, C::Clock> = setting.queue();
    let sample = measure(|| {
        let workers = (0..8).map(|_| crew.taker(&queue, setting)).collect();
        let producer = |seed| {
            let (queue, keys, mut random) = (queue.clone(), Arc::clone(&keys), Rng::with_seed(seed));
            crew.producer(setting.size(1_000_000), None, move |_| queue.add(keys[random.usize(..keys.len())].clone()))
        };
        let adds = crew.join_all((0..8).map(producer).collect());
        let _ = queue.shut_down(ShutdownMode::FinishBacklog);
        Tally::calls(adds, crew.join_all(workers))
    });
    let adds_per_second = sample.adds * 1e9 / sample.wall_ns;
    sample.with("adds/s", adds_per_second)
}
