//! Many watchers of one resource: what they cost, and that none of them loses a change.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;

use super::{Setting, config_map, each, make_maps, make_namespace, runtime};
use crate::Sample;
use crate::meter::{Tally, measure};

/// So many watches share a connection.
const SHARED: usize = 50;
const NAMESPACE: &str = "watched";

/// Each of 1,000 watchers is to hear 1,000 changes.
pub(super) fn watchers(how: &Setting) -> Sample {
    let runtime = runtime();
    let (watchers, changes) = (how.size(1_000), how.size(1_000));
    let client = runtime.block_on(how.client());
    runtime.block_on(async {
        make_namespace(&client, NAMESPACE).await;
        make_maps(&client, NAMESPACE, changes).await;
    });
    let before = how.server_bytes();
    let ready = Arc::new(Semaphore::new(0));
    let tasks = runtime.block_on(async {
        let mut tasks = Vec::new();
        for i in 0..watchers {
            let client = if i % SHARED == 0 { how.client().await } else { client_of(&tasks) };
            tasks.push((client.clone(), tokio::spawn(hear(client, changes, ready.clone()))));
        }
        let all = u32::try_from(watchers).expect("not that many");
        ready.acquire_many(all).await.expect("it stays open").forget();
        tasks
    });
    let resting = how.server_bytes();
    let mut heard = 0;
    let begun = Instant::now();
    let sample = measure(|| {
        runtime.block_on(async {
            let writes = each(changes, 16, move |i| {
                let name = format!("c{i}");
                let put = client.put().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").name(&name);
                let put = put.json(&config_map(&name, "other"));
                async move { drop(put.raw().await.expect("a write")) }
            });
            writes.await;
            for (_, task) in tasks {
                heard += task.await.expect("no panic");
            }
        });
        Tally::operations(watchers * changes)
    });
    let seconds = begun.elapsed().as_secs_f64();
    sample
        .with("events lost", (watchers * changes - heard) as f64)
        .with("KB of the server by watcher at rest", (resting - before) / 1e3 / watchers as f64)
        .with("s", seconds)
}

type Watching = (pintle_restreq::RestClient, tokio::task::JoinHandle<usize>);

fn client_of(tasks: &[Watching]) -> pintle_restreq::RestClient {
    tasks.last().expect("the first has a client of its own").0.clone()
}

/// Hears so many changes, or as many as come before the watch ends.
async fn hear(client: pintle_restreq::RestClient, changes: usize, ready: Arc<Semaphore>) -> usize {
    let watch = client.get().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").param("watch", "true");
    let list: serde_json::Value = {
        let list = client.get().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").param("limit", "1");
        list.object().await.expect("a list")
    };
    let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
    let mut watch = watch.param("resourceVersion", version).raw_watch().await.expect("a watch");
    ready.add_permits(1);
    let mut heard = 0;
    while heard < changes
        && let Some(Ok(_)) = futures_util::StreamExt::next(&mut watch).await
    {
        heard += 1;
    }
    heard
}
