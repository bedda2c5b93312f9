//! Measures a thousand watches with one event per second each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle_meta::{WatchEvent, WatchOptions};
use pintle_restreq::Api;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Protocol, Setting};
use crate::meter::{Sample, Tally, measure, resident, sockets};

/// Each watch has a task that decodes its events. The watches use HTTP/2 if the client library supports it. Measures
/// the growth of resident memory and of the number of open sockets, from the first watch until the end of the
/// measurement.
pub(super) fn watches(setting: &Setting, runtime: &Runtime) -> Sample {
    const WATCHES: usize = 1_000;
    let api: Api<ConfigMap> = Api::namespaced(Protocol::Http2.client(setting), "default");
    let (bytes, connections) = (resident(), sockets());
    let (opened, events) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..WATCHES {
        let (api, opened, events) = (api.clone(), opened.clone(), events.clone());
        let task = async move {
            let mut watch = api.watch(&WatchOptions::default()).await.expect("the server answers");
            opened.fetch_add(1, Ordering::Relaxed);
            while let Some(event) = watch.next().await {
                let Ok(WatchEvent::Modified(map)) = event else { panic!("{event:?}") };
                assert!(map.data.is_some_and(|data| data["key"] == "value"));
                events.fetch_add(1, Ordering::Relaxed);
            }
            panic!("the server ended the watch");
        };
        tasks.spawn_on(task, runtime.handle());
    }
    runtime.block_on(async {
        while opened.load(Ordering::Relaxed) < WATCHES {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_secs(2)).await;
    });
    let before = events.load(Ordering::Relaxed);
    let sample = measure(|| {
        runtime.block_on(sleep(if setting.quick { Duration::from_secs(1) } else { Duration::from_secs(10) }));
        Tally::operations(events.load(Ordering::Relaxed) - before)
    });
    assert!(tasks.try_join_next().is_none(), "a watch ended");
    let bytes = (resident() - bytes) / WATCHES as f64;
    sample.with("bytes resident a watch", bytes).with("connections", sockets() - connections)
}
