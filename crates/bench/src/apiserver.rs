//! Workloads of the `apiserver` benchmark, which measure a server with Pintle's client. The programs in
//! `go/apiserver` run the same workloads with client-go.

mod floor;
mod idle;
mod in_process;
mod pods;
mod start;
mod verbs;
mod watchers;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pintle_restreq::RestClient;

use crate::answer::{self, Setting, runtime};
use crate::meter::{Sample, resident_of};

impl Setting {
    /// Creates a client with separate connections, and waits until the server is ready.
    async fn client(&self) -> RestClient {
        let client = RestClient::new(self.client_config(None)).expect("a usable configuration");
        let ready = client.get().abs_path(["/readyz"]).max_retries(0);
        let begun = Instant::now();
        while let Err(error) = ready.raw().await {
            assert!(begun.elapsed() < Duration::from_secs(120), "the server is not ready after two minutes: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        client
    }

    fn server_bytes(&self) -> f64 {
        self.processes.split(',').map(resident_of).sum()
    }
}

pub use floor::serve;

type Work = fn(&Setting) -> Sample;

const WORKS: &[(&str, Work)] = &[
    ("start", start::start),
    ("writes", verbs::writes),
    ("reads", verbs::reads),
    ("in-process-writes", in_process::writes),
    ("in-process-reads", in_process::reads),
    ("pods", pods::some),
    ("many-pods", pods::many),
    ("watchers", watchers::watchers),
    ("idle", idle::idle),
];

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    const USAGE: &str = "apiserver WORK [--server KUBECONFIG --processes ID,…] [--quick]";
    answer::main(USAGE, WORKS, |work, setting| Some(work(setting)))
}

/// Sends `n` requests, at most `at_once` of them at the same time, and returns the duration of each
/// request.
async fn each<F>(n: usize, at_once: usize, request: impl Fn(usize) -> F + Clone + Send + 'static) -> Vec<Duration>
where
    F: Future<Output = ()> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..at_once)
        .map(|_| {
            let (next, request) = (next.clone(), request.clone());
            tokio::spawn(async move {
                let mut took = Vec::new();
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        return took;
                    }
                    let begun = Instant::now();
                    request(i).await;
                    took.push(begun.elapsed());
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.expect("the worker does not panic"));
    }
    all
}

/// Returns an object of typical size.
fn config_map(name: &str, value: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value},
    })
}

async fn make_namespace(client: &RestClient, name: &str) {
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    client.post().abs_path(["/api/v1/namespaces"]).json(&namespace).send().await.expect("cannot create a namespace");
}

async fn make_maps(client: &RestClient, namespace: &str, n: usize) {
    for i in 0..n {
        let map = config_map(&format!("c{i}"), "value");
        let create = client.post().abs_path(["/api/v1"]).namespace(namespace).resource("configmaps");
        create.json(&map).send().await.expect("cannot create a config map");
    }
}
