//! The first list of an informer.

use std::time::{Duration, Instant};

use pintle_informer::SharedInformer;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Counted, Counter, Kept, Kind, informer};
use crate::Sample;
use crate::meter::{Tally, measure};

/// From the start of the informer, whose client is there and has no connection yet, until its store is whole: that is told. CPU and
/// memory are measured until its one handler, which counts, has been told all of it.
pub(super) fn sync<T: Kind>(how: &Setting, runtime: &Runtime, kept: Kept, streaming_list: bool) -> Sample {
    let informer = informer::<T>(how, kept, streaming_list);
    let (pods, mut synced) = (how.feed.stats().pods, Duration::ZERO);
    let sample = measure(|| {
        let (counted, took) = runtime.block_on(start(&informer));
        assert_eq!((counted.adds(), informer.lister().len()), (pods, pods));
        synced = took;
        Tally::operations(pods)
    });
    sample.with("s until synced", synced.as_secs_f64())
}

/// Starts it, and waits for the store and for a handler. Returns how long the store took.
async fn start<T: Kind>(informer: &SharedInformer<T>) -> (Counted, Duration) {
    let mut counted = Counter::add(informer.subscribe(), u64::MAX, 1);
    let begin = Instant::now();
    informer.start();
    informer.wait_for_sync().await.expect("it is not shut down");
    let synced = begin.elapsed();
    assert!(counted.guard.synced().await, "the informer runs");
    (counted, synced)
}

/// Starts it as all works do that go on from there, and lets it settle.
pub(super) async fn start_and_settle<T: Kind>(how: &Setting, informer: &SharedInformer<T>) {
    drop(start(informer).await);
    how.settle().await;
    how.feed.wait_for_watch();
}
