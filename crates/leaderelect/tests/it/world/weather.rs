//! Common combinations of faults.

use super::{Chaos, Locks, Share, Tally, in_world};

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

/// The usual faults. The rates of two clocks differ by at most a factor of `(1 + 0.19) / (1 - 0.19)`. The default
/// durations, 15 s / 10 s, allow a slightly larger factor.
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

/// The usual faults, plus suspended machines and paused virtual machines. Wall clocks are not set.
pub(crate) const NIGHT: Chaos = Chaos { suspends: true, wall_jumps: false, ..STORM };

/// The faults of coordinated elections. The control plane compares renew times with its clock, so each wall clock may
/// be off by at most two seconds.
pub(crate) const RULED: Chaos =
    Chaos { rate_error: 0.005, wall_jumps: false, touches: false, coordinated: true, ..STORM };

/// The faults that client-go's elector survives. In client-go, the leader's work may continue for `retry_period +
/// renew_deadline` after a response.
pub(crate) const BREEZE: Chaos =
    Chaos { rate_error: 0.05, slow: 0.0, pauses: false, wall_jumps: false, client_go: Share::Half, ..STORM };

/// Runs a world for two minutes with faults, and then without faults until the last lease has expired on the slowest
/// clock.
pub(crate) fn survive(chaos: Chaos, seed: u64) -> Tally {
    in_world(chaos, seed, async |world| {
        world.run(120).await;
        world.calm_down();
        world.run(75).await;
        assert_eq!(world.leaders(), 1, "L1: the number of leaders after the faults is not one (seed {seed})");
        world.tally()
    })
}
