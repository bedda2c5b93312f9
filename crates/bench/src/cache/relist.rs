//! A list anew, after a watch that the server ended as too old.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Counter, Kept, informer};
use super::sync::start_and_settle;
use crate::Sample;
use crate::meter::{Tally, measure, peak, resident};

/// One pod of a hundred has changed. From the moment at which the list is asked for, after whatever back-off, until a handler has been
/// told what changed. CPU and memory are measured from the end of the watch until a second after that. What was resident before it is
/// what the first list left behind when it had settled: on no side has anything been collected or given back for that.
pub(super) fn relist(how: &Setting, runtime: &Runtime) -> Sample {
    let informer = informer::<Pod>(how, Kept::All, false);
    runtime.block_on(start_and_settle(how, &informer));
    let stats = how.feed.stats();
    let changed = stats.pods / 100;
    let mut counted = Counter::add(informer.subscribe(), stats.version + 1, changed);
    let synced = runtime.block_on(counted.guard.synced());
    assert!(synced, "the informer runs");
    let steady = resident();
    let mut took = Duration::ZERO;
    let sample = measure(|| {
        how.feed.expire(changed);
        runtime.block_on(async {
            let done = counted.done().await;
            took = how.feed.since_list() - (Instant::now() - done);
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
        Tally::operations(stats.pods)
    });
    let sample = sample.with("s from list to handler", took.as_secs_f64());
    sample.with("peak over steady, nothing reclaimed", peak() / steady).with("bytes steady, nothing reclaimed", steady)
}
