//! Workloads of the `election` benchmark. All libraries use the same server. In all workloads, the lease duration is 15
//! s, the renew deadline is 10 s and the retry period is 2 s, as in the Kubernetes control plane.

mod contender;
mod shards;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pintle::leaderelect::LeaseGroupConfig;
use pintle::prelude::*;
use pintle_metrics::InMemoryProvider;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::answer::{self, Setting, runtime};
use crate::meter::{Sample, Tally, measure, sockets};
use crate::stopwatch::quantile_ms;
use contender::{Contender, next};

impl Setting {
    fn of<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

type Work = fn(&Setting) -> Sample;

const WORKS: &[(&str, Work)] =
    &[("release", release), ("crash", crash), ("standbys", standbys), ("many", many), ("shards", shards::shards)];

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    answer::main("election WORK [--polling] --server KUBECONFIG [--quick]", WORKS, |work, setting| {
        setting.server?;
        Some(work(setting))
    })
}

/// Repeatedly stops the leader of three candidates, and measures the time until a new leader starts.
fn release(setting: &Setting) -> Sample {
    let (sample, mut periods) =
        vacancies(setting, "release", setting.of(10, 2), setting.of(10, 2), |leader| leader.stop.cancel());
    sample
        .with("ms, p50 of the hand-over", quantile_ms(&mut periods, 0.5))
        .with("ms, p99 of the hand-over", quantile_ms(&mut periods, 0.99))
}

/// Repeatedly aborts the leader of three candidates, and measures the time until a new leader starts.
fn crash(setting: &Setting) -> Sample {
    let (sample, mut periods) =
        vacancies(setting, "crash", setting.of(12, 2), setting.of(2, 1), |leader| leader.run.abort());
    sample
        .with("s, mean until the next leads", periods.iter().sum::<Duration>().as_secs_f64() / periods.len() as f64)
        .with("s, longest", quantile_ms(&mut periods, 1.0) / 1e3)
}

/// Returns the periods in which a lease had no leader. Each period begins when `end` stops the leader. The function
/// measures `leases` leases concurrently, each with two standbys, and stops the leader of each lease `times` times.
fn vacancies(
    setting: &Setting,
    work: &str,
    leases: u64,
    times: u64,
    end: impl Fn(&Contender) + Copy,
) -> (Sample, Vec<Duration>) {
    let runtime = runtime();
    let mut periods = Vec::new();
    let sample = measure(|| {
        let of_lease = async |index: u64| {
            let lease = own_name(&format!("{work}-{index}"));
            let (started, mut starts) = mpsc::unbounded_channel();
            let start = |number: u64| Contender::start(setting, &lease, number, &started);
            let mut contenders: Vec<_> = (0..3).map(start).collect();
            let mut leader = next(&mut starts).await.0;
            let mut periods = Vec::new();
            for round in 0..times {
                // Vary the pause, so that leaders are stopped at different times after their last renewal. The leaders
                // of different leases are therefore also stopped at different times.
                sleep(Duration::from_millis(3_000 + (round * 337 + index * 189) % 2_000)).await;
                let index = contenders.iter().position(|contender| contender.number == leader).expect("a leader");
                let ended = Instant::now();
                end(&contenders[index]);
                let (next, at) = next(&mut starts).await;
                periods.push(at.duration_since(ended));
                leader = next;
                contenders[index] = start(3 + round);
            }
            periods
        };
        periods = runtime.block_on(join_all((0..leases).map(of_lease))).concat();
        Tally::operations(periods.len())
    });
    (sample, periods)
}

/// Counts the requests of a hundred standbys while another candidate leads.
fn standbys(setting: &Setting) -> Sample {
    let runtime = runtime();
    let span = Duration::from_secs(setting.of(30, 5));
    let lease = own_name("standbys");
    let (contenders, leader) = runtime.block_on(async {
        let (started, mut starts) = mpsc::unbounded_channel();
        let contenders: Vec<_> = (0..101).map(|number| Contender::start(setting, &lease, number, &started)).collect();
        let leader = next(&mut starts).await.0;
        sleep(Duration::from_secs(5)).await;
        (contenders, leader)
    });
    let requests =
        || -> f64 { contenders.iter().filter(|contender| contender.number != leader).map(Contender::requests).sum() };
    let before = requests();
    let sample = measure(|| {
        runtime.block_on(async { sleep(span).await });
        Tally::operations(100)
    });
    sample.with("requests a second", (requests() - before) / span.as_secs_f64())
}

/// Measures a process that holds a hundred leases.
fn many(setting: &Setting) -> Sample {
    const LEASES: usize = 100;
    let runtime = runtime();
    let span = Duration::from_secs(setting.of(20, 5));
    let (memory, lease) = (InMemoryProvider::new(), own_name("many"));
    let sockets_before = sockets();
    let stop = CancellationToken::new();
    let (started, mut starts) = mpsc::unbounded_channel();
    let (electors, tasks) = runtime.block_on(async {
        let labels = [("bench".to_owned(), lease.clone())].into();
        let config = LeaseGroupConfig { labels, election: election(&lease), ..LeaseGroupConfig::default() };
        let tasks = Handle::current().metrics().num_alive_tasks();
        (cluster(setting, &memory).electors("default", config).expect("a valid configuration"), tasks)
    });
    let stopped = stop.clone();
    // Do not count the task of the callbacks, which a program without leader election also needs.
    let run = runtime.spawn(async move {
        let mut electors: Vec<_> = (0..LEASES).map(|index| electors.elector(&format!("{lease}-{index}"))).collect();
        let runs = electors.iter_mut().map(|elector| {
            let started = started.clone();
            let work = move |leadership: Leadership| {
                let _ = started.send((0, Instant::now()));
                async move { leadership.cancelled().await }
            };
            elector.run(&stopped, LeaderCallbacks::new(work))
        });
        join_all(runs).await;
    });
    runtime.block_on(async {
        for _ in 0..LEASES {
            next(&mut starts).await;
        }
        sleep(Duration::from_secs(3)).await;
    });
    let before = contender::requests(&memory);
    let sample = measure(|| {
        runtime.block_on(async { sleep(span).await });
        Tally::operations(LEASES)
    });
    let renewals = LEASES as f64 * span.as_secs_f64() / 2.0;
    let sent = contender::requests(&memory) - before;
    let cpu = sample.cpu_ns / 1e3 / renewals;
    let sample = sample.with("requests a renewal", sent / renewals).with("CPU us a renewal", cpu);
    let connections = sockets() - sockets_before;
    // Each request in flight has its own task, so the minimum is the number of permanent tasks.
    let quietest = runtime.block_on(async {
        let mut counts = Vec::new();
        for _ in 0..100 {
            sleep(Duration::from_millis(7)).await;
            counts.push(Handle::current().metrics().num_alive_tasks() - tasks - 1);
        }
        counts.into_iter().min().unwrap_or_default()
    });
    let sample = sample
        .with("tasks without those of connections", quietest as f64 - connections * TASKS_OF_CONNECTION)
        .with("connections", connections);
    stop.cancel();
    runtime.block_on(run).expect("no task panicked");
    sample
}

/// The number of permanent tasks of a connection: one task drives HTTP/2, and one task drives the requests of all
/// callers.
const TASKS_OF_CONNECTION: f64 = 2.0;

/// Returns a lease name that no other process uses.
fn own_name(of: &str) -> String {
    format!("{of}-ours-{}", std::process::id())
}

fn cluster(setting: &Setting, memory: &InMemoryProvider) -> Cluster {
    let (client, metrics) = (Some(setting.client_config(None)), Some(Arc::new(memory.clone()) as Arc<dyn Provider>));
    Cluster::connect(ClusterConfig { client, metrics, ..ClusterConfig::default() }).expect("a usable configuration")
}

/// Returns the election configuration. As in the client-go workload, Events are disabled.
fn election(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        identity: identity.into(),
        events: Some(Arc::new(|_| {})),
        ..LeaderElectionConfig::default()
    }
}
