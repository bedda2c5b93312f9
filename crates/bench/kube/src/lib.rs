//! The `cache` benchmark with kube-rs. `src/cache.rs` of pintle-bench documents the workloads.
//!
//! A workload with one handler uses a reflector and its store. A workload with several handlers uses kube-rs's shared
//! store.

pub mod controller;
#[path = "../../src/rest/crates.rs"]
mod crates;
#[allow(dead_code, reason = "the other side uses more of it")]
#[path = "../../src/feed.rs"]
mod feed;
#[allow(dead_code, reason = "as above")]
#[path = "../../src/meter.rs"]
mod meter;
#[path = "../../src/controller/progress.rs"]
mod progress;
pub mod rest;
#[allow(dead_code, reason = "as above")]
#[path = "../../src/stopwatch.rs"]
mod stopwatch;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Client, Config, ResourceExt as _};
use tokio::runtime::Runtime;

use feed::Feed;
use meter::{Sample, Tally, live, measure, peak, resident};

/// Runs the workload named on the command line.
pub fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (work, server, quick) = match args[..] {
        [work, "--server", server] => (work, server, false),
        [work, "--server", server, "--quick"] | [work, "--quick", "--server", server] => (work, server, true),
        _ => panic!("usage: cache WORK --server URL [--quick]"),
    };
    let runtime = Runtime::new().expect("cannot create a runtime");
    let setting = Setting { feed: Feed { server: server.to_owned() }, quick };
    let sample = match work {
        "sync" => setting.sync(&runtime, false, watcher::Config::default()),
        "sync-streaming" => setting.sync(&runtime, false, watcher::Config::default().streaming_lists()),
        "sync-stripped" => setting.sync(&runtime, true, watcher::Config::default()),
        "relist" => setting.relist(&runtime),
        "events" => setting.events(&runtime, false),
        "events-stripped" => setting.events(&runtime, true),
        "events-8" => setting.events_to(&runtime, 8),
        "events-64" => setting.events_to(&runtime, 64),
        "held" => setting.held(&runtime),
        _ => panic!("unknown workload {work:?}"),
    };
    println!("{}", serde_json::to_string(&sample).expect("a sample is JSON"));
}

struct Setting {
    feed: Feed,
    quick: bool,
}

/// The numbers of updates and lists, which the task that polls the reflector increments.
#[derive(Default)]
struct Counts {
    updates: AtomicUsize,
    lists: AtomicUsize,
}

impl Counts {
    /// Checks `count` every millisecond, and returns the time at which it has reached `wanted`.
    async fn wait(count: &AtomicUsize, wanted: usize) -> Instant {
        while count.load(Ordering::Acquire) < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Instant::now()
    }
}

impl Setting {
    fn size(&self, full: usize) -> usize {
        if self.quick { full / 50 } else { full }
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(if self.quick { 0 } else { 4 })).await;
    }

    fn api(&self) -> Api<Pod> {
        let mut config = Config::new(self.feed.server.parse().expect("the server has an address"));
        config.read_timeout = None;
        Api::all(Client::try_from(config).expect("cannot create a client"))
    }

    fn sync(&self, runtime: &Runtime, strip: bool, config: watcher::Config) -> Sample {
        let _in_runtime = runtime.enter();
        let (api, pods) = (self.api(), self.feed.stats().pods);
        let mut synced = Duration::ZERO;
        let sample = measure(|| {
            let begin = Instant::now();
            let (store, _) = start(api, strip, config);
            runtime.block_on(store.wait_until_ready()).expect("the reflector runs");
            synced = begin.elapsed();
            assert_eq!(store.len(), pods);
            Tally::operations(pods)
        });
        sample.with("s until synced", synced.as_secs_f64())
    }

    /// Starts a reflector, and waits until its store is complete and no longer changes.
    fn settled(&self, runtime: &Runtime, strip: bool) -> (Store<Pod>, Arc<Counts>) {
        let _in_runtime = runtime.enter();
        let (store, counts) = start(self.api(), strip, watcher::Config::default());
        runtime.block_on(async {
            store.wait_until_ready().await.expect("the reflector runs");
            self.settle().await;
        });
        self.feed.wait_for_watch();
        (store, counts)
    }

    fn events(&self, runtime: &Runtime, strip: bool) -> Sample {
        let (_store, counts) = self.settled(runtime, strip);
        self.round(runtime, 200_000, &[counts])
    }

    /// Subscribes each handler to a shared reflector. A task polls the reflector's stream and drops the items. With a
    /// single handler, the initial round is skipped, because handlers cannot subscribe after the reflector has
    /// started.
    fn events_to(&self, runtime: &Runtime, handlers: usize) -> Sample {
        let in_runtime = runtime.enter();
        let (store, writer) = reflector::store_shared::<Pod>(1024);
        let handlers: Vec<Arc<Counts>> = (0..handlers)
            .map(|_| {
                let counts = Arc::new(Counts::default());
                let (shared, mut pods) = (counts.clone(), writer.subscribe().expect("the store is shared"));
                tokio::spawn(async move {
                    while pods.next().await.is_some() {
                        shared.updates.fetch_add(1, Ordering::AcqRel);
                    }
                });
                counts
            })
            .collect();
        let stream = watch(self.api(), watcher::Config::default()).default_backoff().reflect_shared(writer);
        tokio::spawn(stream.for_each(|_| async {}));
        drop(in_runtime);
        runtime.block_on(async {
            store.wait_until_ready().await.expect("the reflector runs");
            self.settle().await;
        });
        self.feed.wait_for_watch();
        self.round(runtime, 200_000, &handlers)
    }

    fn round(&self, runtime: &Runtime, n: usize, handlers: &[Arc<Counts>]) -> Sample {
        let n = self.size(n);
        let before: Vec<usize> = handlers.iter().map(|counts| counts.updates.load(Ordering::Acquire)).collect();
        let mut took = Duration::ZERO;
        let sample = measure(|| {
            let begin = self.feed.events(0, n);
            runtime.block_on(async {
                for (counts, before) in handlers.iter().zip(before) {
                    took = took.max(Counts::wait(&counts.updates, before + n).await - begin);
                }
            });
            Tally::operations(n)
        });
        sample.with("events/s", n as f64 / took.as_secs_f64()).with("share of the events delivered", 1.0)
    }

    fn relist(&self, runtime: &Runtime) -> Sample {
        let (_store, counts) = self.settled(runtime, false);
        let pods = self.feed.stats().pods;
        let steady = resident();
        let mut took = Duration::ZERO;
        let sample = measure(|| {
            self.feed.expire(pods / 100);
            runtime.block_on(async {
                let done = Counts::wait(&counts.lists, 2).await;
                took = self.feed.since_list() - (Instant::now() - done);
                tokio::time::sleep(Duration::from_secs(1)).await;
            });
            Tally::operations(pods)
        });
        let sample = sample.with("s from list to handler", took.as_secs_f64());
        sample.with("peak over steady, nothing reclaimed", peak() / steady).with("bytes steady, nothing reclaimed", steady)
    }

    fn held(&self, runtime: &Runtime) -> Sample {
        let (resident_before, live_before) = (resident(), live());
        let mut store = None;
        let sample = measure(|| {
            let (held, _) = self.settled(runtime, false);
            Tally::operations(store.insert(held).len())
        });
        sample.with("bytes live", live() - live_before).with("bytes resident, nothing reclaimed", resident() - resident_before)
    }
}

fn start(api: Api<Pod>, strip: bool, config: watcher::Config) -> (Store<Pod>, Arc<Counts>) {
    let (store, writer) = reflector::store();
    let counts = Arc::new(Counts::default());
    let shared = counts.clone();
    tokio::spawn(async move {
        let pods = watch(api, config).default_backoff().modify(move |pod| {
            if strip {
                pod.managed_fields_mut().clear();
                pod.annotations_mut().clear();
            }
        });
        let mut events = std::pin::pin!(reflector::reflector(writer, pods));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(_)) => shared.updates.fetch_add(1, Ordering::AcqRel),
                Ok(Event::InitDone) => shared.lists.fetch_add(1, Ordering::AcqRel),
                // Ignore errors such as 410 Expired, after which the watcher re-lists.
                Ok(_) | Err(_) => 0,
            };
        }
    });
    (store, counts)
}
