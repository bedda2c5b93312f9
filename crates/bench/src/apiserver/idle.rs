//! Measures the cost of a write while other clients watch other namespaces.

use std::time::Instant;

use pintle_restreq::RestClient;

use super::{Setting, config_map, make_maps, make_namespace, runtime};
use crate::meter::{Sample, Tally, measure};

/// The number of watches per connection.
const SHARED: usize = 50;

/// Measures writes one after another, with 0, 100 and 1,000 idle watchers. Each watcher watches another
/// namespace.
pub(super) fn idle(setting: &Setting) -> Sample {
    let runtime = runtime();
    let client = runtime.block_on(setting.client());
    let writes = setting.size(5_000);
    runtime.block_on(async {
        make_namespace(&client, "written").await;
        make_maps(&client, "written", 100).await;
        write(&client, writes / 5).await;
    });
    let mut watches = Vec::new();
    let mut costs = Vec::new();
    let sample = measure(|| {
        runtime.block_on(async {
            for watchers in [0, setting.size(100), setting.size(1_000)] {
                while watches.len() < watchers {
                    watches.push(watch(setting, &client, watches.len(), watches.last()).await);
                }
                costs.push(write(&client, writes).await);
            }
        });
        Tally::operations(3 * writes)
    });
    sample
        .with("us a write with no watchers", costs[0])
        .with("us a write with 100 watchers", costs[1])
        .with("us a write with 1,000 watchers", costs[2])
        .with("times the cost with no watchers", costs[2] / costs[0])
}

type Watch = (RestClient, pintle_restreq::RawWatch);

async fn watch(setting: &Setting, maker: &RestClient, i: usize, last: Option<&Watch>) -> Watch {
    let namespace = format!("watched-{i}");
    make_namespace(maker, &namespace).await;
    let client = match last {
        Some((client, _)) if !i.is_multiple_of(SHARED) => client.clone(),
        _ => setting.client().await,
    };
    let watch = client.get().abs_path(["/api/v1"]).namespace(namespace).resource("configmaps").param("watch", "true");
    let watch = watch.raw_watch().await.expect("cannot open a watch");
    (client, watch)
}

/// Sends writes one after another, and returns the time per write in microseconds.
async fn write(client: &RestClient, n: usize) -> f64 {
    let begun = Instant::now();
    for i in 0..n {
        let name = format!("c{}", i % 100);
        let put = client.put().abs_path(["/api/v1"]).namespace("written").resource("configmaps").name(&name);
        put.json(&config_map(&name, &begun.elapsed().as_nanos().to_string()))
            .raw()
            .await
            .expect("cannot update a config map");
    }
    begun.elapsed().as_secs_f64() * 1e6 / n as f64
}
