//! The `rest` benchmark with kube-rs. `src/rest.rs` of pintle-bench documents the workloads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::crates::crates;
use crate::meter::{Sample, Tally, measure, resident, sockets};
use crate::stopwatch::Stopwatch;

/// Runs the workload named on the command line.
pub fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (work, server, quick) = match args[..] {
        [work] | [work, "--quick"] => (work, "", false),
        [work, "--server", server] => (work, server, false),
        [work, "--server", server, "--quick"] => (work, server, true),
        _ => panic!("usage: rest WORK --server KUBECONFIG [--quick]"),
    };
    let runtime = Runtime::new().expect("cannot create a runtime");
    let _in_runtime = runtime.enter();
    let setting = Setting { runtime: &runtime, server, quick };
    let sample = match work {
        "get-1" => setting.get(1, "plain"),
        "get-16" => setting.get(16, "plain"),
        "get-16-tls" => setting.get(16, "tls"),
        "get-64" => setting.get(64, "plain"),
        "get-64-tls" => setting.get(64, "tls"),
        "watches" => setting.watches(),
        "list" => setting.list(),
        "crates" => crates(&["kube-client"]),
        _ => panic!("unknown workload {work:?}"),
    };
    println!("{}", serde_json::to_string(&sample).expect("a sample is JSON"));
}

struct Setting<'a> {
    runtime: &'a Runtime,
    server: &'a str,
    quick: bool,
}

impl Setting<'_> {
    fn client(&self, context: &str) -> Client {
        let kubeconfig = Kubeconfig::read_from(Path::new(self.server)).expect("cannot read the kubeconfig");
        let options = KubeConfigOptions { context: Some(context.into()), ..KubeConfigOptions::default() };
        let config = self.runtime.block_on(Config::from_custom_kubeconfig(kubeconfig, &options));
        let mut config = config.expect("the kubeconfig has the context");
        config.read_timeout = None;
        Client::try_from(config).expect("cannot create a client")
    }

    fn span(&self, full: Duration) -> Duration {
        if self.quick { full / 4 } else { full }
    }

    fn get(&self, at_once: usize, context: &str) -> Sample {
        let api: Api<ConfigMap> = Api::namespaced(self.client(context), "default");
        let (is_measured, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let completed = Arc::new(AtomicUsize::new(0));
        let times = Stopwatch::default();
        let mut tasks = JoinSet::new();
        for _ in 0..at_once {
            let (is_measured, is_over, completed) = (is_measured.clone(), is_over.clone(), completed.clone());
            let (api, mut times) = (api.clone(), times.clone());
            tasks.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    let map = api.get("small").await.expect("the server answers");
                    assert!(map.data.is_some_and(|data| data["key"] == "value"));
                    if is_measured.load(Ordering::Relaxed) {
                        completed.fetch_add(1, Ordering::Relaxed);
                        times.note(begin.elapsed());
                    }
                }
            });
        }
        self.runtime.block_on(sleep(self.span(Duration::from_secs(1))));
        let sample = measure(|| {
            is_measured.store(true, Ordering::Relaxed);
            self.runtime.block_on(sleep(self.span(Duration::from_secs(3))));
            Tally::operations(completed.load(Ordering::Relaxed))
        });
        is_over.store(true, Ordering::Relaxed);
        self.runtime.block_on(tasks.join_all());
        sample.with("us, p99", times.quantile_us(0.99))
    }

    fn watches(&self) -> Sample {
        const WATCHES: usize = 1_000;
        let api: Api<ConfigMap> = Api::namespaced(self.client("tls"), "default");
        let (bytes, connections) = (resident(), sockets());
        let (opened, events) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..WATCHES {
            let (api, opened, events) = (api.clone(), opened.clone(), events.clone());
            tasks.spawn(async move {
                let watch = api.watch(&WatchParams::default(), "0").await.expect("the server answers");
                let mut watch = std::pin::pin!(watch);
                opened.fetch_add(1, Ordering::Relaxed);
                while let Some(event) = watch.try_next().await.expect("the watch continues") {
                    let WatchEvent::Modified(map) = event else { panic!("{event:?}") };
                    assert!(map.data.is_some_and(|data| data["key"] == "value"));
                    events.fetch_add(1, Ordering::Relaxed);
                }
                panic!("the server ended the watch");
            });
        }
        self.runtime.block_on(async {
            while opened.load(Ordering::Relaxed) < WATCHES {
                sleep(Duration::from_millis(1)).await;
            }
            sleep(Duration::from_secs(2)).await;
        });
        let before = events.load(Ordering::Relaxed);
        let sample = measure(|| {
            let span = if self.quick { Duration::from_secs(1) } else { Duration::from_secs(10) };
            self.runtime.block_on(sleep(span));
            Tally::operations(events.load(Ordering::Relaxed) - before)
        });
        assert!(tasks.try_join_next().is_none(), "a watch ended");
        let bytes = (resident() - bytes) / WATCHES as f64;
        sample.with("bytes resident a watch", bytes).with("connections", sockets() - connections)
    }

    fn list(&self) -> Sample {
        let client = Client::try_from(Config::new(self.server.parse().expect("the server has an address")));
        let pods: Api<Pod> = Api::all(client.expect("cannot create a client"));
        let read = |limit| {
            let params = ListParams { limit, ..ListParams::default() };
            let pods = self.runtime.block_on(pods.list(&params)).expect("the server answers");
            pods.items.iter().filter(|pod| pod.metadata.name.is_some()).count()
        };
        read(Some(100));
        measure(|| Tally::operations(read(None)))
    }
}
