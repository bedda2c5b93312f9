//! Many large objects: their memory, a list of all of them, and writes beside such lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pintle_restreq::RestClient;
use serde_json::Value;

use super::{Setting, config_map, each, make_maps, quantile_ms, runtime};
use crate::Sample;
use crate::meter::{Tally, measure};
use crate::pods::Pods;

const ALL: &str = "/api/v1/pods";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// In the clean state of a server, which collects what its owners leave behind, the pods have none.
const SERVERS_OWN: [&str; 5] = ["namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences"];

/// So many that a real server holds them, too.
pub(super) fn some(how: &Setting) -> Sample {
    pods(how, how.size(10_000))
}

/// As many as the goals say.
pub(super) fn many(how: &Setting) -> Sample {
    pods(how, how.size(100_000))
}

/// Makes pods, each with its status, and lists them all, as JSON and in protobuf; then writes small objects alone and beside such lists.
fn pods(how: &Setting, n: usize) -> Sample {
    let runtime = runtime();
    let client = runtime.block_on(how.client());
    let pods = Arc::new(Pods::new(n));
    let sample = measure(|| {
        let (client, pods) = (client.clone(), pods.clone());
        runtime.block_on(each(n, 16, move |i| make(client.clone(), pods.clone(), i)));
        Tally::operations(n)
    });
    // All that the server takes is in it, what it takes without a pod as well.
    let made = how.server_bytes();
    runtime.block_on(async {
        // Of the pods as they came, not as the server shows them: it says who owns their fields.
        let json = pods.list(0..n).len();
        let mut first = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let mut list = client.get().abs_path([ALL]).stream().await.expect("a list");
            list.next().await.expect("a first byte").expect("a body");
            first.push(begun.elapsed());
            while let Some(part) = list.next().await {
                drop(part.expect("a body"));
            }
        }
        let mut list = client.get().abs_path([ALL]).header("accept", PROTOBUF).stream().await.expect("a list");
        while let Some(part) = list.next().await {
            drop(part.expect("a body"));
        }
        let shown = how.server_bytes();
        make_maps(&client, "default", 1_000).await;
        let writes = how.size(10_000);
        let alone = quantile_ms(&mut update(&client, writes).await, 0.99);
        let stop = Arc::new(AtomicBool::new(false));
        let lists = tokio::spawn(list_until(client.clone(), stop.clone()));
        let beside = quantile_ms(&mut update(&client, writes).await, 0.99);
        stop.store(true, Ordering::Relaxed);
        lists.await.expect("no panic");
        sample
            .with("bytes of the server by byte of JSON, once made", made / json as f64)
            .with("bytes of the server by byte of JSON, once listed", shown / json as f64)
            .with("ms to the first byte of a LIST", quantile_ms(&mut first, 0.5))
            .with("ms, p99 of a write alone", alone)
            .with("ms, p99 of a write beside LISTs", beside)
            .with("times the p99 alone", beside / alone)
    })
}

async fn make(client: RestClient, pods: Arc<Pods>, i: usize) {
    let mut pod: Value = serde_json::from_slice(pods.list(i..i + 1)).expect("a pod");
    let metadata = pod["metadata"].as_object_mut().expect("metadata");
    SERVERS_OWN.iter().for_each(|field| drop(metadata.remove(*field)));
    let status = pod["status"].clone();
    let create = client.post().abs_path(["/api/v1"]).namespace("default").resource("pods");
    let mut made: Value = create.json(&pod).object().await.expect("a pod");
    made["status"] = status;
    let name = made["metadata"]["name"].as_str().expect("a name").to_owned();
    let put = client.put().abs_path(["/api/v1"]).namespace("default").resource("pods").name(name);
    put.subresource(["status"]).json(&made).raw().await.expect("a status");
}

async fn update(client: &RestClient, n: usize) -> Vec<Duration> {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let round = ROUND.fetch_add(1, Ordering::Relaxed);
    let client = client.clone();
    let update = move |i: usize| {
        let name = format!("c{}", i % 1_000);
        let put = client.put().abs_path(["/api/v1"]).namespace("default").resource("configmaps").name(&name);
        let put = put.json(&config_map(&name, &format!("{round}-{i}")));
        async move { drop(put.raw().await.expect("a write")) }
    };
    each(n, 4, update).await
}

async fn list_until(client: RestClient, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let mut list = client.get().abs_path([ALL]).stream().await.expect("a list");
        while let Some(part) = list.next().await {
            drop(part.expect("a body"));
        }
    }
}
