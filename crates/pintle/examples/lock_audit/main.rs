//! Looks on at a lock of a cluster, whoever contends for it in whatever language, and says who leads, for how long nobody does, and what
//! cannot be safe:
//!
//! ```text
//! cargo run --example lock_audit -- leases kube-system/kube-scheduler
//! ```
//!
//! The first word is the kind, as `--leader-elect-resource-lock` has it. It reads and watches, and writes nothing; ended by Ctrl-C, it
//! fails if it saw what is unsafe. Without a lock it shows itself on a server of its own, where a program takes the lock from its holder.
#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use pintle::leaderelect::{AuditSummary, Finding, Lease, LockAuditor, LockKind};
use pintle::prelude::*;
use tokio_util::task::AbortOnDropHandle;

/// Audits a lock.
#[derive(Parser)]
struct Args {
    /// leases, configmaps, endpoints, configmapsleases or endpointsleases
    #[arg(requires = "lock")]
    kind: Option<LockKind>,
    /// namespace/name
    lock: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let stop = CancellationToken::new();
    let (Some(kind), Some(lock)) = (args.kind, args.lock) else {
        demonstrate(&stop).await?;
        return Ok(ExitCode::SUCCESS);
    };
    let asked = stop.clone();
    let _listening = AbortOnDropHandle::new(tokio::spawn(async move {
        // Without a signal there is nothing to wait for but the end of the process.
        if tokio::signal::ctrl_c().await.is_ok() {
            asked.cancel();
        }
    }));
    let seen = audit(&Cluster::infer()?, kind, &lock, &stop, || ()).await?;
    Ok(if seen.unsafe_findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn audit(
    cluster: &Cluster,
    kind: LockKind,
    lock: &str,
    stop: &CancellationToken,
    on_unsafe: impl Fn(),
) -> anyhow::Result<AuditSummary> {
    let auditor = LockAuditor::new(cluster.lock(kind, lock, Duration::from_secs(10))?);
    let start = Instant::now();
    let tell = |finding: &Finding| {
        println!("{:8.2} s  {finding}", start.elapsed().as_secs_f64());
        if finding.is_unsafe() {
            on_unsafe();
        }
    };
    let seen = auditor.run(stop, tell).await;
    println!(
        "{} terms, {:.2?} without a leader at most, {:.2?} between two renewals at most, {} unsafe",
        seen.terms, seen.longest_gap, seen.slowest_renewal, seen.unsafe_findings
    );
    Ok(seen)
}

/// One leads and gives up, the next one leads, and somebody who does not wait takes the lock from it.
async fn demonstrate(stop: &CancellationToken) -> anyhow::Result<()> {
    const LOCK: &str = "default/website-controller";
    let cluster = Cluster::embedded().await?;
    let story = async {
        for who in ["replica-1", "replica-2"] {
            let config = LeaderElectionConfig { identity: who.into(), ..LeaderElectionConfig::default() };
            let work = LeaderCallbacks::new(async |_: Leadership| tokio::time::sleep(Duration::from_secs(3)).await);
            let term = cluster.lead(LOCK, config, stop, work);
            if who == "replica-1" {
                term.await?;
                continue;
            }
            let intruder = async {
                tokio::time::sleep(Duration::from_millis(2_500)).await;
                let leases: Api<Lease> = cluster.namespaced("default");
                let mut lease = leases.get("website-controller").await?;
                lease.spec.holder_identity = Some("intruder".into());
                leases.update(&lease, &WriteOptions::default()).await?;
                anyhow::Ok(())
            };
            let (term, intruded) = tokio::join!(term, intruder);
            let ended = term?.context("a term")?;
            intruded?;
            println!("            replica-2 says: {}", ended.reason);
        }
        anyhow::Ok(())
    };
    // The auditor is told by a watch of its own, which may be later than the replica's.
    let watched = async {
        let enough = CancellationToken::new();
        let seen = audit(&cluster, LockKind::Leases, LOCK, &enough, || enough.cancel());
        tokio::time::timeout(Duration::from_secs(30), seen).await.context("the auditor saw nothing that is unsafe")?
    };
    let (seen, told) = tokio::join!(watched, story);
    told?;
    anyhow::ensure!(seen?.unsafe_findings > 0, "the intruder was not seen");
    cluster.shutdown().await;
    Ok(())
}
