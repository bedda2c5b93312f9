//! Simulates replicas that share objects, and prints the cost of each phase of the simulation. By default, ten
//! replicas share 2,000 objects. `docs/bench/scale.md` contains the results for a large fleet, which this command
//! produces:
//!
//! ```text
//! cargo run --release -p pintle-sharding --example fleet -- \
//!     --replicas 100 --objects 1000000 --shards 400 --changes 1000 --seconds 20
//! ```
//!
//! All replicas run in one thread on tokio's paused clock. The leases are in memory, and the objects are on a
//! simulated server. The simulation uses the same shards, electors, informers and work queues as an operator. On this
//! clock, requests and the decoding of lists take no time.
#![allow(clippy::print_stdout, reason = "a command-line program")]

mod source;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pintle_informer::{InformerConfig, SharedInformer};
use pintle_leaderelect::{Clocks, LeaderElectionConfig, Leadership, Lease, LeaseGroupConfig, Now};
use pintle_meta::ObjectKey;
use pintle_sharding::{Shard, Sharded, Shards, ShardsConfig};
use pintle_testing::{Collection, SteppedClock};
use pintle_workqueue::{QueueConfig, WorkQueue};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::source::{Objects, Source};

#[derive(Clone, Debug)]
struct Setting {
    replicas: usize,
    objects: usize,
    shards: u32,
    /// The number of changes per second, which must be a multiple of 100.
    changes: usize,
    /// The duration of the idle phase, and of the phase with changes, in seconds.
    seconds: u64,
}

impl Setting {
    fn read() -> Option<Self> {
        let mut this = Self { replicas: 10, objects: 2_000, shards: 40, changes: 100, seconds: 2 };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let value = args.next()?;
            match arg.as_str() {
                "--replicas" => this.replicas = value.parse().ok()?,
                "--objects" => this.objects = value.parse().ok()?,
                "--shards" => this.shards = value.parse().ok()?,
                "--changes" => this.changes = value.parse().ok()?,
                "--seconds" => this.seconds = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(this)
    }
}

struct Fleet {
    leases: Collection<Lease>,
    objects: Arc<Objects>,
    work: Arc<Work>,
}

/// Clocks that follow tokio's paused clock.
#[derive(Debug)]
struct PausedClocks(SteppedClock);

impl Clocks for PausedClocks {
    fn now(&self) -> Now {
        let elapsed = self.0.elapsed();
        Now { boot: elapsed, monotonic: elapsed, wall: self.0.wall() }
    }
}

/// The work that all replicas have done so far.
#[derive(Default)]
struct Work {
    /// The number of objects that each replica works on.
    owned: Mutex<Vec<usize>>,
    reconciled: AtomicUsize,
    /// Cancelled after the elections, to begin the leaders' work. With an earlier begin, replicas would join while
    /// others list objects in the same thread, and each shard would move several times.
    begun: CancellationToken,
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> ExitCode {
    let Some(setting) = Setting::read() else {
        println!("usage: fleet [--replicas N] [--objects N] [--shards N] [--changes N] [--seconds N]");
        return ExitCode::from(2);
    };
    Fleet::new(&setting).live(&setting).await;
    ExitCode::SUCCESS
}

fn print(what: &str, value: f64) {
    println!("{what}: {value:.3}");
}

fn process_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Fleet {
    fn new(setting: &Setting) -> Self {
        Self {
            leases: Collection::default(),
            objects: Arc::new(Objects::new(setting.objects, setting.shards)),
            work: Arc::default(),
        }
    }

    async fn live(&self, setting: &Setting) {
        let cpu = process_cpu();
        let replicas = setting.replicas;
        let mut fleet: Vec<_> = (0..replicas).map(|index| self.start(setting, index)).collect();
        sleep(Duration::from_secs(10)).await;
        print("CPU s until each shard has a leader", process_cpu() - cpu);
        let cpu = process_cpu();
        self.work.begun.cancel();
        let all = self.until_reconciled(setting.objects).await;
        print("s until each object is reconciled", all);
        print("CPU s until each object is reconciled", process_cpu() - cpu);

        self.idle(setting).await;
        self.change(setting).await;

        let before = self.work.owned();
        fleet.push(self.start(setting, replicas));
        sleep(Duration::from_secs(60)).await;
        let after = self.work.owned();
        print("objects that a further replica takes", after[replicas] as f64);
        let moved = (0..replicas).map(|index| after[index].saturating_sub(before[index])).sum::<usize>();
        print("objects that move between the other replicas", moved as f64);

        let lost = self.work.owned()[0];
        fleet.remove(0).abort();
        let reconciled = self.work.reconciled.load(Ordering::Relaxed);
        let recovered = self.until_reconciled(reconciled + lost).await;
        print("s until the objects of a dead replica are reconciled", recovered);
        let owned: usize = self.work.owned().iter().sum();
        assert_eq!(owned, setting.objects, "each object belongs to one replica");
    }

    /// Measures the fleet while no objects change.
    async fn idle(&self, setting: &Setting) {
        sleep(Duration::from_secs(30)).await;
        let owned = self.work.owned();
        print("objects of the smallest replica", owned.iter().copied().min().unwrap_or(0) as f64);
        print("objects of the largest replica", owned.iter().copied().max().unwrap_or(0) as f64);
        self.leases.take_requests();
        let cpu = process_cpu();
        sleep(Duration::from_secs(setting.seconds)).await;
        let seconds = setting.seconds as f64;
        print("lease requests per second", self.leases.take_requests().len() as f64 / seconds);
        print("CPU ms per second without changes", (process_cpu() - cpu) * 1e3 / seconds);
    }

    async fn change(&self, setting: &Setting) {
        let cpu = process_cpu();
        let mut random = fastrand::Rng::with_seed(11);
        let before = self.work.reconciled.load(Ordering::Relaxed);
        for _ in 0..setting.seconds * 100 {
            (0..setting.changes / 100).for_each(|_| self.objects.change(random.usize(..setting.objects)));
            sleep(Duration::from_millis(10)).await;
        }
        sleep(Duration::from_secs(1)).await;
        let changes = (setting.seconds as usize * 100 * (setting.changes / 100)) as f64;
        let reconciled = (self.work.reconciled.load(Ordering::Relaxed) - before) as f64;
        let seconds = setting.seconds as f64;
        print("changes per second", changes / seconds);
        print("reconciliations per change", reconciled / changes);
        print("CPU ms per second with changes", (process_cpu() - cpu) * 1e3 / seconds);
    }

    /// Waits for `count` reconciliations, and returns the elapsed simulated seconds.
    async fn until_reconciled(&self, count: usize) -> f64 {
        let start = Instant::now();
        while self.work.reconciled.load(Ordering::Relaxed) < count {
            sleep(Duration::from_millis(10)).await;
            let waited = start.elapsed();
            assert!(waited < Duration::from_secs(600), "after 600 s, {:?} of {count} are done", self.work.reconciled);
        }
        start.elapsed().as_secs_f64()
    }

    fn start(&self, setting: &Setting, index: usize) -> JoinHandle<()> {
        self.work.owned.lock().expect("no task panicked").push(0);
        let name = format!("replica-{index}");
        let clocks = Arc::new(PausedClocks(SteppedClock::beside_tokio()));
        let election =
            LeaderElectionConfig { identity: name.clone(), seed: Some(index as u64), clocks, ..Default::default() };
        let config =
            ShardsConfig { shards: setting.shards, electors: LeaseGroupConfig { election, ..Default::default() } };
        let shards = Shards::start(self.leases.client(&name), "default", "bench", config);
        let mut shards = shards.expect("a valid configuration");
        let (objects, work) = (self.objects.clone(), self.work.clone());
        tokio::spawn(async move {
            let lead = async |shard: Shard, leadership: Leadership| {
                let _owns = Owns::new(&work, index, objects.count(shard));
                tokio::select! {
                    () = leadership.cancelled() => {}
                    () = reconcile(Source { objects: objects.clone(), shard }, &work) => {}
                }
            };
            shards.run(&CancellationToken::new(), lead).await;
        })
    }
}

impl Work {
    fn owned(&self) -> Vec<usize> {
        self.owned.lock().expect("no task panicked").clone()
    }
}

/// Counts the objects of a shard as long as a replica works on it.
struct Owns<'a> {
    work: &'a Work,
    replica: usize,
    objects: usize,
}

impl<'a> Owns<'a> {
    fn new(work: &'a Work, replica: usize, objects: usize) -> Self {
        work.owned.lock().expect("no task panicked")[replica] += objects;
        Self { work, replica, objects }
    }
}

impl Drop for Owns<'_> {
    fn drop(&mut self) {
        self.work.owned.lock().expect("no task panicked")[self.replica] -= self.objects;
    }
}

/// Reconciles the objects of a shard until this future is dropped.
async fn reconcile(source: Source, work: &Work) {
    work.begun.cancelled().await;
    let shard = source.shard;
    let informer = SharedInformer::new(Sharded { source, shard }, InformerConfig::default());
    let mut events = informer.subscribe();
    // tokio does not advance its paused clock while a blocking task is running. Without this blocking task, the
    // informer's timeouts would expire while other threads decode the list.
    let (is_listed, listed) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || listed.recv());
    informer.start();
    // Ignore the result: the list fails only if the replica loses the shard.
    let _ = informer.wait_for_sync().await;
    drop(is_listed);
    let queue = WorkQueue::<ObjectKey>::new(QueueConfig::default());
    let fill = async {
        while let Some(event) = events.next().await {
            queue.add(event.key());
        }
    };
    let drain = async {
        while let Some(item) = queue.get().await {
            if informer.lister().get(item.key()).is_some() {
                work.reconciled.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    tokio::join!(fill, drain);
}
