//! Workloads of the `controller` benchmark. `go/controller` runs the same workloads with controller-runtime, and `kube`
//! runs them with kube-rs.
//!
//! A controller reconciles the ConfigMaps created by [`fill`]. In the workload `noop`, a reconciliation only reads the
//! object from the cache. In the workload `write`, the first reconciliation of an object sends a merge patch that sets
//! an annotation. An object is done when a later reconciliation reads the annotation from the cache. The wall time is
//! measured from the start of the process until all objects are done. The CPU time and the memory are measured for the
//! whole process.
//!
//! The workload `hold` first runs `noop`, and then measures the controller for twenty seconds while the server changes
//! objects.

mod maps;
mod progress;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::answer::{self, Setting};
use crate::meter::{Sample, process_cpu, resident};

pub use maps::{change, fill};
use progress::{Progress, RUN};

/// The workloads, each with two flags: whether reconciliations write, and whether to measure the controller for
/// [`HELD`] after all objects are done.
const WORKS: &[(&str, (bool, bool))] = &[("noop", (false, false)), ("write", (true, false)), ("hold", (false, true))];

/// The time for which the workload `hold` measures the controller after all objects are done.
const HELD: Duration = Duration::from_secs(20);

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    let start = Instant::now();
    const USAGE: &str = "controller WORK --objects N --workers N --server KUBECONFIG [--quick]";
    answer::main(USAGE, WORKS, |(writes, holds), setting| {
        setting.server?;
        Some(run(setting, writes, holds, start))
    })
}

fn run(setting: &Setting, writes: bool, holds: bool, start: Instant) -> Sample {
    let (client, workers) = (setting.client_config(None), setting.workers);
    let progress = Arc::new(Progress::new(setting.size(setting.objects), start));
    let shared = progress.clone();
    let runtime = Runtime::new().expect("cannot create a runtime");
    let controller = runtime.spawn(async move {
        let controller = controller(workers, writes, shared);
        let manager = Manager::connect("bench", client).expect("a usable configuration");
        manager.controller(controller).run(&CancellationToken::new()).await
    });
    let sample = runtime.block_on(async {
        tokio::select! {
            ended = controller => panic!("the controller ended: {ended:?}"),
            sample = measured(&progress, holds) => sample,
        }
    });
    // Do not shut down the controller, because a shutdown is not part of the measurement.
    std::mem::forget(runtime);
    sample
}

async fn measured(progress: &Progress, holds: bool) -> Sample {
    let sample = progress.settled().await;
    if !holds {
        return sample;
    }
    let (cpu, reconciliations) = (process_cpu(), progress.reconciliations());
    tokio::time::sleep(HELD).await;
    let (cpu, seconds) = (process_cpu() - cpu, HELD.as_secs_f64());
    sample
        .with("resident MB", resident() / 1e6)
        .with("reconciliations per s", (progress.reconciliations() - reconciliations) / seconds)
        .with("CPU ms per s", cpu.as_secs_f64() * 1e3 / seconds)
}

fn controller(workers: usize, writes: bool, progress: Arc<Progress>) -> pintle::operator::Controller<ConfigMap> {
    let run = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_micros().to_string();
    let run: Arc<str> = run.into();
    Controller::new().concurrency(workers).reconcile(move |map: Arc<ConfigMap>, cx: Context<ConfigMap>| {
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
