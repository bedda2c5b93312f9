//! Fleets through all kinds of trouble: the rules hold at every step, and afterwards there is a leader again.

use proptest::prelude::*;

use crate::world::{Chaos, Share, World};

const QUIET: Chaos = Chaos {
    nodes: 3,
    rate_error: 0.0,
    loss: 0.0,
    slow: 0.0,
    refused: 0.0,
    partitions: false,
    pauses: false,
    crashes: false,
    stops: false,
    wall_jumps: false,
    hints: false,
    client_go: Share::None,
    tampering: false,
};

/// `(1 + 0.19) / (1 - 0.19)` is just below 15 s / 10 s, which is what the defaults bear.
const STORM: Chaos = Chaos {
    nodes: 4,
    rate_error: 0.19,
    loss: 0.1,
    slow: 0.1,
    refused: 0.05,
    partitions: true,
    pauses: true,
    crashes: true,
    stops: true,
    wall_jumps: true,
    hints: false,
    client_go: Share::None,
    tampering: false,
};

/// What client-go's own elector bears: its work ends up to `retry_period + renew_deadline` after an answer.
const BREEZE: Chaos =
    Chaos { rate_error: 0.05, slow: 0.0, pauses: false, wall_jumps: false, client_go: Share::Half, ..STORM };

/// Trouble for two minutes; then calm, for long enough that the last one's lease expires on the slowest clock.
fn survive(chaos: Chaos, seed: u64) -> World {
    let mut world = World::new(chaos, seed);
    world.run(120);
    world.calm_down();
    world.run(75);
    assert_eq!(world.leaders(), 1, "L1: nobody leads after the calm");
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 0, failure_persistence: None, ..Default::default() })]

    #[test]
    fn never_two_leaders_within_the_bound_of_the_clocks(seed in any::<u64>()) {
        survive(STORM, seed);
    }

    #[test]
    fn never_two_leaders_with_watches_that_lie_about_the_time(seed in any::<u64>()) {
        survive(Chaos { hints: true, ..STORM }, seed);
    }

    #[test]
    fn never_two_leaders_in_a_fleet_with_client_go(seed in any::<u64>()) {
        survive(Chaos { hints: seed % 2 == 0, ..BREEZE }, seed);
    }

    #[test]
    fn deletions_and_strangers_break_exclusion_and_nothing_else(seed in any::<u64>()) {
        survive(Chaos { hints: seed % 2 == 0, tampering: true, ..STORM }, seed);
    }
}

/// Whether the checker finds two leaders in any of so many worlds.
fn finds_two_leaders(chaos: Chaos, worlds: u64) -> bool {
    (0..worlds).any(|seed| {
        let outcome = std::panic::catch_unwind(|| survive(chaos, seed));
        outcome.is_err_and(|panic| panic.downcast_ref::<String>().is_some_and(|told| told.starts_with("S1:")))
    })
}

#[test]
fn the_checker_finds_two_leaders_when_the_clocks_break_the_bound() {
    assert!(finds_two_leaders(Chaos { rate_error: 0.45, ..STORM }, 2_000));
}

#[test]
fn the_checker_finds_two_leaders_of_client_go_when_answers_are_slow() {
    let slow_answers = Chaos { nodes: 6, slow: 0.3, client_go: Share::All, ..BREEZE };
    assert!(finds_two_leaders(slow_answers, 2_000));
    let same_with_ours = Chaos { client_go: Share::None, ..slow_answers };
    assert!(!finds_two_leaders(same_with_ours, 300));
}

#[test]
fn trouble_leads_to_many_terms_and_calm_to_one() {
    let stormy: usize = (0..20).map(|seed| survive(STORM, seed).terms).sum();
    assert!(stormy > 60, "{stormy} terms in 20 storms");
    for seed in 0..20 {
        assert_eq!(survive(QUIET, seed).terms, 1);
    }
}

#[test]
fn a_leader_writes_and_a_candidate_reads_once_a_retry_period_at_most() {
    let mut world = World::new(QUIET, 7);
    world.run(30);
    let (writes, reads) = (world.writes, world.reads);
    world.run(100);
    let (writes, reads) = (world.writes - writes, world.reads - reads);
    assert!((45..=50).contains(&writes), "{writes} writes of one leader in 100 s");
    assert!((45..=100).contains(&reads), "{reads} reads of two candidates in 100 s");
}

#[test]
fn candidates_with_a_watch_do_not_poll() {
    let mut world = World::new(Chaos { hints: true, ..QUIET }, 7);
    world.run(30);
    let reads = world.reads;
    world.run(100);
    assert_eq!(world.reads - reads, 0);
}

#[test]
fn a_thousand_candidates_do_not_keep_each_other_from_leading() {
    let mut world = World::new(Chaos { nodes: 1_000, ..QUIET }, 7);
    world.run(10);
    assert_eq!((world.leaders(), world.terms), (1, 1));
}
