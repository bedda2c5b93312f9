//! The script of the demo, from the first website to the summary.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pintle::prelude::*;

use crate::flags::Flags;
use crate::manifests::{self, Manifest};
use crate::observer::Observer;
use crate::play;
use crate::progress::Progress;
use crate::replica::{Replica, Work};
use crate::serve;
use crate::stage::Stage;
use crate::summary::Summary;

/// Runs the whole demo. Returns `true` if all websites have converged.
pub(crate) async fn run(flags: Flags) -> Result<bool> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let websites = manifests::read_dir(flags.sites.as_deref().unwrap_or(&here.join("sites")))?;
    manifests::expect_websites(&websites)?;

    let progress = Progress::new();
    let mut stage = Stage::open(flags.kubeconfig.as_deref()).await?;
    progress.say(&format!("API server: {}", stage.cluster.config().server));
    let outcome = run_on(&mut stage, websites, &flags, &progress).await;
    // Delete the created objects even if the script has failed.
    let cleaned_up = if flags.serve && outcome.is_ok() { Ok(()) } else { stage.created.delete(&stage.cluster).await };
    stage.cluster.shutdown().await;
    match (outcome, cleaned_up) {
        (Err(error), Err(left)) => {
            Err(error.context(format!("cleanup failed, so objects of this run remain: {left:#}; the run failed with")))
        }
        (outcome, cleaned_up) => cleaned_up.and(outcome),
    }
}

async fn run_on(stage: &mut Stage, websites: Vec<Manifest>, flags: &Flags, progress: &Progress) -> Result<bool> {
    stage.make_namespaces(&websites).await?;
    // After an error, drop the replicas instead of stopping them gracefully, to report the error without delay.
    let (summary, replicas) = run_scenes(stage, websites, progress).await?;
    println!("\n{summary}");
    if flags.serve {
        serve::until_interrupted(&stage.cluster, flags.kubeconfig.as_deref()).await?;
    }
    for replica in replicas {
        replica.stop().await;
    }
    Ok(summary.is_success())
}

/// Runs the scenes of the demo. Returns the summary and the replicas, which the caller must stop.
async fn run_scenes(stage: &Stage, websites: Vec<Manifest>, progress: &Progress) -> Result<(Summary, Vec<Replica>)> {
    let cluster = &stage.cluster;
    let started = Instant::now();
    let objects = websites.len();
    let first = websites.first().map(|manifest| manifest.object.key()).context("there are no websites")?;
    play::plan_faults(cluster, progress);
    let mut replicas =
        vec![Replica::start("replica-1", cluster.config())?, Replica::start("replica-2", cluster.config())?];
    stage.wait_for_definition().await?;
    let observer = Observer::start(cluster).await?;
    progress.say(&format!("started two replicas; creating {objects} websites"));

    let ((), failover) = tokio::try_join!(
        stage.create_websites(websites),
        play::kill_the_leader(&mut replicas, &observer, objects, progress),
    )?;
    observer.wait(objects, objects, progress, |_| true).await?;
    progress.say(&format!("all {objects} websites converged"));

    play::delete_a_child(cluster, &observer, &first, objects, progress).await?;
    play::edit_a_spec(cluster, &observer, &first, objects, progress).await?;
    if let Some(server) = cluster.server() {
        progress.say(&format!("the server injected {} faults", server.faults().hits()));
    }
    progress.clear();

    let work = replicas.iter().map(Replica::work).reduce(Work::and).context("there are no replicas")?;
    let latency = |q| Some(Duration::from_secs_f64(work.waited.as_ref()?.quantile(q)?));
    let summary = Summary {
        converged: observer.converged(),
        objects,
        reconciles: work.reconciles,
        retries: work.retries,
        queue_latency: latency(0.5).zip(latency(0.99)),
        failover: Some(failover),
        total: started.elapsed(),
    };
    Ok((summary, replicas))
}
