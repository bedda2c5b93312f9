//! The `controller` benchmark with kube-rs. `src/controller.rs` of pintle-bench documents the workloads.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{self, Action};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::progress::{Progress, RUN};

struct Context {
    client: Client,
    writes: bool,
    run: String,
    progress: Progress,
}

/// Runs the workload named on the command line.
pub fn main() {
    let start = Instant::now();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (work, objects, workers, server, quick) = match args[..] {
        [work, "--objects", n, "--workers", workers, "--server", server] => (work, n, workers, server, false),
        [work, "--objects", n, "--workers", workers, "--server", server, "--quick"] => (work, n, workers, server, true),
        _ => panic!("usage: controller WORK --objects N --workers N --server KUBECONFIG [--quick]"),
    };
    let writes = match work {
        "noop" => false,
        "write" => true,
        _ => panic!("unknown workload {work:?}"),
    };
    let objects: usize = objects.parse().expect("--objects is a number");
    let progress = Progress::new(if quick { objects / 50 } else { objects }, start);
    let workers = workers.parse().expect("--workers is a number");
    let runtime = Runtime::new().expect("cannot create a runtime");
    let sample = runtime.block_on(async {
        let run = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_micros().to_string();
        let context = Arc::new(Context { client: client(server).await, writes, run, progress });
        let maps = Api::<ConfigMap>::all(context.client.clone());
        let controller = Controller::new(maps, watcher::Config::default())
            .with_config(controller::Config::default().concurrency(workers))
            .run(reconcile, retry, context.clone());
        let controller = tokio::spawn(controller.for_each(|ended| async move {
            if let Err(error) = ended {
                eprintln!("{error}");
            }
        }));
        tokio::select! {
            ended = controller => panic!("the controller ended: {ended:?}"),
            sample = context.progress.settled() => sample,
        }
    });
    println!("{}", serde_json::to_string(&sample).expect("a sample is JSON"));
    std::process::exit(0);
}

async fn client(server: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(Path::new(server)).expect("cannot read the kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a valid kubeconfig")).expect("cannot create a client")
}

async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> kube::Result<Action> {
    let name = map.name_any();
    context.progress.reconciled(&name);
    if !context.writes || map.annotations().get(RUN) == Some(&context.run) {
        context.progress.settle(&name);
        return Ok(Action::await_change());
    }
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &map.namespace().unwrap_or_default());
    let patch = json!({ "metadata": { "annotations": { RUN: context.run } } });
    maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(Action::await_change())
}

fn retry(_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(1))
}
