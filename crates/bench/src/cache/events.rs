//! Measures the latency of updates from the watch to the handlers.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use pintle_informer::SharedInformer;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Counted, Counter, Handling, Kept, Kind, informer};
use super::sync::start_and_settle;
use crate::meter::{Sample, Tally, measure};

/// Requests 200,000 updates from the load server. Measures the time until every handler has received them.
///
/// By default, Pintle merges the pending updates of an object for a slow handler. In this workload, the
/// subscriptions deliver every event, as with the other libraries. The results include the fraction of events
/// that the slowest handler received.
pub(super) fn events<T: Kind>(setting: &Setting, runtime: &Runtime, kept: Kept, handling: Handling) -> Sample {
    let informer = informer::<T>(setting, kept, false);
    runtime.block_on(start_and_settle(setting, &informer));
    round(setting, runtime, &informer, 200_000, &[handling], 0)
}

pub(super) fn events_to(setting: &Setting, runtime: &Runtime, handlers: usize) -> Sample {
    let informer = informer::<Pod>(setting, Kept::All, false);
    runtime.block_on(start_and_settle(setting, &informer));
    let one = round(setting, runtime, &informer, 200_000, &[Handling::Metadata], 0);
    let all = round(setting, runtime, &informer, 200_000, &vec![Handling::Metadata; handlers], 1);
    let times = all.cpu_ns / one.cpu_ns;
    all.with("times the CPU of one", times)
}

/// Measures a round of `updates` updates. `before` is the number of completed rounds.
fn round<T: Kind>(
    setting: &Setting,
    runtime: &Runtime,
    informer: &SharedInformer<T>,
    updates: usize,
    handlers: &[Handling],
    before: usize,
) -> Sample {
    let (stats, n) = (setting.feed().stats(), setting.size(updates));
    let changed = n.min(stats.pods);
    // In the second round, use resource versions that the first round did not use.
    let first = n * before;
    let newest = stats.version + (first + n - changed) as u64 + 1;
    let mut counted: Vec<Counted> = handlers
        .iter()
        .map(|handling| Counter::add(informer.subscribe_ordered(stats.pods + n), newest, changed, *handling))
        .collect();
    runtime.block_on(async {
        for handler in &mut counted {
            assert!(handler.guard.synced().await, "the informer runs");
        }
    });
    let (mut begin, mut end) = (Instant::now(), Instant::now());
    let sample = measure(|| {
        begin = setting.feed().events(first, n);
        runtime.block_on(async {
            for handler in &mut counted {
                end = handler.done().await.max(end);
            }
        });
        Tally::operations(n)
    });
    let fewest = counted.iter().map(Counted::updates).min().unwrap_or_default();
    let per_second = n as f64 / (end - begin).as_secs_f64();
    sample.with("events/s", per_second).with("share of the events delivered", fewest as f64 / n as f64)
}
