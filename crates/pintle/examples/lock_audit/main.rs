//! Monitors a leader election's lock. The candidates for the lock can be programs in any language. The program reports
//! each leader, each period without a leader, and each unsafe change:
//!
//! ```text
//! cargo run --example lock_audit -- leases kube-system/kube-scheduler
//! ```
//!
//! The first argument is the kind of the lock, as in `--leader-elect-resource-lock`. The program only reads and watches
//! the lock. Ctrl-C ends the program. If the program detects an unsafe change, it exits with an error.
//!
//! Without arguments, the program runs a demo on an embedded server, where an intruder takes the lock from its holder.
#![allow(clippy::print_stdout, reason = "a command line program")]

mod demo;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pintle::leaderelect::LockKind;
use pintle::lock_audit::{AuditSummary, Finding, LockAuditor};
use pintle::prelude::*;
use tokio_util::task::AbortOnDropHandle;

/// Monitors a leader election lock
#[derive(Parser)]
struct Args {
    /// Kind of lock: leases, configmaps, endpoints, configmapsleases or endpointsleases
    #[arg(requires = "lock")]
    kind: Option<LockKind>,
    /// The lock, as namespace/name
    lock: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let stop = CancellationToken::new();
    let (Some(kind), Some(lock)) = (args.kind, args.lock) else {
        demo::run(&stop).await?;
        return Ok(ExitCode::SUCCESS);
    };
    let on_ctrl_c = stop.clone();
    let _listening = AbortOnDropHandle::new(tokio::spawn(async move {
        // If the Ctrl-C handler cannot be installed, Ctrl-C still ends the process.
        if tokio::signal::ctrl_c().await.is_ok() {
            on_ctrl_c.cancel();
        }
    }));
    let seen = audit(&Cluster::infer()?, kind, &lock, &stop, || ()).await?;
    Ok(if seen.unsafe_findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) async fn audit(
    cluster: &Cluster,
    kind: LockKind,
    lock: &str,
    stop: &CancellationToken,
    on_unsafe: impl Fn(),
) -> anyhow::Result<AuditSummary> {
    let auditor = LockAuditor::new(cluster.lock(kind, lock, Duration::from_secs(10))?);
    let start = Instant::now();
    let report = |finding: &Finding| {
        println!("{:8.2} s  {finding}", start.elapsed().as_secs_f64());
        if finding.is_unsafe() {
            on_unsafe();
        }
    };
    let seen = auditor.run(stop, report).await;
    println!(
        "{} terms, {:.2?} without a leader at most, {:.2?} between two renewals at most, {} unsafe",
        seen.terms, seen.longest_gap, seen.slowest_renewal, seen.unsafe_findings
    );
    Ok(seen)
}
