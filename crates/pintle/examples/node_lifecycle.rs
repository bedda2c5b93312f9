//! A node lifecycle controller that uses a simple queue for nodes and a rate-limited queue for pod evictions.
//!
//! Nodes need no retries, because the next heartbeat of a node queues the node again. An eviction can fail, for example
//! because of a disruption budget. The delay of an eviction increases with each retry.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle::apiserver::eventually;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::prelude::*;
use pintle::workqueue::{ShutdownMode, WorkQueue};
use serde_json::{Value, json};

const OBJECTS: &str = "
{apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {conditions: [{type: Ready, status: 'True'}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-2}, status: {conditions: [{type: Ready, status: 'True'}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: node-1, containers: [{name: a, image: nginx}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {nodeName: node-2, containers: [{name: b, image: nginx}]}}
";

/// An item in the eviction queue. Queue items can have any type that implements `Hash` and `Clone`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PodUpdateItem {
    key: ObjectKey,
    node: String,
}

async fn node_worker(
    queue: WorkQueue<ObjectKey>,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    pod_update_queue: WorkQueue<PodUpdateItem>,
) {
    while let Some(item) = queue.get().await {
        let Some(node) = nodes.get(&item).filter(|node| !is_ready(node)) else { continue };
        // The index returns the pods of a node without scanning all pods.
        for pod in pods.by_index("node", node.name()).expect("main added the index") {
            pod_update_queue.add(PodUpdateItem { key: pod.key(), node: node.name().into() });
        }
    }
}

async fn pod_worker(queue: WorkQueue<PodUpdateItem>, api: Api<Pod>) {
    while let Some(item) = queue.get().await {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": item.key.name()}});
        let evict = api.subresource::<Value>(item.key.clone(), "eviction");
        match evict.create(&eviction, &WriteOptions::default()).await {
            Ok(_) => {
                println!("{} is evicted from {} after {} retries", item.key, item.node, item.num_requeues());
                item.forget();
            }
            Err(error) => {
                println!("cannot evict {}: {error}", item.key);
                item.retry();
            }
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    let server = cluster.server().context("an embedded server")?;
    server.load(OBJECTS)?;
    let two_failures = Rule { times: Some(2), ..Rule::new(Fault::Answer(Answer::new(500))) };
    server.faults().add(Rule { subresource: Some("eviction".into()), ..two_failures });

    let (nodes, pods, api) = (cluster.informer::<Node>(), cluster.informer::<Pod>(), cluster.namespaced("default"));
    pods.add_index("node", |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()))?;
    pods.wait_for_sync().await?;
    let (node_update_queue, pod_update_queue) = (WorkQueue::default(), WorkQueue::default());
    let queue = node_update_queue.clone();
    let _handler = nodes.add_event_handler(move |event: &ResourceEvent<Node>| queue.add(event.key()));
    tokio::spawn(node_worker(node_update_queue.clone(), nodes.lister(), pods.lister(), pod_update_queue.clone()));
    tokio::spawn(pod_worker(pod_update_queue.clone(), api.clone()));

    // From now on, the node sends no heartbeats.
    let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    cluster.api::<Node>().patch_status("node-2", &Patch::Strategic(unknown), &WriteOptions::default()).await?;
    let is_deleted = async |name| api.get(name).await.is_ok_and(|pod| pod.metadata.deletion_timestamp.is_some());
    ensure!(eventually(Duration::from_secs(30), async || is_deleted("b").await).await, "b is not evicted");
    ensure!(!is_deleted("a").await, "a runs on a healthy node");
    node_update_queue.shut_down(ShutdownMode::FinishBacklog).await;
    pod_update_queue.shut_down(ShutdownMode::FinishBacklog).await;
    cluster.shutdown().await;
    Ok(())
}
