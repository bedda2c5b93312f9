//! Updates from a watch to handlers.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use pintle_informer::SharedInformer;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Counted, Counter, Kept, Kind, informer};
use super::sync::start_and_settle;
use crate::Sample;
use crate::meter::{Tally, measure};

/// From the moment at which the server is asked for 200,000 updates until each of so many handlers has been told all of them. Ours could
/// be told the last state alone of what waits for them; here they are told each event, as those of the other sides: how many it were of
/// the handler that was told fewest, of those that the server sent, is told.
pub(super) fn events<T: Kind>(how: &Setting, runtime: &Runtime, kept: Kept) -> Sample {
    let informer = informer::<T>(how, kept, false);
    runtime.block_on(start_and_settle(how, &informer));
    round(how, runtime, &informer, 200_000, 1, 0)
}

/// The same to one handler, and then to so many.
pub(super) fn events_to(how: &Setting, runtime: &Runtime, handlers: usize) -> Sample {
    let informer = informer::<Pod>(how, Kept::All, false);
    runtime.block_on(start_and_settle(how, &informer));
    let one = round(how, runtime, &informer, 200_000, 1, 0);
    let all = round(how, runtime, &informer, 200_000, handlers, 1);
    let times = all.cpu_ns / one.cpu_ns;
    all.with("times the CPU of one", times)
}

/// So many updates. `before`: how many rounds there were.
fn round<T: Kind>(
    how: &Setting,
    runtime: &Runtime,
    informer: &SharedInformer<T>,
    updates: usize,
    handlers: usize,
    before: usize,
) -> Sample {
    let (stats, n) = (how.feed.stats(), how.size(updates));
    let changed = n.min(stats.pods);
    // The versions of the second round are to be other ones.
    let first = n * before;
    let newest = stats.version + (first + n - changed) as u64 + 1;
    let mut counted: Vec<Counted> =
        (0..handlers).map(|_| Counter::add(informer.subscribe_ordered(stats.pods + n), newest, changed)).collect();
    runtime.block_on(async {
        for handler in &mut counted {
            assert!(handler.guard.synced().await, "the informer runs");
        }
    });
    let (mut begin, mut end) = (Instant::now(), Instant::now());
    let sample = measure(|| {
        begin = how.feed.events(first, n);
        runtime.block_on(async {
            for handler in &mut counted {
                end = handler.done().await.max(end);
            }
        });
        Tally::operations(n)
    });
    let fewest = counted.iter().map(Counted::updates).min().unwrap_or_default();
    let per_second = n as f64 / (end - begin).as_secs_f64();
    sample.with("events/s", per_second).with("of the events told", fewest as f64 / n as f64)
}
