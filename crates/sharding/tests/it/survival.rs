//! Tests of shards under all kinds of faults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_leaderelect::Lease;
use pintle_meta::Reason;
use pintle_testing::{Client, Collection, Outcome, Verb};
use tokio::time::Instant;

use crate::clock::{Halt, NodeClock};
use crate::contender::pass;
use crate::ledger::Ledger;
use crate::replicas::{Setup, usual};
use crate::seeds::many;

/// Runs replicas for two minutes with faults, and afterwards without faults. The [`Ledger`] checks its rules in both
/// phases.
async fn survive(seed: u64, numbers: &[u32]) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let watched = numbers.len() > 1 || rng.u8(..4) > 0;
    let reuse_identity = rng.bool();
    let mut born = 0;
    let mut start = |rng: &mut fastrand::Rng| {
        born += 1;
        let rate = 0.81 + 0.38 * rng.f64();
        let drain = Duration::from_millis(rng.u64(..4_000));
        let clocks = Arc::new(NodeClock::new(rate, rng.i64(-3_600..3_600)));
        let shards = rng.choice(numbers).copied().unwrap();
        let setup = Setup { shards, clocks: clocks.clone(), machine: Some(clocks), drain, reuse_identity, ..usual() };
        let replica = setup.start(&server, &ledger, &format!("r-{born}"));
        make_unlucky(&replica.client, watched, rng.u64(..));
        replica
    };
    let mut replicas: Vec<_> = (0..4).map(|_| start(&mut rng)).collect();
    for _ in 0..40 {
        pass(rng.f64() * 6.0).await;
        let index = rng.usize(..replicas.len());
        match rng.u8(..7) {
            0 => replicas[index].client.faults().cut_off(),
            5 => {
                let how = rng.choice([Halt::Stopped, Halt::Suspended, Halt::VmPaused]).unwrap();
                let until = Instant::now() + Duration::from_millis(rng.u64(..30_000));
                replicas[index].machine.as_ref().unwrap().halt(how, until);
            }
            1 | 2 => {
                for replica in &replicas {
                    // End only the partition, while the other faults continue.
                    replica.client.faults().heal();
                    make_unlucky(&replica.client, watched, rng.u64(..));
                }
            }
            3 => {
                replicas[index].run.abort();
                replicas[index] = start(&mut rng);
            }
            6 => replicas[index].again.notify_one(),
            _ => {
                replicas[index].stop.cancel();
                replicas[index] = start(&mut rng);
            }
        }
        ledger.check(seed);
    }
    replicas.iter().for_each(|replica| replica.client.faults().heal());
    // Wait for the longest suspend, a retry pause without a watch, a lease duration on the slowest clock, and the
    // acquisition of free shards.
    pass(30.0 + 87.0 + 19.0 + 13.0 + 10.0).await;
    let shards = ledger.shards();
    let number = shards.first().map(|shard| shard.count() as usize);
    assert_eq!(Some(shards.len()), number, "a shard has no worker (seed {seed})");
    let (starts, owners) = (ledger.starts_so_far(), ledger.owners());
    pass(60.0).await;
    ledger.check(seed);
    assert_eq!((ledger.starts_so_far(), ledger.owners()), (starts, owners), "shards still move (seed {seed})");
}

fn make_unlucky(client: &Client<Lease>, watched: bool, seed: u64) {
    let faults = Mutex::new(fastrand::Rng::with_seed(seed));
    client.faults().when(move |request| {
        if request.verb() == Verb::Watch && !watched {
            return Some(Outcome::refused(403, Reason::Forbidden));
        }
        let mut rng = faults.lock().unwrap();
        let unlucky = request.verb() != Verb::Watch && rng.u8(..10) == 0;
        unlucky.then(|| match rng.u8(..4) {
            0 => Outcome::Lost,
            1 => Outcome::AnswerLost,
            2 => Outcome::AnswerSlow(Duration::from_millis(rng.u64(..3_000))),
            _ => Outcome::refused(503, Reason::ServiceUnavailable),
        })
    });
}

#[test]
fn each_shard_has_one_worker_and_recovers_after_faults() {
    // Simulating a cluster with shards takes as long as simulating a hundred clusters with a single lock.
    let worlds = std::env::var("PINTLE_WORLDS").ok();
    let worlds = worlds.map_or(6, |worlds| worlds.parse::<u64>().expect("PINTLE_WORLDS").div_ceil(40));
    many(worlds, |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(survive(seed, if seed.is_multiple_of(2) { &[6] } else { &[6, 4] }));
    });
}
