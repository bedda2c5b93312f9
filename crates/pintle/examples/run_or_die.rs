//! Runs elections with different kinds of locks from a kubeconfig, like client-go's `resourcelock.NewFromKubeconfig`
//! and `leaderelection.RunOrDie`.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::time::Duration;

use anyhow::{Context, ensure};
use pintle::kubeconfig::{Environment, Overrides};
use pintle::leaderelect::{LeaderElector, LockKind};
use pintle::prelude::*;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // In this example, the kubeconfig belongs to an API server in this process. A real program reads the path from the
    // `--kubeconfig` flag.
    let server = Cluster::embedded().await?;
    let file = std::env::temp_dir().join(format!("pintle-{:x}.kubeconfig", fastrand::u64(..)));
    std::fs::write(&file, server.server().context("an embedded server")?.kubeconfig())?;
    let config = pintle::kubeconfig::infer(Some(file.clone()), &Overrides::default(), &Environment::of_process());
    std::fs::remove_file(&file)?;
    let cluster = Cluster::connect(config?)?;

    run_or_die(&cluster).await?;
    // The `--leader-elect-resource-lock` flag selects the kind of the lock. ConfigMap and Endpoints locks are for
    // compatibility with programs that were written before Leases existed.
    for kind in ["configmaps", "endpoints", "leases"] {
        run_with_lock(&cluster, kind.parse()?).await?;
    }
    cluster.shutdown().await;
    server.shutdown().await;
    Ok(())
}

/// Runs an election for a Lease with a single call. client-go's `RunOrDie` exits the process after the election.
/// `Cluster::run_or_die` returns.
async fn run_or_die(cluster: &Cluster) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let callbacks = LeaderCallbacks {
        on_stopped_leading: Box::new(|end: &TermEnd<&str>| println!("stopped leading: {}", end.reason)),
        ..LeaderCallbacks::new(async |leadership: Leadership| {
            println!("started leading as {}", leadership.term().record.holder_identity);
            "the work is complete"
        })
    };
    let ended = cluster.run_or_die("kube-system/website", LeaderElectionConfig::default(), &stop, callbacks).await?;
    let ended = ended.context("it was stopped before it led")?;
    ensure!(
        ended.reason == EndReason::Completed && matches!(ended.work, Some(Ok("the work is complete"))),
        "{ended:?}"
    );
    Ok(())
}

/// Runs the same election in two steps, which works with any kind of lock.
async fn run_with_lock(cluster: &Cluster, kind: LockKind) -> anyhow::Result<()> {
    let config = LeaderElectionConfig {
        identity: "replica-1".into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        ..LeaderElectionConfig::default()
    };
    let lock = cluster.lock(kind, "kube-system/old-controller", config.renew_deadline)?;
    let mut elector = LeaderElector::new(lock, config)?;
    let status = elector.status();
    let work = LeaderCallbacks::new(async |_leadership: Leadership| status.leader());
    let ended = elector.run_once(&CancellationToken::new(), work).await.context("it led")?;
    ensure!(matches!(ended.work, Some(Ok(Some(leader))) if leader == "replica-1"));
    println!("led with a lock of the kind {kind}");
    Ok(())
}
