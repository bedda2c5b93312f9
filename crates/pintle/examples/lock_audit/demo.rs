//! A demo that audits a lock on an embedded server.

use std::time::Duration;

use anyhow::Context;
use pintle::leaderelect::{Lease, LockKind};
use pintle::prelude::*;

use super::audit;

/// Runs two replicas, one after the other. The first replica releases the lock when it stops. An intruder then takes
/// the lock from the second replica before the lock has expired.
pub(crate) async fn run(stop: &CancellationToken) -> anyhow::Result<()> {
    const LOCK: &str = "default/website-controller";
    let cluster = Cluster::embedded().await?;
    let story = async {
        for identity in ["replica-1", "replica-2"] {
            let config = LeaderElectionConfig { identity: identity.into(), ..LeaderElectionConfig::default() };
            let work = LeaderCallbacks::new(async |_: Leadership| tokio::time::sleep(Duration::from_secs(3)).await);
            let term = cluster.run_or_die(LOCK, config, stop, work);
            if identity == "replica-1" {
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
    // The auditor has a separate watch, which may be slower than the replica's watch.
    let watched = async {
        let enough = CancellationToken::new();
        let seen = audit(&cluster, LockKind::Leases, LOCK, &enough, || enough.cancel());
        tokio::time::timeout(Duration::from_secs(30), seen).await.context("the auditor reported no unsafe change")?
    };
    let (seen, played) = tokio::join!(watched, story);
    played?;
    anyhow::ensure!(seen?.unsafe_findings > 0, "the intruder was not reported");
    cluster.shutdown().await;
    Ok(())
}
