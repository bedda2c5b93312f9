//! The works of the area `election`, on a server that all sides share: 15 s, 10 s and 2 s, as the core components have it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle::leaderelect::LeaderElectorsConfig;
use pintle::prelude::*;
use pintle_kubeconfig::{Environment, Overrides};
use pintle_metrics::Memory;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::Sample;
use crate::meter::{Tally, measure, sockets};

/// The variant in which a work is done.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How the server is reached.
    pub client: ClientConfig,
    /// Less of it, to see that all works.
    pub quick: bool,
}

impl Setting {
    /// With the server of this kubeconfig.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn new(kubeconfig: &Path, quick: bool) -> Self {
        let client = pintle_kubeconfig::infer(Some(kubeconfig.into()), &Overrides::default(), &Environment::default());
        Self { client: client.expect("a kubeconfig"), quick }
    }

    fn of<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Does a work once.
pub type Work = fn(&Setting) -> Sample;

/// All works, by the names that the command line has for them.
pub const WORKS: &[(&str, Work)] = &[("release", release), ("crash", crash), ("standbys", standbys), ("many", many)];

/// Of three contenders the leader stops, again and again: from its stop to the next one's start.
fn release(how: &Setting) -> Sample {
    let times = vacancies(how, "release", how.of(30, 3), |leader| leader.stop.cancel());
    let Vacancies { sample, mut seconds } = times;
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| seconds[((seconds.len() as f64 * share).ceil() as usize).clamp(1, seconds.len()) - 1] * 1e3;
    sample.with("ms, p50 of the hand-over", at(0.5)).with("ms, p99 of the hand-over", at(0.99))
}

/// Of three contenders the leader dies, again and again: from its death to the next one's start.
fn crash(how: &Setting) -> Sample {
    let Vacancies { sample, seconds } = vacancies(how, "crash", how.of(8, 1), |leader| leader.run.abort());
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    sample
        .with("s, mean until the next leads", seconds.iter().sum::<f64>() / seconds.len() as f64)
        .with("s, longest", longest)
}

struct Vacancies {
    sample: Sample,
    seconds: Vec<f64>,
}

/// How long nobody leads when `end` ends the leader, so many times, with two standbys.
fn vacancies(how: &Setting, lease: &str, times: u64, end: impl Fn(&Contender)) -> Vacancies {
    let runtime = runtime();
    let mut seconds = Vec::new();
    let sample = measure(|| {
        runtime.block_on(async {
            let (started, mut starts) = mpsc::unbounded_channel();
            let start = |number: u64| Contender::start(how, lease, number, &started);
            let mut contenders: Vec<_> = (0..3).map(start).collect();
            let mut leader = next(&mut starts).await.0;
            for round in 0..times {
                // Not always at the same place between two renewals.
                sleep(Duration::from_millis(3_000 + round * 337 % 2_000)).await;
                let index = contenders.iter().position(|contender| contender.number == leader).expect("a leader");
                let ended = Instant::now();
                end(&contenders[index]);
                let (next, at) = next(&mut starts).await;
                seconds.push(at.duration_since(ended).as_secs_f64());
                leader = next;
                contenders[index] = start(3 + round);
            }
        });
        Tally::operations(times as usize)
    });
    Vacancies { sample, seconds }
}

/// A hundred wait while another one leads: how much they ask.
fn standbys(how: &Setting) -> Sample {
    let runtime = runtime();
    let span = Duration::from_secs(how.of(60, 5));
    let (contenders, leader) = runtime.block_on(async {
        let (started, mut starts) = mpsc::unbounded_channel();
        let contenders: Vec<_> = (0..101).map(|number| Contender::start(how, "standbys", number, &started)).collect();
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
    let span = Duration::from_secs(how.of(60, 5));
    let memory = Memory::new();
    let (tasks, open) = (Handle::metrics(runtime.handle()).num_alive_tasks(), sockets());
    let stop = CancellationToken::new();
    let (started, mut starts) = mpsc::unbounded_channel();
    let electors = {
        let _inside = runtime.enter();
        let labels = [("bench".to_owned(), "many".to_owned())].into();
        let config = LeaderElectorsConfig { labels, election: election("many"), ..LeaderElectorsConfig::default() };
        cluster(how, &memory).electors("default", config).expect("a valid configuration")
    };
    let stopped = stop.clone();
    // The work of all is in one task, as it would be without an election.
    let run = runtime.spawn(async move {
        let mut electors: Vec<_> = (0..LEASES).map(|index| electors.elector(&format!("many-{index}"))).collect();
        let runs = electors.iter_mut().map(|elector| {
            let started = started.clone();
            let work = move |leadership: Leadership| {
                let _ = started.send((0, Instant::now()));
                async move { leadership.cancelled().await }
            };
            elector.run(&stopped, LeaderCallbacks::new(work))
        });
        futures_util::future::join_all(runs).await;
    });
    runtime.block_on(async {
        for _ in 0..LEASES {
            next(&mut starts).await;
        }
        sleep(Duration::from_secs(3)).await;
    });
    let before = requests(&memory);
    let sample = measure(|| {
        runtime.block_on(async { sleep(span).await });
        Tally::operations(LEASES)
    });
    let renewals = LEASES as f64 * span.as_secs_f64() / 2.0;
    let asked = requests(&memory) - before;
    let cpu = sample.cpu_ns / 1e3 / renewals;
    let sample = sample.with("requests a renewal", asked / renewals).with("CPU us a renewal", cpu);
    let more_tasks = Handle::metrics(runtime.handle()).num_alive_tasks() - tasks - 1;
    let sample = sample.with("tasks", more_tasks as f64).with("connections", sockets() - open);
    stop.cancel();
    runtime.block_on(run).expect("no panic");
    sample
}

struct Contender {
    number: u64,
    stop: CancellationToken,
    run: JoinHandle<()>,
    memory: Memory,
}

impl Contender {
    fn start(how: &Setting, lease: &str, number: u64, started: &mpsc::UnboundedSender<(u64, Instant)>) -> Self {
        let (stop, memory, started) = (CancellationToken::new(), Memory::new(), started.clone());
        let elector =
            cluster(how, &memory).elector(format!("default/{lease}").as_str(), election(&format!("{lease}-{number}")));
        let mut elector = elector.expect("a valid configuration");
        let stopped = stop.clone();
        let run = tokio::spawn(async move {
            let work = LeaderCallbacks::new(move |leadership: Leadership| {
                let _ = started.send((number, Instant::now()));
                async move { leadership.cancelled().await }
            });
            elector.run(&stopped, work).await;
        });
        Self { number, stop, run, memory }
    }

    fn requests(&self) -> f64 {
        requests(&self.memory)
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}

/// Each has a client of its own, as a process has.
fn cluster(how: &Setting, memory: &Memory) -> Cluster {
    let (client, metrics) = (Some(how.client.clone()), Some(Arc::new(memory.clone()) as Arc<dyn Provider>));
    Cluster::connect(ClusterConfig { client, metrics }).expect("a usable configuration")
}

/// Nobody records Events, on either side.
fn election(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        identity: identity.into(),
        events: Some(Arc::new(|_| {})),
        ..LeaderElectionConfig::default()
    }
}

fn requests(memory: &Memory) -> f64 {
    memory.value("rest_client_requests_total", &[]).unwrap_or_default()
}

async fn next(starts: &mut mpsc::UnboundedReceiver<(u64, Instant)>) -> (u64, Instant) {
    let next = tokio::time::timeout(Duration::from_secs(60), starts.recv()).await;
    next.expect("a leader within a minute").expect("contenders")
}
