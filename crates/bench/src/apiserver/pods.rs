//! Workloads with many large objects, which measure memory use, full lists and concurrent writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pintle_restreq::RestClient;
use serde_json::Value;

use super::{Setting, config_map, each, make_maps, runtime};
use crate::meter::{Sample, Tally, measure};
use crate::pods::Pods;
use crate::stopwatch::quantile_ms;

const ALL: &str = "/api/v1/pods";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The fields to remove from a pod before it is created. The server sets most of these fields. Owner references are
/// removed, because the garbage collector deletes pods whose owner does not exist.
const SERVERS_OWN: [&str; 5] = ["namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences"];

/// Runs the workload with a number of pods that a real server can handle.
pub(super) fn some(setting: &Setting) -> Sample {
    pods(setting, setting.size(10_000))
}

pub(super) fn many(setting: &Setting) -> Sample {
    pods(setting, setting.size(100_000))
}

/// Creates pods with a status, and lists the pods as JSON and as protobuf. After creating the pods, this workload
/// writes small objects, first without lists and then during concurrent lists.
fn pods(setting: &Setting, n: usize) -> Sample {
    let runtime = runtime();
    let client = runtime.block_on(setting.client());
    let pods = Arc::new(Pods::new(n));
    let sample = measure(|| {
        let (client, pods) = (client.clone(), pods.clone());
        runtime.block_on(each(n, 16, move |i| make(client.clone(), pods.clone(), i)));
        Tally::operations(n)
    });
    // Report the total memory of the server process instead of only the memory of its pods.
    let made = setting.server_bytes();
    runtime.block_on(async {
        // Report the size of the pods in the create requests as JSON. The stored pods are larger, because they also
        // have managed fields.
        let json = pods.list(0..n).len();
        let mut first = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let mut list = client.get().abs_path([ALL]).stream().await.expect("cannot list the pods");
            list.next().await.expect("the list is not empty").expect("cannot read the list");
            first.push(begun.elapsed());
            while let Some(part) = list.next().await {
                drop(part.expect("cannot read the list"));
            }
        }
        let mut list =
            client.get().abs_path([ALL]).header("accept", PROTOBUF).stream().await.expect("cannot list the pods");
        while let Some(part) = list.next().await {
            drop(part.expect("cannot read the list"));
        }
        let shown = setting.server_bytes();
        make_maps(&client, "default", 1_000).await;
        let writes = setting.size(10_000);
        let alone = quantile_ms(&mut update(&client, writes).await, 0.99);
        let stop = Arc::new(AtomicBool::new(false));
        let lists = tokio::spawn(list_until(client.clone(), stop.clone()));
        let during = quantile_ms(&mut update(&client, writes).await, 0.99);
        stop.store(true, Ordering::Relaxed);
        lists.await.expect("the task does not panic");
        sample
            .with("bytes of the server by byte of JSON, once made", made / json as f64)
            .with("bytes of the server by byte of JSON, once listed", shown / json as f64)
            .with("ms to the first byte of a LIST", quantile_ms(&mut first, 0.5))
            .with("ms, p99 of a write alone", alone)
            .with("ms, p99 of a write during LISTs", during)
            .with("times the p99 alone", during / alone)
    })
}

async fn make(client: RestClient, pods: Arc<Pods>, i: usize) {
    let mut pod: Value = serde_json::from_slice(pods.list(i..i + 1)).expect("a valid pod");
    let metadata = pod["metadata"].as_object_mut().expect("a pod has metadata");
    SERVERS_OWN.iter().for_each(|field| drop(metadata.remove(*field)));
    let status = pod["status"].clone();
    let create = client.post().abs_path(["/api/v1"]).namespace("default").resource("pods");
    let mut made: Value = create.json(&pod).object().await.expect("cannot create a pod");
    made["status"] = status;
    let name = made["metadata"]["name"].as_str().expect("a pod has a name").to_owned();
    let put = client.put().abs_path(["/api/v1"]).namespace("default").resource("pods").name(name);
    put.subresource(["status"]).json(&made).raw().await.expect("cannot update the status");
}

async fn update(client: &RestClient, n: usize) -> Vec<Duration> {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let round = ROUND.fetch_add(1, Ordering::Relaxed);
    let client = client.clone();
    let update = move |i: usize| {
        let name = format!("c{}", i % 1_000);
        let put = client.put().abs_path(["/api/v1"]).namespace("default").resource("configmaps").name(&name);
        let put = put.json(&config_map(&name, &format!("{round}-{i}")));
        async move { drop(put.raw().await.expect("cannot update a config map")) }
    };
    each(n, 4, update).await
}

async fn list_until(client: RestClient, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let mut list = client.get().abs_path([ALL]).stream().await.expect("cannot list the pods");
        while let Some(part) = list.next().await {
            drop(part.expect("cannot read the list"));
        }
    }
}
