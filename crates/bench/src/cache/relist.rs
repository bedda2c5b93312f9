//! Measures the re-list of an informer after the server has ended the watch with 410 Expired.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Counter, Handling, Kept, informer};
use super::sync::start_and_settle;
use crate::meter::{Sample, Tally, measure, peak, resident};

/// One pod in a hundred changes before the re-list. The wall time runs from the list request until a handler has
/// received all changes, so it excludes the backoff. CPU time and memory are measured from the end of the watch
/// until one second after the last change was received. No program collects garbage or returns memory to the system
/// between the first list and the measurement.
pub(super) fn relist(setting: &Setting, runtime: &Runtime) -> Sample {
    let informer = informer::<Pod>(setting, Kept::All, false);
    runtime.block_on(start_and_settle(setting, &informer));
    let stats = setting.feed().stats();
    let changed = stats.pods / 100;
    let mut counted = Counter::add(informer.subscribe(), stats.version + 1, changed, Handling::Metadata);
    let synced = runtime.block_on(counted.guard.synced());
    assert!(synced, "the informer runs");
    let steady = resident();
    let mut took = Duration::ZERO;
    let sample = measure(|| {
        setting.feed().expire(changed);
        runtime.block_on(async {
            let done = counted.done().await;
            took = setting.feed().since_list() - (Instant::now() - done);
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
        Tally::operations(stats.pods)
    });
    let sample = sample.with("s from list to handler", took.as_secs_f64());
    sample.with("peak over steady, nothing reclaimed", peak() / steady).with("bytes steady, nothing reclaimed", steady)
}
