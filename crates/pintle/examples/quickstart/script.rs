//! What happens when: the run from the first website to the summary.

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

/// Runs it all. Whether all websites converged.
pub(crate) async fn run(flags: Flags) -> Result<bool> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let definition = manifests::read(&here.join("crd.yaml"))?;
    let websites = manifests::read_dir(flags.sites.as_deref().unwrap_or(&here.join("sites")))?;
    manifests::expect_websites(&websites)?;

    let progress = Progress::new();
    let mut stage = Stage::open(flags.kubeconfig.as_deref()).await?;
    progress.say(&format!("the API server is {}", stage.cluster.config().server));
    let outcome = perform(&mut stage, &definition, websites, &flags, &progress).await;
    // A run that goes wrong leaves no more behind than one that goes well.
    let tidied = if flags.serve && outcome.is_ok() { Ok(()) } else { stage.tidy().await };
    stage.cluster.shutdown().await;
    match (outcome, tidied) {
        (Err(error), Err(left)) => {
            Err(error.context(format!("what the run made is still there: {left:#}; it failed with")))
        }
        (outcome, tidied) => tidied.and(outcome),
    }
}

/// Sets the stage, and plays on it.
async fn perform(
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
    // An error drops the replicas at once: whoever made a mistake hears of it without waiting for them.
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

/// Plays it all. The replicas that are left are still at work.
async fn play(stage: &Stage, websites: Vec<Manifest>, progress: &Progress) -> Result<(Summary, Vec<Replica>)> {
    let cluster = &stage.cluster;
    let started = Instant::now();
    let objects = websites.len();
    let first = websites.first().map(|manifest| manifest.object.key()).context("there are no websites")?;
    plan_faults(cluster, progress);
    let observer = Observer::start(cluster).await?;
    let mut replicas =
        vec![Replica::start("replica-1", cluster.config())?, Replica::start("replica-2", cluster.config())?];
    progress.say(&format!("two replicas contend for the lease; {objects} websites come in"));

    let ((), failover) = tokio::try_join!(
        stage.create_websites(websites),
        kill_the_leader(&mut replicas, &observer, objects, progress),
    )?;
    observer.wait(objects, objects, progress, |_| true).await?;
    progress.say(&format!("all {objects} websites converged"));

    delete_a_child(cluster, &observer, &first, objects, progress).await?;
    edit_a_spec(cluster, &observer, &first, objects, progress).await?;
    if let Some(server) = cluster.server() {
        progress.say(&format!("the server struck {} times as planned", server.faults().hits()));
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

/// What only the embedded server can do: watches that break and come back too old, and writes that fail.
fn plan_faults(cluster: &Cluster, progress: &Progress) {
    const REPLICAS: u32 = 2;
    let Some(server) = cluster.server() else { return };
    let strike = |times, verb, resource: &str, fault| {
        let (verb, resource) = (Some(verb), Some(resource.into()));
        Rule { verb, resource, times: Some(times), ..Rule::new(fault) }
    };
    for fault in [Fault::CutMidFrame(100), Fault::Expire] {
        // One watch passes: the observer's, who is to see what the others go through.
        server.faults().add(Rule { after: 1, ..strike(REPLICAS, RequestVerb::Watch, "websites", fault) });
    }
    let refusal = Answer { retry_after: Some(0), ..Answer::new(503) };
    server.faults().add(strike(3, RequestVerb::Create, "configmaps", Fault::Answer(refusal)));
    server.faults().add(strike(5, RequestVerb::Create, "deployments", Fault::Answer(Answer::new(500))));
    progress.say("planned: watches are cut mid-frame, then expire; some writes fail");
}

/// Lets the leader do a part of the work, takes its power away, and times the other one's start.
async fn kill_the_leader(
    replicas: &mut [Replica],
    observer: &Observer,
    objects: usize,
    progress: &Progress,
) -> Result<Duration> {
    observer.wait(objects / 4, objects, progress, |_| replicas.iter().any(Replica::is_leader)).await?;
    let leader = replicas.iter_mut().find(|replica| replica.is_leader()).context("nobody leads")?;
    let killed = Instant::now();
    leader.kill().await;
    progress.say(&format!("{} led, and was killed with {} websites done", leader.name, observer.converged()));
    let dead = leader.name.clone();
    let heir = replicas.iter().find(|replica| replica.name != dead).context("there is no other replica")?;
    while heir.work().reconciles == 0 {
        anyhow::ensure!(killed.elapsed() < Duration::from_secs(30), "nobody took over within 30 s");
        sleep(Duration::from_millis(2)).await;
    }
    let failover = killed.elapsed();
    progress.say(&format!("{} took over after {failover:.1?}", heir.name));
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
    progress.say(&format!("the config map of {site} was deleted by hand, and came back"));
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
    progress.say(&format!("the spec of {site} was edited, and its children followed"));
    Ok(())
}
