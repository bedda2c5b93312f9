//! The scenes of the demo: faults, the death of the leader, and changes by users.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::apiserver::RequestVerb;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::prelude::*;
use serde_json::json;
use tokio::time::sleep;

use crate::observer::Observer;
use crate::progress::Progress;
use crate::replica::Replica;
use crate::website::Website;

/// Injects faults that only the embedded server supports, such as broken watches, expired watches and failed writes.
pub(crate) fn plan_faults(cluster: &Cluster, progress: &Progress) {
    // Both replicas and the observer watch the websites.
    const WATCHES: u32 = 3;
    let Some(server) = cluster.server() else { return };
    let rule = |times, verb, resource: &str, fault| {
        let (verb, resource) = (Some(verb), Some(resource.into()));
        Rule { verb, resource, times: Some(times), ..Rule::new(fault) }
    };
    for fault in [Fault::CutMidFrame(100), Fault::Expire] {
        server.faults().add(rule(WATCHES, RequestVerb::Watch, "websites", fault));
    }
    let unavailable = Answer { retry_after: Some(0), ..Answer::new(503) };
    server.faults().add(rule(3, RequestVerb::Patch, "configmaps", Fault::Answer(unavailable)));
    server.faults().add(rule(5, RequestVerb::Patch, "deployments", Fault::Answer(Answer::new(500))));
    progress.say("faults to inject: watches cut mid-frame, expired watches, failing writes");
}

/// Kills the leader when a quarter of the sites have converged. Returns the time until the other replica has completed
/// its first reconciliation.
pub(crate) async fn kill_the_leader(
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

pub(crate) async fn delete_a_child(
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

pub(crate) async fn edit_a_spec(
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
