//! Combines an informer, a work queue and workers without a controller. The example includes retries and a final drain.
//!
//! client-go's equivalent is `examples/workqueue`. A `Controller` requires less code: see `operator.rs`.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use pintle::apiserver::eventually;
use pintle::prelude::*;
use pintle::ratelimit::default_controller_rate_limiter;
use pintle::workqueue::{QueueConfig, ShutdownMode, WorkQueue};
use serde_json::json;
use tokio::task::JoinSet;

const WORKERS: usize = 3;
const MAX_RETRIES: u32 = 5;

#[derive(Clone)]
struct PodController {
    queue: WorkQueue<ObjectKey>,
    lister: Lister<Pod>,
    runs: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl PodController {
    async fn worker(self) {
        // `get` waits for a key. After the queue is shut down, `get` returns `None` when the queue is empty.
        while let Some(item) = self.queue.get().await {
            match self.reconcile(&item) {
                // Like client-go's `Done` and `Forget`, this call finishes the key, and resets the delay of its retries.
                Ok(()) => item.forget(),
                // Like client-go's `Done` and `AddRateLimited`, this call retries the key after a delay. The delays of
                // the key are 5 ms, 10 ms, 20 ms and so on.
                Err(error) if item.num_requeues() < MAX_RETRIES => {
                    println!("{}: {error}; retrying", *item);
                    item.retry();
                }
                Err(error) => {
                    println!("{}: {error}; giving up", *item);
                    item.forget();
                }
            } // Dropping an item calls client-go's `Done`, also after a panic.
        }
    }

    fn reconcile(&self, key: &ObjectKey) -> anyhow::Result<()> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = runs.entry(key.name().to_owned()).or_default();
        *runs += 1;
        match key.name() {
            "broken" => bail!("it always fails"),
            "flaky" if *runs <= 2 => bail!("it fails twice"),
            // The cache contains the newest state of the object, or `None` if the object was deleted.
            _ => println!("{key}: {}", if self.lister.get(key).is_some() { "in sync" } else { "deleted" }),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    let pods: Api<Pod> = cluster.namespaced("default");
    for name in ["web-1", "web-2", "flaky", "broken"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
        pods.create(&serde_json::from_value(pod)?, &WriteOptions::default()).await?;
    }

    let limiter = Box::new(default_controller_rate_limiter());
    let queue = WorkQueue::new(QueueConfig { name: "pods".into(), limiter, ..QueueConfig::default() });
    let informer = cluster.informer::<Pod>();
    let keys = queue.clone();
    // The handler is called for added, updated and deleted objects.
    let handler = informer.add_event_handler(move |event: &ResourceEvent<Pod>| keys.add(event.key()));
    informer.wait_for_sync().await?; // client-go's WaitForNamedCacheSync
    let controller = PodController { queue: queue.clone(), lister: informer.lister(), runs: Arc::default() };
    let mut workers = JoinSet::new();
    (0..WORKERS).for_each(|_| drop(workers.spawn(controller.clone().worker())));

    // A real program would wait for a signal here. This example waits for the last retry and for a deletion.
    let count = |name: &str| controller.runs.lock().map_or(0, |runs| runs.get(name).copied().unwrap_or(0));
    let within = Duration::from_secs(30);
    ensure!(eventually(within, async || count("broken") == 1 + MAX_RETRIES).await);
    pods.delete("web-2", &DeleteOptions::default()).await?;
    ensure!(eventually(within, async || count("web-2") >= 2).await);

    // As with client-go's `ShutDownWithDrain`, the queue no longer accepts keys. The workers process the remaining keys
    // and then end.
    handler.remove().await;
    let report = queue.shut_down(ShutdownMode::FinishBacklog).await;
    workers.join_all().await;
    ensure!(report.complete && count("flaky") == 3, "{report:?}");
    cluster.shutdown().await;
    Ok(())
}
