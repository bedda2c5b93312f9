//! Measures an informer's first list.

use std::time::{Duration, Instant};

use pintle_informer::SharedInformer;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Counted, Counter, Handling, Kept, Kind, informer};
use crate::meter::{Sample, Tally, measure};

/// Measures the time from the informer's start until its store is complete. The client exists before the measurement,
/// but has no open connection yet. CPU time and memory are measured until the only handler has received all objects.
pub(super) fn sync<T: Kind>(setting: &Setting, runtime: &Runtime, kept: Kept, streaming_list: bool) -> Sample {
    let informer = informer::<T>(setting, kept, streaming_list);
    let (pods, mut synced, mut handled) = (setting.feed().stats().pods, Duration::ZERO, Duration::ZERO);
    let sample = measure(|| {
        let begin = Instant::now();
        let (counted, took) = runtime.block_on(start(&informer));
        assert_eq!((counted.adds(), informer.lister().len()), (pods, pods));
        (synced, handled) = (took, begin.elapsed());
        Tally::operations(pods)
    });
    sample.with("s until synced", synced.as_secs_f64()).with("s until the handler has all", handled.as_secs_f64())
}

/// Starts the informer, and waits until it has synced and the handler has received all objects. Returns the handler's
/// counts, and the time until the informer had synced.
async fn start<T: Kind>(informer: &SharedInformer<T>) -> (Counted, Duration) {
    let mut counted = Counter::add(informer.subscribe(), u64::MAX, 1, Handling::Metadata);
    let begin = Instant::now();
    informer.start();
    informer.wait_for_sync().await.expect("the informer runs");
    let synced = begin.elapsed();
    assert!(counted.guard.synced().await, "the informer runs");
    (counted, synced)
}

pub(super) async fn start_and_settle<T: Kind>(setting: &Setting, informer: &SharedInformer<T>) {
    drop(start(informer).await);
    setting.settle().await;
    setting.feed().wait_for_watch();
}
