//! Shows which writes a controller would send to a cluster, without executing them.
//!
//! `cargo run --example plan` runs a demo with a small embedded cluster and a controller that copies labels. The dry
//! run also works with your own cluster and with a controller in any language:
//!
//! ```console
//! $ cargo run --example plan -- --kubeconfig ~/.kube/config -- ./my-controller --leader-elect=false
//! ```
//!
//! The environment variable `KUBECONFIG` makes the controller connect to a server that this program starts. The server
//! records writes instead of executing them. When the controller exits or Ctrl-C is pressed, the program prints the
//! recorded writes.

#![allow(clippy::print_stdout, reason = "a command line program")]

mod demo;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use pintle::apiserver::Plan;
use pintle::kubeconfig::{Environment, Overrides};
use pintle::prelude::*;

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
    let Some(kubeconfig) = flags.kubeconfig else { return demo::run().await };
    let config = pintle::kubeconfig::infer(Some(kubeconfig), &Overrides::default(), &Environment::of_process())?;
    let live = Cluster::connect(config)?;
    let plan = live.plan().await?;
    run(&plan, &flags.command).await?;
    print!("{}", plan.changes().await);
    plan.shutdown().await;
    Ok(())
}

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
    // An error means that the controller has already exited.
    let _ = child.kill().and_then(|()| child.wait().map(drop));
    std::fs::remove_file(file)?;
    Ok(())
}
