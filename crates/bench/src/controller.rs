//! The workloads of the benchmark area `controller`. `go/controller` runs the
//! same workloads on controller-runtime, and `kube` runs them on kube-rs.
//!
//! A controller reconciles the ConfigMaps from [`fill`]. In the workload `noop`, a reconciliation only reads the object
//! from the cache. In the workload `write`, the first reconciliation of an object sends a merge patch that sets an
//! annotation. The object is done when a later reconciliation reads the annotation. The wall time starts when the
//! process starts, and ends when all objects are done. CPU time and memory are measured for the whole process.

mod maps;
mod progress;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use pintle_kubeconfig::{Environment, Overrides};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::answer::answer;
use crate::meter::Sample;

pub use maps::fill;
use progress::{Progress, RUN};

#[derive(Clone, Debug)]
struct Setting {
    client: ClientConfig,
    writes: bool,
    objects: usize,
    workers: usize,
}

/// Runs the workload that the command line names.
pub fn main() -> ExitCode {
    let start = Instant::now();
    const USAGE: &str = "controller WORK --objects N --workers N --server KUBECONFIG [--quick]";
    answer(setting().map(|setting| run(setting, start)), USAGE, ["noop", "write"].into_iter())
}

fn setting() -> Option<Setting> {
    let mut args = std::env::args().skip(1);
    let writes = match args.next()?.as_str() {
        "noop" => false,
        "write" => true,
        _ => return None,
    };
    let (mut objects, mut workers, mut server, mut quick) = (0, 1, None, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--objects" => objects = args.next()?.parse().ok()?,
            "--workers" => workers = args.next()?.parse().ok()?,
            "--server" => server = args.next(),
            "--quick" => quick = true,
            _ => return None,
        }
    }
    let kubeconfig = Some(Path::new(&server?).into());
    let client = pintle_kubeconfig::infer(kubeconfig, &Overrides::default(), &Environment::default());
    let client = client.expect("a valid kubeconfig");
    Some(Setting { client, writes, objects: if quick { objects / 50 } else { objects }, workers })
}

fn run(setting: Setting, start: Instant) -> Sample {
    let progress = Arc::new(Progress::new(setting.objects, start));
    let shared = progress.clone();
    let runtime = Runtime::new().expect("cannot create a runtime");
    let controller = runtime.spawn(async move {
        let controller = controller(&setting, shared);
        let manager = Manager::connect("bench", setting.client).expect("a usable configuration");
        manager.controller(controller).run(&CancellationToken::new()).await
    });
    let sample = runtime.block_on(async {
        tokio::select! {
            ended = controller => panic!("the controller ended: {ended:?}"),
            sample = progress.settled() => sample,
        }
    });
    // Do not measure the stop of the controller.
    std::mem::forget(runtime);
    sample
}

fn controller(setting: &Setting, progress: Arc<Progress>) -> pintle::operator::Controller<ConfigMap> {
    let writes = setting.writes;
    let run = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_micros().to_string();
    let run: Arc<str> = run.into();
    Controller::new().concurrency(setting.workers).reconcile(move |map: Arc<ConfigMap>, cx: Context<ConfigMap>| {
        let (progress, run) = (progress.clone(), run.clone());
        async move {
            progress.reconciled(Object::name(&*map));
            if writes && map.metadata.annotations.as_ref().is_none_or(|all| all.get(RUN).is_none_or(|is| **is != *run))
            {
                return write(&map, &cx, &run).await;
            }
            progress.settle(Object::name(&*map));
            Ok(Action::await_change())
        }
    })
}

async fn write(map: &ConfigMap, cx: &Context<ConfigMap>, run: &str) -> pintle::Result<Action> {
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { RUN: run } } }));
    cx.cluster().api::<ConfigMap>().patch(map.key(), &patch, &WriteOptions::default()).await?;
    Ok(Action::await_change())
}
