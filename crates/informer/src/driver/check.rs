//! Checks whether stored objects can be decoded while the informer is idle.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_meta::Object;
use tokio::time::{Instant, sleep};

use super::offload::off_the_runtime;
use crate::publisher::Publisher;
use crate::stored::{Record, Source, Stored};

const IDLE: Duration = Duration::from_secs(1);

/// The maximum time that a check waits for the informer to become idle, before it runs between the writes of the busy
/// informer. While the informer is busy, the check uses at most 10 % of the time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of objects in one batch. Checking a batch takes a few milliseconds.
const BATCH: usize = 64;

/// Finds stored objects that cannot be decoded, and restores earlier decodable states. The check also handles
/// undecodable objects that readers have detected.
pub(super) async fn check<T: Object>(publisher: &Arc<Publisher<T>>) -> Infallible {
    let Some(source) = publisher.cache.source() else { return pending().await };
    loop {
        source.changed.notified().await;
        restore(publisher, source).await;
        if source.has_unchecked() {
            wait_until_idle(publisher, source).await;
            // Clear the flag before taking the snapshot of the check, so that each later write starts another check.
            source.clear_unchecked();
            check_all(publisher, source).await;
        }
    }
}

async fn wait_until_idle<T: Object>(publisher: &Arc<Publisher<T>>, source: &Arc<Source<T>>) {
    let begun = Instant::now();
    let mut writes = publisher.writes();
    let mut idle = Box::pin(sleep(IDLE));
    while begun.elapsed() < PATIENCE {
        tokio::select! {
            () = &mut idle => {}
            () = source.changed.notified() => {
                restore(publisher, source).await;
                continue;
            }
        }
        let now = publisher.writes();
        if now == writes {
            return;
        }
        writes = now;
        idle = Box::pin(sleep(IDLE));
    }
}

async fn check_all<T: Object>(publisher: &Arc<Publisher<T>>, source: &Arc<Source<T>>) {
    let cache = publisher.cache.clone();
    let mut unchecked = off_the_runtime(move || {
        let mut unchecked: Vec<Weak<Record<T>>> = Vec::new();
        let (pin, ()) = cache.store.pin(|_| ());
        pin.visit(|object| match object {
            Stored::Lazy(record) if record.is_unchecked() => unchecked.push(Arc::downgrade(record)),
            Stored::Lazy(_) | Stored::Eager(..) => {}
        });
        unchecked
    })
    .await;
    while !unchecked.is_empty() {
        let batch = unchecked.split_off(unchecked.len().saturating_sub(BATCH));
        let (begun, writes) = (Instant::now(), publisher.writes());
        off_the_runtime(move || batch.iter().filter_map(Weak::upgrade).for_each(|record| record.check())).await;
        restore(publisher, source).await;
        if publisher.writes() != writes {
            sleep(9 * begun.elapsed()).await;
        }
    }
}

async fn restore<T: Object>(publisher: &Arc<Publisher<T>>, source: &Arc<Source<T>>) {
    // `source` keeps the list of detected objects until `forget_found` is called. Only the task of the informer calls
    // `forget_found`.
    let found = source.found();
    let count = found.len();
    if count > 0 {
        let turn = publisher.turn().await;
        let publisher = publisher.clone();
        off_the_runtime(move || {
            publisher.restore(found);
            drop(turn);
        })
        .await;
        source.forget_found(count);
    }
}
