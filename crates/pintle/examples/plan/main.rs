//! Shows the writes that a controller would send to a cluster. The writes are not executed.
//!
//! `cargo run --example plan` runs a demo with a small embedded cluster and a controller that copies labels. To make a
//! plan for your own cluster and your own controller, which can be written in any language:
//!
//! ```console
//! $ cargo run --example plan -- --kubeconfig ~/.kube/config -- ./my-controller --leader-elect=false
//! ```
//!
//! The controller uses the variable `KUBECONFIG` to connect to a server that this program starts. This server records
//! the writes. The program prints the recorded writes when the controller exits, or on Ctrl-C.

#![allow(clippy::print_stdout, reason = "a command line program")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use pintle::apiserver::{Plan, eventually};
use pintle::controller::Controller;
use pintle::kubeconfig::{Environment, Overrides};
use pintle::prelude::*;
use pintle::restreq::TransportLayer;

#[derive(Debug, Parser)]
struct Flags {
    /// Kubeconfig of the cluster to plan for. Without a kubeconfig, the example starts a small cluster
    #[arg(long, requires = "command")]
    kubeconfig: Option<PathBuf>,
    /// The controller to run, with its arguments
    #[arg(last = true, requires = "kubeconfig")]
    command: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let Some(kubeconfig) = flags.kubeconfig else { return demonstrate().await };
    let config = pintle::kubeconfig::infer(Some(kubeconfig), &Overrides::default(), &Environment::of_process())?;
    let live = Cluster::connect(config)?;
    let plan = live.plan().await?;
    run(&plan, &flags.command).await?;
    print!("{}", plan.changes().await);
    plan.shutdown().await;
    Ok(())
}

/// Runs an external controller until it exits or the user presses Ctrl-C.
async fn run(plan: &Plan, command: &[String]) -> anyhow::Result<()> {
    let file = std::env::temp_dir().join(format!("pintle-plan-{:x}.kubeconfig", fastrand::u64(..)));
    std::fs::write(&file, plan.server().kubeconfig())?;
    let (program, arguments) = command.split_first().context("no controller given")?;
    let child = Command::new(program).args(arguments).env("KUBECONFIG", &file).spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    let interrupted = tokio::signal::ctrl_c();
    let ended = async {
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            tokio::time::sleep(Duration::from_millis(50)).await
        }
    };
    tokio::select! {
        _ = interrupted => (),
        () = ended => (),
    }
    // Ignore the error, because the process may have exited already.
    let _ = child.kill().and_then(|()| child.wait().map(drop));
    std::fs::remove_file(file)?;
    Ok(())
}

const CLUSTER: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: team-a, labels: {team: a}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: team-a}, data: {colour: blue}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, namespace: team-a, labels: {team: a}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: left-over, namespace: team-a, annotations: {expired: 'true'}}}
";

/// Runs a controller against a server that records the writes, and then prints the recorded writes.
async fn demonstrate() -> anyhow::Result<()> {
    let live = Cluster::embedded().await?;
    live.server().context("an embedded server")?.load(CLUSTER)?;
    let plan = live.plan().await?;

    let client = Some(plan.server().client_config());
    let transport = Some(TransportLayer::in_place(plan.server().in_process()));
    let cluster = Cluster::connect(ClusterConfig { client, transport, ..ClusterConfig::default() })?;
    let stop = CancellationToken::new();
    let controller = labels(&cluster);
    let changes = async {
        let all_planned = eventually(Duration::from_secs(30), async || plan.changes().await.len() == 2).await;
        stop.cancel();
        all_planned
    };
    let (ended, all_planned) = tokio::join!(controller.run(&stop), changes);
    ended?;
    print!("{}", plan.changes().await);
    anyhow::ensure!(all_planned, "the controller planned other changes than expected");
    let untouched = live.namespaced::<ConfigMap>("team-a").list(&ListOptions::default()).await?.items.len();
    println!("the cluster still has its {untouched} ConfigMaps, unchanged");
    cluster.shutdown().await;
    plan.shutdown().await;
    live.shutdown().await;
    Ok(())
}

/// A controller that copies the team label of a namespace to its ConfigMaps, and deletes expired ConfigMaps. This
/// controller contains no code for plans.
fn labels(cluster: &Cluster) -> Controller {
    let maps = cluster.informer::<ConfigMap>();
    let (lister, api) = (maps.lister(), cluster.api::<ConfigMap>());
    let namespaces = cluster.api::<Namespace>();
    Controller::of(&maps).reconciler(move |request: ReconcileRequest| {
        let (found, api, namespaces) = (lister.get(&request.key), api.clone(), namespaces.clone());
        async move {
            let Some(map) = found else { return Ok(Action::await_change()) };
            if map.metadata.annotations.iter().flatten().any(|(key, _)| key == "expired") {
                api.delete(request.key.clone(), &DeleteOptions::default()).await?;
                return Ok(Action::await_change());
            }
            let namespace = namespaces.get(request.key.namespace().unwrap_or_default()).await?;
            let team = namespace.metadata.labels.and_then(|mut labels| labels.remove("team"));
            let has = map.metadata.labels.as_ref().and_then(|labels| labels.get("team"));
            if let Some(team) = team.filter(|team| Some(team) != has) {
                let patch = Patch::Merge(serde_json::json!({"metadata": {"labels": {"team": team}}}));
                api.patch(request.key.clone(), &patch, &WriteOptions::default()).await?;
            }
            Ok(Action::await_change())
        }
    })
}
