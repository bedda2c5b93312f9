//! Copies files to and from a container, like `kubectl cp`. The program runs `tar` in the container and on the local
//! machine.
//!
//! `cargo run --example cp` uses a pod that is simulated in this process. To use a pod in your own cluster, run:
//!
//! ```console
//! $ cargo run --example cp -- --kubeconfig ~/.kube/config ./site default/web-1:/srv
//! $ cargo run --example cp -- --kubeconfig ~/.kube/config default/web-1:/var/log/app ./logs
//! ```

#![allow(clippy::print_stdout, reason = "a command line program")]

mod demo;
mod pod;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use pintle::kubeconfig::{Files, Overrides};
use pintle::prelude::*;
use pintle::restreq::{CommandOutput, ExecOptions};
use tokio::io::{AsyncWriteExt, copy};
use tokio::process::Command;

#[derive(Debug, Parser)]
struct Flags {
    /// Kubeconfig of the cluster. Without a kubeconfig, the example imitates a pod
    #[arg(long, requires_all = ["from", "to"])]
    kubeconfig: Option<PathBuf>,
    /// The file or folder to copy: `path`, or `namespace/pod:path`
    from: Option<String>,
    /// The folder to copy it into: `path`, or `namespace/pod:path`
    to: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Flags { kubeconfig: Some(path), from: Some(from), to: Some(to) } = Flags::parse() else {
        return demo::run().await;
    };
    let config = Files::explicit(path).load()?.client_config(&Overrides::default())?;
    let pods: Api<Pod> = Cluster::connect(config)?.api();
    match (from.split_once(':'), to.split_once(':')) {
        (None, Some((pod, folder))) => upload(&pods, Path::new(&from), pod, folder).await,
        (Some((pod, path)), None) => download(&pods, pod, path, Path::new(&to)).await,
        _ => anyhow::bail!("one of {from} and {to} must be in a pod, written as namespace/pod:path"),
    }
}

async fn upload(pods: &Api<Pod>, from: &Path, pod: &str, folder: &str) -> anyhow::Result<()> {
    let (parent, name) = (from.parent().unwrap_or(Path::new("")), from.file_name().context("no file to copy")?);
    let mut pack = Command::new("tar");
    pack.args(["-cf", "-", "-C"]).arg(Path::new(".").join(parent)).arg(name).stdout(Stdio::piped());
    let mut pack = pack.kill_on_drop(true).spawn()?;
    let mut unpack = pods.exec(pod, ["tar", "-xmf", "-", "-C", folder], &ExecOptions::with_stdin()).await?;
    let (mut source, mut stdin) = (pack.stdout.take().context("piped")?, unpack.stdin.take().context("requested")?);
    let send = async {
        let sent = copy(&mut source, &mut stdin).await?;
        stdin.shutdown().await?;
        anyhow::Ok(sent)
    };
    let (sent, output) = tokio::join!(send, unpack.wait_with_output());
    check(output?)?;
    ensure!(pack.wait().await?.success(), "tar on this machine failed");
    println!("copied {} to {pod}:{folder}: {} bytes", from.display(), sent?);
    Ok(())
}

async fn download(pods: &Api<Pod>, pod: &str, path: &str, folder: &Path) -> anyhow::Result<()> {
    let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
    let parent = if parent.is_empty() { "/" } else { parent };
    let mut pack = pods.exec(pod, ["tar", "-cf", "-", "-C", parent, name], &ExecOptions::default()).await?;
    // The archive is untrusted, but `tar` rejects file names outside of the target directory.
    let mut unpack = Command::new("tar");
    unpack.args(["-xf", "-", "--no-same-owner", "-C"]).arg(folder).stdin(Stdio::piped());
    let mut unpack = unpack.kill_on_drop(true).spawn()?;
    let (mut stdout, mut sink) = (pack.stdout.take().context("requested")?, unpack.stdin.take().context("piped")?);
    let (received, output) = tokio::join!(copy(&mut stdout, &mut sink), pack.wait_with_output());
    check(output?)?;
    drop(sink);
    ensure!(unpack.wait().await?.success(), "tar on this machine failed");
    println!("copied {pod}:{path} to {}: {} bytes", folder.display(), received?);
    Ok(())
}

fn check(output: CommandOutput) -> anyhow::Result<()> {
    output.status.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
