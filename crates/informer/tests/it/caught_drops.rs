//! Tests of objects and closures whose `Drop` panics, and of deletions that the watch has not delivered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_informer::{
    Cache, InformerConfig, InformerFactory, Lister, Overlay, OverlayConfig, ResourceEvent, SharedInformer,
};
use pintle_meta::{DeleteOptions, ObjectApi, ObjectMeta, Reason};
use pintle_testing::{Collection, Outcome, Verb};
use serde::Deserialize;
use serde_json::json;

use crate::support::{Pod, failure, key, pod, pods, settle};

#[derive(Deserialize)]
struct Bomb {
    metadata: ObjectMeta,
}

pintle_meta::resource!(Bomb, "v1", "Pod", "pods", Namespaced);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.metadata.name.starts_with("bad"), "wanted");
    }
}

fn put(source: &Collection<Bomb>, name: &str) {
    source.put_raw(json!({"metadata": {"namespace": "ns", "name": name}}));
}

type Names = Arc<Mutex<Vec<String>>>;

fn record_in(names: &Names) -> impl Fn(&ResourceEvent<Bomb>) + Send + Sync + 'static {
    let names = names.clone();
    move |event| {
        let sign = if matches!(event, ResourceEvent::Deleted { .. }) { '-' } else { '+' };
        names.lock().unwrap().push(format!("{sign}{}", event.object().metadata.name));
    }
}

#[tokio::test(start_paused = true)]
async fn handler_survives_panicking_drop_of_an_object() {
    let source = Collection::<Bomb>::default();
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let names = Names::default();
    let _guard = informer.add_event_handler(record_in(&names));
    informer.start();
    informer.wait_for_sync().await.unwrap();
    put(&source, "bad");
    settle().await;
    source.remove(&key("bad"));
    settle().await;
    put(&source, "good");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(informer.state().is_synced());
    assert_eq!(*names.lock().unwrap(), ["+bad", "-bad", "+good"]);
}

#[tokio::test(start_paused = true)]
async fn panicking_drop_of_an_error_handler_is_caught() {
    struct Captured;
    impl Drop for Captured {
        fn drop(&mut self) {
            panic!("wanted");
        }
    }
    let (source, factory) = (pods(&["a"]), InformerFactory::new());
    source.faults().next_of(Verb::List, [Outcome::Fails(failure(403, Reason::Forbidden))]);
    let mine = factory.informer(source.clone(), InformerConfig::default());
    let slot: Arc<Mutex<Option<SharedInformer<Pod>>>> = Arc::default();
    let (leaves, captured) = (slot.clone(), Captured);
    let on_error = move |_: &_| {
        let _captured = &captured;
        drop(leaves.lock().unwrap().take());
    };
    let config = InformerConfig { on_error: Some(Box::new(on_error)), ..InformerConfig::default() };
    *slot.lock().unwrap() = Some(factory.informer(source.clone(), config));
    factory.start();
    let synced = tokio::time::timeout(Duration::from_secs(60), mine.wait_for_sync()).await;
    assert!(matches!(synced, Ok(Ok(()))), "{:?}", mine.state());
}

#[tokio::test(start_paused = true)]
async fn own_deletion_of_an_uncached_object_hides_it() {
    let source = pods(&[]);
    let cache: Arc<Cache<Pod>> = Arc::new(Cache::new());
    cache.bookmark("0");
    let overlay = Overlay::new(Lister::new(cache.clone()), OverlayConfig::default());
    let api = overlay.api(source.client("me"));
    let a = source.put(pod("a", ""));
    api.delete(&key("a"), &DeleteOptions::default()).await.unwrap();
    // The watch delivers the creation now, and the deletion later.
    cache.upsert(Arc::new(a)).unwrap();
    assert!(overlay.get(&key("a")).is_none(), "this process has deleted the pod");
}
