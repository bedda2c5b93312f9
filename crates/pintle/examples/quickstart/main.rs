//! A controller at work, end to end: two replicas turn 200 websites into config maps, deployments and statuses, while things go
//! wrong on purpose. `README.md` in this folder says what is what.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

mod children;
mod cluster;
mod manifests;
mod observer;
mod progress;
mod reconcile;
mod replica;
mod script;
mod serve;
mod summary;
mod website;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::cluster::Cluster;
use crate::progress::Progress;
use crate::summary::Summary;

#[derive(Debug, Parser)]
#[command(name = "quickstart", about = "A controller at work, on an embedded API server or a real cluster")]
struct Flags {
    /// Stay up afterwards, and write a kubeconfig for kubectl
    #[arg(long)]
    serve: bool,
    /// Run on the cluster of this kubeconfig's current context instead of the embedded API server
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Take the websites from the YAML files in this folder
    #[arg(long, value_name = "DIR")]
    sites: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_env_filter(log_filter()).with_writer(std::io::stderr).init();
    match run(Flags::parse()).await {
        Ok(summary) if summary.is_success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> Result<Summary> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let definition = manifests::read(&here.join("crd.yaml"))?;
    let websites = manifests::read_dir(&flags.sites.unwrap_or_else(|| here.join("sites")))?;
    manifests::expect_websites(&websites)?;

    let progress = Progress::new();
    let mut cluster = match &flags.kubeconfig {
        Some(path) => Cluster::real(path).await?,
        None => Cluster::embedded().await?,
    };
    progress.say(&format!("the API server is {}", cluster.config.server));
    for manifest in &definition {
        cluster.define_websites(manifest).await?;
    }
    cluster.make_namespaces(&websites).await?;

    let (summary, replicas) = script::play(&cluster, websites, &progress).await?;
    println!("\n{summary}");
    if flags.serve {
        serve::until_interrupted(&cluster, flags.kubeconfig.as_deref()).await?;
    }
    for replica in replicas {
        replica.stop().await;
    }
    if !flags.serve {
        cluster.tidy().await?;
    }
    if let Some(server) = cluster.embedded {
        server.shutdown().await;
    }
    Ok(summary)
}

/// Libraries speak of what they retry as warnings; a run that breaks things on purpose has many. `RUST_LOG` tells more.
fn log_filter() -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into())
}
