//! Tests with endless sources, whose items are always ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer};
use pintle_meta::{ListPart, RawObject, WatchEvent};
use serde_json::json;

use crate::support::scripted::{Items, Scripted, list, raw, silence};

/// The number of items in an "endless" source. The number is finite so that a failing test ends.
const ENDLESS: usize = 100_000;

fn endless<I: Send + 'static>(item: fn(RawObject) -> I, taken: &Arc<AtomicUsize>) -> Items<I> {
    let taken = taken.clone();
    let pod = raw(&json!({"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "2"}, "node": ""}));
    Box::new((0..ENDLESS).map(move |_| {
        taken.fetch_add(1, Ordering::Relaxed);
        item(pod.clone())
    }))
}

#[tokio::test]
async fn endless_source_yields_and_stops_at_once() {
    let sources: [fn(Arc<AtomicUsize>) -> Scripted; 2] = [
        |taken| Scripted::new(move || Ok(endless(ListPart::Item, &taken)), || Ok(silence())),
        |taken| Scripted::new(|| Ok(list(&[], "1")), move || Ok(endless(WatchEvent::Modified, &taken))),
    ];
    for (source, streaming_list) in [(sources[0], false), (sources[1], false), (sources[1], true)] {
        let taken = Arc::new(AtomicUsize::new(0));
        let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
        let config = InformerConfig { reflector, ..InformerConfig::default() };
        let informer = SharedInformer::new(source(taken.clone()), config);
        informer.start();
        while taken.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let before = taken.load(Ordering::Relaxed);
        assert!(before <= 1_000, "{before} items without a yield");
        informer.shutdown().await;
        let after = taken.load(Ordering::Relaxed);
        assert!(after - before <= 10, "{} items after the stop", after - before);
    }
}
