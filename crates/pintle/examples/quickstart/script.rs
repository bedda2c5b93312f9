//! The demo's script, from the first website to the summary.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::apiserver::RequestVerb;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::prelude::*;
use serde_json::json;
use tokio::time::sleep;

use crate::flags::Flags;
use crate::manifests::{self, Manifest};
use crate::observer::Observer;
use crate::progress::Progress;
use crate::replica::{Replica, Work};
use crate::serve;
use crate::stage::Stage;
use crate::summary::Summary;
use crate::website::Website;

/// Runs the whole demo. Returns `true` if all websites converged.
pub(crate) async fn run(flags: Flags) -> Result<bool> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let definition = manifests::read(&here.join("crd.yaml"))?;
    let websites = manifests::read_dir(flags.sites.as_deref().unwrap_or(&here.join("sites")))?;
    manifests::expect_websites(&websites)?;

    let progress = Progress::new();
    let mut stage = Stage::open(flags.kubeconfig.as_deref()).await?;
    progress.say(&format!("API server: {}", stage.cluster.config().server));
    let outcome = run_on(&mut stage, &definition, websites, &flags, &progress).await;
    // Clean up even after a failure.
    let cleaned_up = if flags.serve && outcome.is_ok() { Ok(()) } else { stage.clean_up().await };
    stage.cluster.shutdown().await;
    match (outcome, cleaned_up) {
        (Err(error), Err(left)) => {
            Err(error.context(format!("cleanup failed, so objects of this run remain: {left:#}; the run failed with")))
        }
        (outcome, cleaned_up) => cleaned_up.and(outcome),
    }
}

/// Creates the CustomResourceDefinition and the namespaces, and runs the script.
async fn run_on(
    stage: &mut Stage,
    definition: &[Manifest],
    websites: Vec<Manifest>,
    flags: &Flags,
    progress: &Progress,
) -> Result<bool> {
    for manifest in definition {
        stage.define_websites(manifest).await?;
    }
    stage.make_namespaces(&websites).await?;
    // After an error, drop the replicas immediately, so that the user sees the error without delay.
    let (summary, replicas) = play(stage, websites, progress).await?;
    println!("\n{summary}");
    if flags.serve {
        serve::until_interrupted(&stage.cluster, flags.kubeconfig.as_deref()).await?;
    }
    for replica in replicas {
        replica.stop().await;
    }
    Ok(summary.is_success())
}

/// Runs the script. Returns the summary and the replicas, so that the caller can stop the replicas.
async fn play(stage: &Stage, websites: Vec<Manifest>, progress: &Progress) -> Result<(Summary, Vec<Replica>)> {
    let cluster = &stage.cluster;
    let started = Instant::now();
    let objects = websites.len();
    let first = websites.first().map(|manifest| manifest.object.key()).context("there are no websites")?;
    plan_faults(cluster, progress);
    let observer = Observer::start(cluster).await?;
    let mut replicas =
        vec![Replica::start("replica-1", cluster.config())?, Replica::start("replica-2", cluster.config())?];
    progress.say(&format!("started two replicas; creating {objects} websites"));

    let ((), failover) = tokio::try_join!(
        stage.create_websites(websites),
        kill_the_leader(&mut replicas, &observer, objects, progress),
    )?;
    observer.wait(objects, objects, progress, |_| true).await?;
    progress.say(&format!("all {objects} websites converged"));

    delete_a_child(cluster, &observer, &first, objects, progress).await?;
    edit_a_spec(cluster, &observer, &first, objects, progress).await?;
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

/// Injects faults that only the embedded server supports, such as broken watches, expired watches, and failing writes.
fn plan_faults(cluster: &Cluster, progress: &Progress) {
    const REPLICAS: u32 = 2;
    let Some(server) = cluster.server() else { return };
    let rule = |times, verb, resource: &str, fault| {
        let (verb, resource) = (Some(verb), Some(resource.into()));
        Rule { verb, resource, times: Some(times), ..Rule::new(fault) }
    };
    for fault in [Fault::CutMidFrame(100), Fault::Expire] {
        // Skip the observer's watch, which is the first one.
        server.faults().add(Rule { after: 1, ..rule(REPLICAS, RequestVerb::Watch, "websites", fault) });
    }
    let unavailable = Answer { retry_after: Some(0), ..Answer::new(503) };
    server.faults().add(rule(3, RequestVerb::Create, "configmaps", Fault::Answer(unavailable)));
    server.faults().add(rule(5, RequestVerb::Create, "deployments", Fault::Answer(Answer::new(500))));
    progress.say("faults to inject: watches cut mid-frame, expired watches, failing writes");
}

/// Kills the leader after a quarter of the sites have converged. Returns the time until the other replica completes a
/// reconcile.
async fn kill_the_leader(
    replicas: &mut [Replica],
    observer: &Observer,
    objects: usize,
    progress: &Progress,
) -> Result<Duration> {
    observer.wait(objects / 4, objects, progress, |_| replicas.iter().any(Replica::is_leader)).await?;
    let leader = replicas.iter_mut().find(|replica| replica.is_leader()).context("no replica leads")?;
    let killed = Instant::now();
    leader.kill().await;
    progress.say(&format!("killed the leader {} after {} websites converged", leader.name, observer.converged()));
    let dead = leader.name.clone();
    let successor = replicas.iter().find(|replica| replica.name != dead).context("there is no other replica")?;
    while successor.work().reconciles == 0 {
        anyhow::ensure!(killed.elapsed() < Duration::from_secs(30), "no replica took over within 30 s");
        sleep(Duration::from_millis(2)).await;
    }
    let failover = killed.elapsed();
    progress.say(&format!("{} took over after {failover:.1?}", successor.name));
    Ok(failover)
}

async fn delete_a_child(
    cluster: &Cluster,
    observer: &Observer,
    site: &ObjectKey,
    objects: usize,
    progress: &Progress,
) -> Result<()> {
    let config_maps = observer.config_maps.lister();
    let old = config_maps.get(site).map(|live| live.uid().to_owned());
    let api: Api<ConfigMap> = cluster.api();
    api.delete(site.clone(), &DeleteOptions::default()).await.with_context(|| format!("configmap {site}"))?;
    let is_new = |_: &Observer| config_maps.get(site).is_some_and(|live| Some(live.uid()) != old.as_deref());
    observer.wait(objects, objects, progress, is_new).await?;
    progress.say(&format!("deleted the ConfigMap of {site}; the controller recreated it"));
    Ok(())
}

async fn edit_a_spec(
    cluster: &Cluster,
    observer: &Observer,
    site: &ObjectKey,
    objects: usize,
    progress: &Progress,
) -> Result<()> {
    let api: Api<Website> = cluster.api();
    let patch = Patch::Merge(json!({"spec": {"replicas": 7, "theme": "light"}}));
    let edited = api.patch(site.clone(), &patch, &WriteOptions::default()).await.with_context(|| site.to_string())?;
    let sites = observer.sites.lister();
    let is_seen =
        |_: &Observer| sites.get(site).is_some_and(|live| live.metadata.generation >= edited.metadata.generation);
    observer.wait(objects, objects, progress, is_seen).await?;
    progress.say(&format!("edited the spec of {site}; the controller updated its children"));
    Ok(())
}
