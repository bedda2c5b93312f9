//! Simulates many clusters in parallel. The sharding tests also use this module.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, iter, thread};

/// Simulates many clusters with different seeds, in parallel on all processors. Returns the results of all simulations
/// and the first seed, which is random unless `PINTLE_SEED` is set.
pub(crate) fn many<T: Send>(worlds: u64, world: impl Fn(u64) -> T + Sync) -> (u64, Vec<T>) {
    let first = env::var("PINTLE_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("PINTLE_SEED"));
    let next = AtomicU64::new(0);
    let some = || {
        let indices = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed)).take_while(|index| *index < worlds);
        indices.map(|index| world(first.wrapping_add(index))).collect::<Vec<_>>()
    };
    let outcomes = thread::scope(|scope| {
        let crews = (0..thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(some));
        let crews: Vec<_> = crews.collect();
        crews.into_iter().flat_map(|crew| crew.join().unwrap_or_else(|broken| resume_unwind(broken))).collect()
    });
    (first, outcomes)
}
