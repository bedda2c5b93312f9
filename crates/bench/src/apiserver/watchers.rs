//! Many watchers of one resource: what they cost, and that none of them loses a change.

use std::sync::Arc;
use std::time::Instant;

use pintle_restreq::RestClient;
use tokio::sync::Semaphore;

use super::{Setting, config_map, each, make_maps, make_namespace, runtime};
use crate::Sample;
use crate::meter::{Tally, measure};

/// So many watches share a connection.
const SHARED: usize = 50;
const NAMESPACE: &str = "watched";

/// Each of 1,000 watchers is to hear 1,000 changes. Then 100 more hear none of as many: they ask, and read nothing.
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
    let writer = client.clone();
    let begun = Instant::now();
    let sample = measure(|| {
        runtime.block_on(async {
            change(&writer, changes, "other").await;
            for (_, task) in tasks {
                heard += task.await.expect("no panic");
            }
        });
        Tally::operations(watchers * changes)
    });
    let seconds = begun.elapsed().as_secs_f64();
    let served = how.server_bytes();
    let unread = runtime.block_on(unread(how, &client, changes));
    sample
        .with("events lost", (watchers * changes - heard) as f64)
        .with("KB of the server by watcher at rest", (resting - before) / 1e3 / watchers as f64)
        .with("KB of the server by watcher after the changes", (served - before) / 1e3 / watchers as f64)
        .with("KB of the server more by watcher that reads nothing", unread / 1e3)
        .with("s", seconds)
}

/// What each watcher costs that reads nothing of what changes, in bytes. Each object is of a KB, so that it is more than what sockets take.
async fn unread(how: &Setting, client: &RestClient, changes: usize) -> f64 {
    const WATCHERS: usize = 100;
    change(client, changes, &"x".repeat(1_000)).await;
    let before = how.server_bytes();
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        let client = how.client().await;
        let watch =
            client.get().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").param("watch", "true");
        watches.push((watch.raw_watch().await.expect("a watch"), client));
    }
    change(client, changes, &"y".repeat(1_000)).await;
    (how.server_bytes() - before) / WATCHERS as f64
}

/// Writes each object once.
async fn change(client: &RestClient, changes: usize, value: &str) {
    let (client, value) = (client.clone(), value.to_owned());
    let write = move |i: usize| {
        let name = format!("c{i}");
        let put = client.put().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").name(&name);
        let put = put.json(&config_map(&name, &value));
        async move { drop(put.raw().await.expect("a write")) }
    };
    each(changes, 16, write).await;
}

type Watching = (RestClient, tokio::task::JoinHandle<usize>);

fn client_of(tasks: &[Watching]) -> RestClient {
    tasks.last().expect("the first has a client of its own").0.clone()
}

/// Hears so many changes, or as many as come before the watch ends.
async fn hear(client: RestClient, changes: usize, ready: Arc<Semaphore>) -> usize {
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
