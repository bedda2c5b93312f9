//! Workloads with many watchers of one resource, which measure the cost per watcher and count lost events.

use std::sync::Arc;
use std::time::Instant;

use pintle_restreq::RestClient;
use tokio::sync::Semaphore;

use super::{Setting, config_map, each, make_maps, make_namespace, runtime};
use crate::meter::{Sample, Tally, measure};

/// The number of watches per connection.
const SHARED: usize = 50;
const NAMESPACE: &str = "watched";

/// Makes 1,000 changes that each of 1,000 watchers must receive. After these changes, connects 100 more watchers
/// that do not read, and makes another 1,000 changes.
pub(super) fn watchers(setting: &Setting) -> Sample {
    let runtime = runtime();
    let (watchers, changes) = (setting.size(1_000), setting.size(1_000));
    let client = runtime.block_on(setting.client());
    runtime.block_on(async {
        make_namespace(&client, NAMESPACE).await;
        make_maps(&client, NAMESPACE, changes).await;
    });
    let before = setting.server_bytes();
    let ready = Arc::new(Semaphore::new(0));
    let tasks = runtime.block_on(async {
        let mut tasks = Vec::new();
        for i in 0..watchers {
            let client = if i % SHARED == 0 { setting.client().await } else { client_of(&tasks) };
            tasks.push((client.clone(), tokio::spawn(receive(client, changes, ready.clone()))));
        }
        let all = u32::try_from(watchers).expect("the number fits");
        ready.acquire_many(all).await.expect("the semaphore stays open").forget();
        tasks
    });
    let resting = setting.server_bytes();
    let mut received = 0;
    let writer = client.clone();
    let begun = Instant::now();
    let sample = measure(|| {
        runtime.block_on(async {
            change(&writer, changes, "other").await;
            for (_, task) in tasks {
                received += task.await.expect("the watcher does not panic");
            }
        });
        Tally::operations(watchers * changes)
    });
    let seconds = begun.elapsed().as_secs_f64();
    let served = setting.server_bytes();
    let unread = runtime.block_on(unread(setting, &client, changes));
    sample
        .with("events lost", (watchers * changes - received) as f64)
        .with("KB of the server by watcher at rest", (resting - before) / 1e3 / watchers as f64)
        .with("KB of the server by watcher after the changes", (served - before) / 1e3 / watchers as f64)
        .with("KB of the server more by watcher that reads nothing", unread / 1e3)
        .with("s", seconds)
}

/// Returns the server memory in bytes per watcher that does not read. The events do not fit into the socket buffers,
/// because each watched object has 1 KB.
async fn unread(setting: &Setting, client: &RestClient, changes: usize) -> f64 {
    const WATCHERS: usize = 100;
    change(client, changes, &"x".repeat(1_000)).await;
    let before = setting.server_bytes();
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        let client = setting.client().await;
        let watch =
            client.get().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").param("watch", "true");
        watches.push((watch.raw_watch().await.expect("cannot open a watch"), client));
    }
    change(client, changes, &"y".repeat(1_000)).await;
    (setting.server_bytes() - before) / WATCHERS as f64
}

async fn change(client: &RestClient, changes: usize, value: &str) {
    let (client, value) = (client.clone(), value.to_owned());
    let write = move |i: usize| {
        let name = format!("c{i}");
        let put = client.put().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").name(&name);
        let put = put.json(&config_map(&name, &value));
        async move { drop(put.raw().await.expect("cannot update a config map")) }
    };
    each(changes, 16, write).await;
}

type Watching = (RestClient, tokio::task::JoinHandle<usize>);

fn client_of(tasks: &[Watching]) -> RestClient {
    tasks.last().expect("the first watcher has its own client").0.clone()
}

/// Waits until the watch has received `changes` events or has ended, and returns the number of received events.
async fn receive(client: RestClient, changes: usize, ready: Arc<Semaphore>) -> usize {
    let watch = client.get().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").param("watch", "true");
    let list: serde_json::Value = {
        let list = client.get().abs_path(["/api/v1"]).namespace(NAMESPACE).resource("configmaps").param("limit", "1");
        list.object().await.expect("cannot list the config maps")
    };
    let version = list["metadata"]["resourceVersion"].as_str().expect("a list has a version");
    let mut watch = watch.param("resourceVersion", version).raw_watch().await.expect("cannot open a watch");
    ready.add_permits(1);
    let mut received = 0;
    while received < changes
        && let Some(Ok(_)) = futures_util::StreamExt::next(&mut watch).await
    {
        received += 1;
    }
    received
}
