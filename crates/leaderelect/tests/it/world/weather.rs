//! Common combinations of faults, and a function that simulates many clusters in parallel.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, iter, thread};

use super::{Chaos, Locks, Share, Tally, in_world};

/// No faults.
pub(crate) const QUIET: Chaos = Chaos {
    nodes: 3,
    rate_error: 0.0,
    loss: 0.0,
    slow: 0.0,
    refused: 0.0,
    resent: 0.0,
    partitions: false,
    pauses: false,
    suspends: false,
    crashes: false,
    stops: false,
    wall_jumps: false,
    watches: false,
    locks: Locks::One,
    client_go: Share::None,
    client_go_stops: false,
    client_go_is_old: false,
    tampering: false,
    deletions: false,
    touches: false,
    coordinated: false,
};

/// The usual faults. The rates of two clocks differ by a factor of at most `(1 + 0.19) / (1 - 0.19)`. This factor is
/// just below 15 s / 10 s, which is the limit for the default durations.
pub(crate) const STORM: Chaos = Chaos {
    nodes: 4,
    rate_error: 0.19,
    loss: 0.1,
    slow: 0.1,
    refused: 0.05,
    resent: 0.05,
    partitions: true,
    pauses: true,
    suspends: false,
    crashes: true,
    stops: true,
    wall_jumps: true,
    watches: false,
    locks: Locks::One,
    client_go: Share::None,
    client_go_stops: false,
    client_go_is_old: false,
    tampering: false,
    deletions: false,
    touches: true,
    coordinated: false,
};

/// A simulated cluster with suspended machines and paused virtual machines. No fault sets a wall clock.
pub(crate) const NIGHT: Chaos = Chaos { suspends: true, wall_jumps: false, ..STORM };

/// In these simulations, the control plane chooses the leader. The control plane compares the times of renewals, so
/// each wall clock may be wrong by at most two seconds.
pub(crate) const RULED: Chaos =
    Chaos { rate_error: 0.005, wall_jumps: false, touches: false, coordinated: true, ..STORM };

/// This combination contains only faults for which client-go's elector is safe. The work of client-go's elector ends up
/// to `retry_period + renew_deadline` after a response.
pub(crate) const BREEZE: Chaos =
    Chaos { rate_error: 0.05, slow: 0.0, pauses: false, wall_jumps: false, client_go: Share::Half, ..STORM };

/// Runs a simulated cluster for two minutes with faults. After the faults have ended, the cluster runs until the last
/// lease has expired on the slowest clock.
pub(crate) fn survive(chaos: Chaos, seed: u64) -> Tally {
    in_world(chaos, seed, async |world| {
        world.run(120).await;
        world.calm_down();
        world.run(75).await;
        assert_eq!(world.leaders(), 1, "L1: the number of leaders after the faults is not one (seed {seed})");
        world.tally()
    })
}

/// Simulates many clusters in parallel on all processors, each with its own seed. Returns the results of all
/// simulations, and the first seed. The first seed is random unless `PINTLE_SEED` sets it.
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
