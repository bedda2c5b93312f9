//! The works of the area `election`, on a server that all sides share: 15 s, 10 s and 2 s, as the core components have it.

mod contender;
mod shards;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pintle::leaderelect::LeaseGroupConfig;
use pintle::prelude::*;
use pintle_kubeconfig::{Environment, Overrides};
use pintle_metrics::InMemoryProvider;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::Sample;
use crate::meter::{Tally, measure, sockets};
use contender::{Contender, next};

/// The variant in which a work is done.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How the server is reached.
    pub client: ClientConfig,
    /// Less of it, to see that all works.
    pub quick: bool,
    /// Nobody watches.
    pub polling: bool,
}

impl Setting {
    /// With the server of this kubeconfig.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn new(kubeconfig: &Path, quick: bool, polling: bool) -> Self {
        let client = pintle_kubeconfig::infer(Some(kubeconfig.into()), &Overrides::default(), &Environment::default());
        Self { client: client.expect("a kubeconfig"), quick, polling }
    }

    fn of<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Does a work once.
pub type Work = fn(&Setting) -> Sample;

/// All works, by the names that the command line has for them.
pub const WORKS: &[(&str, Work)] =
    &[("release", release), ("crash", crash), ("standbys", standbys), ("many", many), ("shards", shards::shards)];

/// Of three contenders the leader stops, again and again: from its stop to the next one's start.
fn release(how: &Setting) -> Sample {
    let (sample, seconds) = vacancies(how, "release", how.of(10, 2), how.of(10, 2), |leader| leader.stop.cancel());
    sample
        .with("ms, p50 of the hand-over", at(&seconds, 0.5) * 1e3)
        .with("ms, p99 of the hand-over", at(&seconds, 0.99) * 1e3)
}

/// Of three contenders the leader dies, again and again: from its death to the next one's start.
fn crash(how: &Setting) -> Sample {
    let (sample, seconds) = vacancies(how, "crash", how.of(12, 2), how.of(2, 1), |leader| leader.run.abort());
    sample
        .with("s, mean until the next leads", seconds.iter().sum::<f64>() / seconds.len() as f64)
        .with("s, longest", at(&seconds, 1.0))
}

/// The value below which that share of the sorted values is.
fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// How long nobody leads when `end` ends the leader, in seconds, sorted: of so many leases beside each other, with two standbys each,
/// so many times each.
fn vacancies(
    how: &Setting,
    work: &str,
    leases: u64,
    times: u64,
    end: impl Fn(&Contender) + Copy,
) -> (Sample, Vec<f64>) {
    let runtime = runtime();
    let mut seconds = Vec::new();
    let sample = measure(|| {
        let of_lease = async |index: u64| {
            let lease = own_name(&format!("{work}-{index}"));
            let (started, mut starts) = mpsc::unbounded_channel();
            let start = |number: u64| Contender::start(how, &lease, number, &started);
            let mut contenders: Vec<_> = (0..3).map(start).collect();
            let mut leader = next(&mut starts).await.0;
            let mut seconds = Vec::new();
            for round in 0..times {
                // Not always at the same place between two renewals, nor beside the others.
                sleep(Duration::from_millis(3_000 + (round * 337 + index * 189) % 2_000)).await;
                let index = contenders.iter().position(|contender| contender.number == leader).expect("a leader");
                let ended = Instant::now();
                end(&contenders[index]);
                let (next, at) = next(&mut starts).await;
                seconds.push(at.duration_since(ended).as_secs_f64());
                leader = next;
                contenders[index] = start(3 + round);
            }
            seconds
        };
        seconds = runtime.block_on(join_all((0..leases).map(of_lease))).concat();
        Tally::operations(seconds.len())
    });
    seconds.sort_by(f64::total_cmp);
    (sample, seconds)
}

/// A hundred wait while another one leads: how much they ask.
fn standbys(how: &Setting) -> Sample {
    let runtime = runtime();
    let span = Duration::from_secs(how.of(30, 5));
    let lease = own_name("standbys");
    let (contenders, leader) = runtime.block_on(async {
        let (started, mut starts) = mpsc::unbounded_channel();
        let contenders: Vec<_> = (0..101).map(|number| Contender::start(how, &lease, number, &started)).collect();
        let leader = next(&mut starts).await.0;
        sleep(Duration::from_secs(5)).await;
        (contenders, leader)
    });
    let asked =
        || -> f64 { contenders.iter().filter(|contender| contender.number != leader).map(Contender::requests).sum() };
    let before = asked();
    let sample = measure(|| {
        runtime.block_on(async { sleep(span).await });
        Tally::operations(100)
    });
    sample.with("requests a second", (asked() - before) / span.as_secs_f64())
}

/// One process leads by a hundred leases: what it takes for as long as that goes on.
fn many(how: &Setting) -> Sample {
    const LEASES: usize = 100;
    let runtime = runtime();
    let span = Duration::from_secs(how.of(20, 5));
    let (memory, lease) = (InMemoryProvider::new(), own_name("many"));
    let sockets_before = sockets();
    let stop = CancellationToken::new();
    let (started, mut starts) = mpsc::unbounded_channel();
    let (electors, tasks) = runtime.block_on(async {
        let labels = [("bench".to_owned(), lease.clone())].into();
        let config = LeaseGroupConfig { labels, election: election(&lease), ..LeaseGroupConfig::default() };
        let tasks = Handle::current().metrics().num_alive_tasks();
        (cluster(how, &memory).electors("default", config).expect("a valid configuration"), tasks)
    });
    let stopped = stop.clone();
    // The work of all is in one task, as it would be without an election.
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
    let asked = contender::requests(&memory) - before;
    let cpu = sample.cpu_ns / 1e3 / renewals;
    let sample = sample.with("requests a renewal", asked / renewals).with("CPU us a renewal", cpu);
    let connections = sockets() - sockets_before;
    // Each request under way has one, so what is there at all times is what there is at the quietest.
    let quietest = runtime.block_on(async {
        let mut counts = Vec::new();
        for _ in 0..100 {
            sleep(Duration::from_millis(7)).await;
            counts.push(Handle::current().metrics().num_alive_tasks() - tasks - 1);
        }
        counts.into_iter().min().unwrap_or_default()
    });
    let sample = sample
        .with("tasks beside those of connections", quietest as f64 - connections * TASKS_OF_CONNECTION)
        .with("connections", connections);
    stop.cancel();
    runtime.block_on(run).expect("no panic");
    sample
}

/// One that drives HTTP/2, and one that answers to whoever sends.
const TASKS_OF_CONNECTION: f64 = 2.0;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}

/// A name that no other process has: what one leaves behind is no other's affair.
fn own_name(of: &str) -> String {
    format!("{of}-ours-{}", std::process::id())
}

/// Each has a client of its own, as a process has.
fn cluster(how: &Setting, memory: &InMemoryProvider) -> Cluster {
    let (client, metrics) = (Some(how.client.clone()), Some(Arc::new(memory.clone()) as Arc<dyn Provider>));
    Cluster::connect(ClusterConfig { client, metrics, ..ClusterConfig::default() }).expect("a usable configuration")
}

/// Nobody records Events, on either side.
fn election(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        identity: identity.into(),
        events: Some(Arc::new(|_| {})),
        ..LeaderElectionConfig::default()
    }
}
