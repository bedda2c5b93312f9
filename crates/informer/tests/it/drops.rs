//! Tests on which thread objects are dropped, and what happens if dropping an object panics.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pintle_informer::{Cache, InformerConfig, InformerState, Projection, ReflectorConfig, SharedInformer, StopCause};
use pintle_meta::{ObjectMeta, Reason};
use pintle_testing::{Break, Collection, CollectionConfig, Outcome, Verb};
use serde::Deserialize;
use serde_json::json;

use crate::log::Log;
use crate::support::{failure, key, settle};

async fn long() {
    tokio::time::sleep(Duration::from_secs(120)).await;
}

#[derive(Deserialize)]
struct Fragile {
    metadata: ObjectMeta,
}

pintle_meta::resource!(Fragile, "v1", "Pod", "pods", Namespaced);

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("wanted, of {}", self.metadata.name);
    }
}

fn put(source: &Collection<Fragile>, name: &str) {
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": name}}));
}

#[tokio::test(start_paused = true)]
async fn panicking_drop_does_not_end_the_informer() {
    for streaming_list in [false, true] {
        let (log, _here) = Log::here();
        let source = Collection::<Fragile>::default();
        ["a", "b", "c"].iter().for_each(|name| put(&source, name));
        let reflector = ReflectorConfig { streaming_list, page_size: Some(2), ..ReflectorConfig::default() };
        // Objects without a uid are decoded again by each list.
        let config = InformerConfig { reflector, projection: Projection::whole(), ..InformerConfig::default() };
        let informer = SharedInformer::new(source.clone(), config);
        // These three subscribers never request events, so the informer merges or drops their events.
        let idle = (informer.subscribe(), informer.subscribe_ordered(1), informer.subscribe_newest());
        informer.start();
        informer.wait_for_sync().await.unwrap();
        for _ in 0..3 {
            ["a", "b", "d"].iter().for_each(|name| put(&source, name));
            settle().await;
            source.remove(&key("b"));
            settle().await;
        }
        ["a", "c", "d"].iter().for_each(|name| put(&source, name));
        let fails = || Outcome::Fails(failure(500, Reason::InternalError));
        source.faults().next_of(Verb::List, [Outcome::Pass, fails(), Outcome::Pass, fails()]);
        source.compact();
        source.break_watches(Break::expired());
        long().await;
        put(&source, "e");
        settle().await;
        let state = informer.state();
        assert!(state.is_synced(), "{state:?}");
        assert_eq!(informer.lister().snapshot().len(), 4);
        log.assert_tells(&["ERROR", "the Drop of an object panicked", "wanted, of a"]);
        drop(idle);
        informer.shutdown().await;
        assert!(matches!(informer.state(), InformerState::Stopped { cause: StopCause::ShutDown }));
    }
}

/// The number of dropped objects, in total and on the runtime's thread.
static DROPPED: AtomicUsize = AtomicUsize::new(0);
static ON_THE_RUNTIME: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static RUNTIME: std::cell::Cell<Option<ThreadId>> = const { std::cell::Cell::new(None) };
}

#[derive(Deserialize)]
struct Counted {
    metadata: ObjectMeta,
}

pintle_meta::resource!(Counted, "v1", "Pod", "pods", Namespaced);

impl Drop for Counted {
    fn drop(&mut self) {
        let is_runtime = RUNTIME.get() == Some(thread::current().id());
        ON_THE_RUNTIME.fetch_add(is_runtime.into(), Ordering::Relaxed);
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// This test uses real time, because it waits for other threads.
#[tokio::test]
async fn abandoned_list_is_dropped_off_the_runtime() {
    const MANY: u32 = 2000;
    RUNTIME.set(Some(thread::current().id()));
    let config = CollectionConfig { watch_cache: false, ..CollectionConfig::default() };
    let source = Collection::<Counted>::new(config);
    for name in 0..MANY {
        source.put_raw(json!({"metadata": {"namespace": "ns", "name": name.to_string()}}));
    }
    let dropped = async |all: usize| {
        let dropped = async {
            while DROPPED.load(Ordering::Relaxed) < all {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), dropped)
            .await
            .unwrap_or_else(|_| panic!("only {} of {all} objects were dropped", DROPPED.load(Ordering::Relaxed)));
        assert_eq!(ON_THE_RUNTIME.load(Ordering::Relaxed), 0);
    };
    // The reflector abandons a list at its second page, in the middle of a page, or during an unfinished stream.
    let refused = || Outcome::refused(403, Reason::Forbidden);
    // The metadata of the page is the first of the `after` items.
    let breaks = |after, how| Outcome::Breaks { after, how };
    let pages = ReflectorConfig { page_size: Some(MANY / 2), ..ReflectorConfig::default() };
    let whole = ReflectorConfig { page_size: Some(0), ..ReflectorConfig::default() };
    let streaming = ReflectorConfig { streaming_list: true, ..ReflectorConfig::default() };
    for (expected, reflector, faults) in [
        (1000, pages, vec![Outcome::Pass, refused()]),
        (2500, whole, vec![breaks(1501, Break::cut())]),
        (4000, streaming, vec![breaks(1500, Break::End), refused()]),
    ] {
        source.faults().next(faults);
        let informer = SharedInformer::new(source.clone(), InformerConfig { reflector, ..InformerConfig::default() });
        informer.start();
        informer.states().wait_for(|state| state.cause().is_some()).await.unwrap();
        dropped(expected).await;
        informer.shutdown().await;
        dropped(expected).await;
    }
}

struct ReadsOnDrop {
    metadata: ObjectMeta,
    cache: Weak<Cache<Self>>,
    sender: mpsc::Sender<usize>,
}

pintle_meta::resource!(ReadsOnDrop, "v1", "Pod", "pods", Namespaced);

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            _ = self.sender.send(cache.undecodable().len());
        }
    }
}

#[test]
fn dropped_object_may_read_the_cache() {
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let cache = Arc::new(Cache::new());
        let refuse = |object: &ReadsOnDrop| if object.metadata.uid == "2" { Err("wanted") } else { Ok(Vec::new()) };
        cache.add_index("index", refuse).unwrap();
        let object = |uid: &str| {
            let metadata = ObjectMeta { uid: uid.into(), ..ObjectMeta::new("ns", "a") };
            Arc::new(ReadsOnDrop { metadata, cache: Arc::downgrade(&cache), sender: sender.clone() })
        };
        cache.upsert(object("1")).unwrap();
        let refused = object("2");
        assert!(cache.upsert(refused.clone()).is_err());
        drop((cache.clone(), refused));
    });
    assert_eq!(received.recv_timeout(Duration::from_secs(10)).expect("deadlock"), 1);
}
