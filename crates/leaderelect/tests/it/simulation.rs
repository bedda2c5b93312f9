//! Tests of fleets of electors under faults. Each test checks the rules after every step. Exactly one contender must
//! lead after the faults have ended.

use std::env;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::world::seeds::many;
use crate::world::weather::{BREEZE, NIGHT, QUIET, RULED, STORM, survive};
use crate::world::{Chaos, Locks, Share, Tally, in_world};

/// Simulates many clusters on all processors. The environment variable `PINTLE_WORLDS` overrides the number of
/// clusters.
#[allow(clippy::print_stdout, reason = "prints the number of worlds")]
fn survive_many(usual: u64, chaos: impl Fn(u64) -> Chaos + Sync) {
    let worlds = env::var("PINTLE_WORLDS").ok().map_or(usual, |worlds| worlds.parse().expect("PINTLE_WORLDS"));
    let (first, tallies) = many(worlds, |seed| survive(chaos(seed), seed));
    let cuts: usize = tallies.iter().map(|tally| tally.cuts).sum();
    let outlived: usize = tallies.iter().map(|tally| tally.outlived).sum();
    println!("never two leaders in {worlds} worlds from seed {first}, with {cuts} partitions and suspends");
    println!("{outlived} effects slept with their machine, and went on while another one led");
}

#[test]
fn one_leader_within_the_clock_rate_bound() {
    survive_many(20, |_| STORM);
}

#[test]
fn one_leader_on_suspended_machines() {
    survive_many(20, |seed| Chaos { watches: seed % 2 == 0, ..NIGHT });
}

#[test]
fn one_leader_with_delayed_watches() {
    survive_many(20, |_| Chaos { watches: true, ..STORM });
}

#[test]
fn one_leader_in_a_fleet_with_client_go() {
    survive_many(20, |seed| Chaos { watches: seed % 2 == 0, ..BREEZE });
}

#[test]
fn deletions_and_foreign_writes_break_only_exclusion() {
    survive_many(20, |seed| Chaos { watches: seed % 2 == 0, tampering: true, ..STORM });
}

/// A contender that has observed a lock waits for its holder if the lock is deleted. A new contender cannot know about
/// the deleted lock, so this test starts no new contenders.
#[test]
fn one_leader_when_a_known_lock_is_deleted() {
    survive_many(20, |seed| {
        let slept = seed % 3 == 0;
        let deleted = Chaos { deletions: true, crashes: false, stops: false, ..STORM };
        Chaos { watches: seed % 2 == 0, suspends: slept, wall_jumps: !slept, ..deleted }
    });
}

#[test]
fn checker_finds_two_leaders_when_unknown_lock_is_deleted() {
    // A restarted contender finds no lock and creates one, before the leader of the deleted lock has noticed the
    // deletion.
    assert!(finds_two_leaders(2_000, |seed| survive(Chaos { deletions: true, ..STORM }, seed)));
}

#[test]
fn one_leader_during_migration_from_annotation_to_lease() {
    survive_many(20, |seed| {
        let locks = [Locks::PrimaryOrBoth, Locks::Both, Locks::BothOrSecondary][(seed % 3) as usize];
        Chaos { locks, watches: seed % 2 == 0, suspends: seed % 5 == 0, wall_jumps: seed % 5 != 0, ..STORM }
    });
}

#[test]
fn one_leader_during_migration_from_client_go_to_multilock() {
    survive_many(20, |seed| {
        let locks = [Locks::PrimaryOrBoth, Locks::BothOrSecondary][(seed % 2) as usize];
        Chaos { locks, watches: seed % 3 == 0, ..BREEZE }
    });
}

#[test]
fn one_leader_in_coordinated_elections() {
    survive_many(20, |seed| {
        let ruled = Chaos { watches: seed % 2 == 0, suspends: seed % 3 == 0, ..RULED };
        match seed % 5 {
            0 => Chaos { deletions: true, crashes: false, stops: false, ..ruled },
            _ => ruled,
        }
    });
}

#[test]
fn checker_finds_two_leaders_when_control_plane_clock_differs() {
    // The control plane treats a lease as expired if the clock of the lease's holder was set back.
    assert!(finds_two_leaders(2_000, |seed| survive(Chaos { wall_jumps: true, ..RULED }, seed)));
}

fn finds_two_leaders<T>(worlds: u64, world: impl Fn(u64) -> T + RefUnwindSafe) -> bool {
    (0..worlds).any(|seed| {
        let outcome = catch_unwind(|| world(seed));
        outcome.is_err_and(|panic| panic.downcast_ref::<String>().is_some_and(|message| message.starts_with("S1:")))
    })
}

#[test]
fn checker_finds_two_leaders_when_clock_rates_exceed_bound() {
    assert!(finds_two_leaders(2_000, |seed| survive(Chaos { rate_error: 0.45, ..STORM }, seed)));
}

/// Delays responses to the leader, and then cuts the leader off from the server. No other faults occur, and all clocks
/// are correct.
fn cut_off_the_leader(client_go: Share, answers_late: Duration, seed: u64) {
    in_world(Chaos { nodes: 6, client_go, ..QUIET }, seed, async |world| {
        world.run(20).await;
        let leader = world.leader();
        world.change(leader, |node| node.answers_late = answers_late);
        tokio::time::sleep(Duration::from_millis(10_000 + 130 * seed)).await;
        world.change(leader, |node| node.cut_off_for(Duration::from_secs(60)));
        world.run(25).await;
    });
}

/// The longest response delay that client-go tolerates: half of the renew deadline.
const LATE: Duration = Duration::from_millis(4_500);

#[test]
fn checker_finds_two_client_go_leaders_on_slow_responses() {
    // In client-go, the leader measures its deadline from the response, but candidates measure the lease's expiry from
    // the write.
    assert!(finds_two_leaders(50, |seed| cut_off_the_leader(Share::All, LATE, seed)));
    (0..50).for_each(|seed| cut_off_the_leader(Share::All, Duration::ZERO, seed));
    (0..50).for_each(|seed| cut_off_the_leader(Share::None, LATE, seed));
}

#[test]
fn checker_finds_two_client_go_leaders_on_suspended_machines() {
    let asleep = Chaos { suspends: true, client_go: Share::All, ..BREEZE };
    assert!(finds_two_leaders(2_000, |seed| survive(asleep, seed)));
}

#[test]
fn checker_finds_two_client_go_leaders_when_it_releases() {
    // In client-go, the leader's work ends only after the release, and the release overwrites any record.
    let releasing = Chaos { client_go: Share::All, client_go_stops: true, ..BREEZE };
    assert!(finds_two_leaders(2_000, |seed| survive(releasing, seed)));
}

#[test]
fn checker_finds_two_leaders_with_old_client_go_durations() {
    let old = Chaos { client_go_is_old: true, ..BREEZE };
    assert!(finds_two_leaders(2_000, |seed| survive(old, seed)));
}

#[test]
fn client_go_breaks_only_exclusion() {
    survive_many(10, |seed| {
        let old = seed % 3 == 0;
        Chaos { watches: seed % 2 == 0, client_go_stops: true, client_go_is_old: old, tampering: true, ..BREEZE }
    });
}

#[test]
fn faults_cause_many_terms_and_calm_causes_one() {
    let stormy: usize = (0..20).map(|seed| survive(STORM, seed).terms).sum();
    assert!(stormy > 60, "{stormy} terms in 20 storms");
    for seed in 0..20 {
        assert_eq!(survive(QUIET, seed).terms, 1);
    }
}

#[test]
fn same_seed_gives_the_same_world() {
    for seed in 0..3 {
        let tally = || format!("{:?}", survive(Chaos { watches: true, ..STORM }, seed));
        assert_eq!(tally(), tally());
    }
}

/// Returns the [`Tally`] of a hundred seconds of a simulation, after its first thirty seconds.
fn hundred_seconds(chaos: Chaos) -> Tally {
    in_world(chaos, 7, async |world| {
        // End all faults before the measurement, because the electors would otherwise treat a slow watch as broken.
        world.calm_down();
        world.run(30).await;
        let before = world.tally();
        world.run(100).await;
        let after = world.tally();
        Tally { writes: after.writes - before.writes, reads: after.reads - before.reads, ..after }
    })
}

#[test]
fn leader_and_candidate_send_one_request_per_retry_period() {
    let Tally { writes, reads, .. } = hundred_seconds(QUIET);
    assert!((45..=50).contains(&writes), "L4: {writes} writes of one leader in 100 s");
    assert!((45..=100).contains(&reads), "L4: {reads} reads of two candidates in 100 s");
}

#[test]
fn candidates_with_a_watch_do_not_poll() {
    assert_eq!(hundred_seconds(Chaos { watches: true, ..QUIET }).reads, 0, "L4");
}

#[test]
fn release_is_noticed_by_watch_or_next_poll() {
    for (watches, limit) in [(true, 0.25), (false, 4.6)] {
        for seed in 0..20 {
            in_world(Chaos { watches, ..QUIET }, seed, async |world| {
                world.calm_down();
                world.run(20).await;
                world.change(world.leader(), |node| node.stop.cancel());
                // The leader's work takes up to four seconds to finish, and the release then takes a few messages.
                let stopped = tokio::time::Instant::now();
                while world.leaders() == 1 && stopped.elapsed() < Duration::from_secs(5) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert_eq!(world.leaders(), 0);
                let released = tokio::time::Instant::now();
                while world.leaders() == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let gap = released.elapsed().as_secs_f64();
                assert!(gap <= limit, "L2: seed {seed}: no leader for {gap} s");
            });
        }
    }
}

#[test]
fn thousand_candidates_still_elect_a_leader() {
    for watches in [false, true] {
        in_world(Chaos { nodes: 1_000, watches, ..QUIET }, 7, async |world| {
            world.run(10).await;
            assert_eq!((world.leaders(), world.tally().terms), (1, 1), "L3");
        });
    }
}
