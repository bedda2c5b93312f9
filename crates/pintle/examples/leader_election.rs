//! Leader election with callbacks and without controllers, as in client-go's `examples/leader-election`.
//!
//! Two replicas compete for a Lease. When a stop is requested, the leader ends its work and then releases the Lease.
//! The other replica immediately acquires the released Lease.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use pintle::prelude::*;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

async fn replica(
    cluster: Cluster,
    identity: &'static str,
    stop: CancellationToken,
    log: UnboundedSender<String>,
) -> Result<(), pintle::Error> {
    let config = LeaderElectionConfig { identity: identity.into(), ..LeaderElectionConfig::default() };
    let mut elector = cluster.elector("kube-system/website-controller", config)?;

    let say = move |what: String| {
        println!("{identity}: {what}");
        log.send(format!("{identity}: {what}")).expect("the receiver lives until the replicas have ended");
    };
    let (started, stopped, observed) = (say.clone(), say.clone(), say);
    let callbacks = LeaderCallbacks {
        // Runs the work of the leader, which should end when `cancelled` returns. At the deadline of the leadership
        // term, the elector drops work that is still running.
        on_started_leading: async |leadership: Leadership| {
            started("OnStartedLeading".into());
            leadership.cancelled().await;
        },
        // Called after the leader's work has ended for any reason.
        on_stopped_leading: Box::new(move |end: &TermEnd<()>| stopped(format!("OnStoppedLeading: {}", end.reason))),
        // Called for each new holder of the Lease, including this replica.
        on_new_leader: Box::new(move |holder| observed(format!("OnNewLeader: {holder}"))),
    };
    elector.run(&stop, callbacks).await;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    let (log, mut lines) = unbounded_channel();
    let mut said = async |wanted: &str| while lines.recv().await.expect("a replica still runs") != wanted {};
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());

    let first = tokio::spawn(replica(cluster.clone(), "replica-1", stop_first.clone(), log.clone()));
    said("replica-1: OnStartedLeading").await;
    let second = tokio::spawn(replica(cluster.clone(), "replica-2", stop_second.clone(), log));
    said("replica-2: OnNewLeader: replica-1").await;

    stop_first.cancel();
    first.await??;
    said("replica-2: OnStartedLeading").await;
    stop_second.cancel();
    second.await??;
    cluster.shutdown().await;
    Ok(())
}
