//! The `--serve` flag, which keeps the cluster running after the demo.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use pintle::prelude::*;

/// Writes a kubeconfig for the embedded server, prints commands to try out, and waits for Ctrl-C or SIGTERM.
pub(crate) async fn until_interrupted(cluster: &Cluster, given: Option<&Path>) -> Result<()> {
    let path = match cluster.server() {
        None => given.map(Path::to_owned).unwrap_or_default(),
        Some(server) => {
            let path = PathBuf::from("quickstart.kubeconfig");
            std::fs::write(&path, server.kubeconfig())
                .with_context(|| format!("{}: cannot write the kubeconfig", path.display()))?;
            path
        }
    };
    let path = path.display();
    println!("Serving until Ctrl-C. In another terminal:\n");
    println!("  export KUBECONFIG={path}");
    println!("  kubectl get websites -A");
    println!("  kubectl get deploy -n harbour");
    println!("  kubectl delete deploy -n harbour pintle-blog    # the controller recreates it");
    println!("  kubectl get websites -n harbour -w\n");
    interrupted().await.context("cannot wait for signals")
}

#[cfg(unix)]
async fn interrupted() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn interrupted() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
