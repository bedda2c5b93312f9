//! Measures how long a shard has no owner, and how many shards change their owner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle::leaderelect::LeaseGroupConfig;
use pintle::prelude::*;
use pintle::sharding::{Shard, ShardsConfig};
use pintle_meta::__private::Mutex;
use pintle_metrics::InMemoryProvider;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{Setting, cluster, election, own_name, runtime};
use crate::meter::{Sample, Tally, measure};
use crate::stopwatch::quantile_ms;

const SHARDS: u32 = 8;

/// A period of time in which a replica works on a shard.
struct Stretch {
    fleet: u64,
    shard: u32,
    replica: u64,
    from: Instant,
    to: Option<Instant>,
}

#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<Stretch>>>);

/// Runs several fleets with three replicas and eight shards each. In each fleet, a fourth replica joins, and then the
/// first replica dies.
pub(super) fn shards(setting: &Setting) -> Sample {
    let runtime = runtime();
    let fleets: u64 = setting.of(12, 2);
    let ledger = Ledger::default();
    let [mut added, mut lost, mut end] = [Instant::now(); 3];
    let sample = measure(|| {
        runtime.block_on(async {
            let mut replicas: Vec<Vec<_>> = (0..fleets)
                .map(|fleet| (0..3).map(|replica| start(setting, &ledger, fleet, replica)).collect())
                .collect();
            sleep(Duration::from_secs(8)).await;
            added = Instant::now();
            for (fleet, replicas) in (0..).zip(&mut replicas) {
                replicas.push(start(setting, &ledger, fleet, 3));
                sleep(Duration::from_millis(170)).await;
            }
            sleep(Duration::from_secs(6)).await;
            lost = Instant::now();
            for replicas in &mut replicas {
                replicas.remove(0).abort();
                sleep(Duration::from_millis(170)).await;
            }
            sleep(Duration::from_secs(17)).await;
            end = Instant::now();
        });
        Tally::operations(fleets as usize)
    });
    let all = (fleets * u64::from(SHARDS)) as f64;
    let came = ledger.between(added, lost);
    let went = ledger.between(lost, end);
    // With four replicas, each replica owns a fourth of the shards on average. If a replica joins or dies, about a
    // fourth of the shards must change their owner. All other changes are unnecessary.
    let needless = came.iter().filter(|moved| moved.to != 3).chain(went.iter().filter(|moved| moved.from != 0));
    let p99 = |moved: &[Moved]| {
        let mut periods: Vec<Duration> = moved.iter().map(|moved| moved.nobodys).collect();
        quantile_ms(&mut periods, 0.99)
    };
    sample
        .with("s that a shard is nobody's, p99, a replica lost", p99(&went) / 1e3)
        .with("ms that a shard is nobody's, p99, a replica added", p99(&came))
        .with("% of the keys move, a replica added", came.len() as f64 / all * 100.0)
        .with("shards that move between others", needless.count() as f64)
        .with("shards without an owner at the end", all - ledger.owned() as f64)
}

fn start(setting: &Setting, ledger: &Ledger, fleet: u64, replica: u64) -> JoinHandle<()> {
    let name = own_name(&format!("fleet-{fleet}"));
    // Only the names of the replicas and shards determine the owner of a shard.
    let electors = LeaseGroupConfig { election: election(&format!("{fleet}-{replica}")), ..Default::default() };
    let config = ShardsConfig { shards: SHARDS, electors };
    let shares = cluster(setting, &InMemoryProvider::new()).shards("default", &name, config);
    let mut shares = shares.expect("a valid configuration");
    let ledger = ledger.clone();
    tokio::spawn(async move {
        let work = async |shard: Shard, leadership: Leadership| {
            let _works = ledger.works(fleet, shard.index(), replica);
            leadership.cancelled().await;
        };
        shares.run(&CancellationToken::new(), work).await;
    })
}

struct Moved {
    from: u64,
    to: u64,
    nobodys: Duration,
}

impl Ledger {
    fn works(&self, fleet: u64, shard: u32, replica: u64) -> Works {
        let mut stretches = self.0.lock();
        stretches.push(Stretch { fleet, shard, replica, from: Instant::now(), to: None });
        Works { ledger: self.clone(), index: stretches.len() - 1 }
    }

    /// Returns the shards that have changed their owner between the times `from` and `to`. `stretches` must be sorted
    /// by their start times.
    fn between(&self, from: Instant, to: Instant) -> Vec<Moved> {
        let stretches = self.0.lock();
        let moved = stretches.iter().enumerate().filter(|(_, stretch)| (from..to).contains(&stretch.from));
        let before = |index: usize, new: &Stretch| {
            let of_shard = |old: &&Stretch| old.fleet == new.fleet && old.shard == new.shard;
            stretches[..index].iter().rev().find(of_shard)
        };
        let moved = moved.filter_map(|(index, new)| {
            let old = before(index, new)?;
            let nobodys = new.from.saturating_duration_since(old.to?);
            Some(Moved { from: old.replica, to: new.replica, nobodys })
        });
        moved.collect()
    }

    fn owned(&self) -> usize {
        self.0.lock().iter().filter(|stretch| stretch.to.is_none()).count()
    }
}

struct Works {
    ledger: Ledger,
    index: usize,
}

impl Drop for Works {
    fn drop(&mut self) {
        self.ledger.0.lock()[self.index].to = Some(Instant::now());
    }
}
