//! Tests of subscriptions' cost and backlog.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use pintle_informer::{InformerConfig, ReflectorConfig, ResourceEvent, SharedInformer, Subscription};
use pintle_meta::{Metadata, NamespaceScope, Object, ObjectMeta, Resource, WatchEvent};
use pintle_testing::{Break, Collection};
use serde::Deserialize;
use serde_json::json;

use crate::support::scripted::{Scripted, list, raw};
use crate::support::{Pod, drain, drain_sorted, key, pod, pods, settle, shorthand};

async fn synced(source: &Collection<Pod>) -> SharedInformer<Pod> {
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer
}

thread_local! {
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

#[derive(Deserialize)]
struct Watched {
    metadata: ObjectMeta,
}

impl Object for Watched {
    fn metadata(&self) -> &dyn Metadata {
        LOOKS.set(LOOKS.get() + 1);
        &self.metadata
    }
}

impl Resource for Watched {
    type Scope = NamespaceScope;
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Watched";
    const PLURAL: &'static str = "watched";
}

thread_local! {
    static LOOKED_AT: RefCell<Option<SharedInformer<Nosy>>> = const { RefCell::new(None) };
}

#[derive(Deserialize)]
struct Nosy {
    metadata: ObjectMeta,
}

impl Nosy {
    fn look() {
        if let Some(informer) = LOOKED_AT.take() {
            informer.subscriptions();
            informer.lister().undecodable();
            LOOKED_AT.set(Some(informer));
            LOOKS.set(LOOKS.get() + 1);
        }
    }
}

impl Object for Nosy {
    fn metadata(&self) -> &dyn Metadata {
        Self::look();
        &self.metadata
    }
}

impl Resource for Nosy {
    type Scope = NamespaceScope;
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Nosy";
    const PLURAL: &'static str = "nosies";
}

impl Drop for Nosy {
    fn drop(&mut self) {
        Self::look();
    }
}

fn alone<F: Future<Output = ()> + 'static>(run: fn() -> F) {
    let (sender, received) = mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run());
        _ = sender.send(());
    });
    let ended = received.recv_timeout(Duration::from_secs(30));
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "deadlock");
    thread.join().unwrap();
}

#[test]
fn subscription_drops_objects_without_its_lock() {
    async fn drops() {
        let source = Collection::<Nosy>::default();
        let put = |uid: &str| source.put_raw(json!({"metadata": {"namespace": "ns", "name": "a", "uid": uid}}));
        let informer = SharedInformer::new(source.clone(), InformerConfig::default());
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        LOOKED_AT.set(Some(informer));
        for again in [false, true] {
            put("1");
            settle().await;
            assert!(matches!(events.next().await, Some(ResourceEvent::Added { .. })));
            put("1");
            settle().await;
            LOOKS.set(0);
            // Only the queue references the last state that the subscriber received. The queue drops this state at the
            // next change.
            if again {
                source.put_raw(json!({"metadata": {"namespace": "ns", "name": "a", "uid": "2"}}));
            } else {
                source.remove(&key("a"));
            }
            settle().await;
            assert!(LOOKS.get() > 0);
            while events.try_next().is_some() {}
            source.remove(&key("a"));
            settle().await;
            while events.try_next().is_some() {}
        }
        LOOKED_AT.take();
    }
    alone(drops);
}

#[test]
fn unread_subscription_drops_objects_without_its_lock() {
    async fn drops() {
        let source = Collection::<Nosy>::default();
        let put = |name: &str| source.put_raw(json!({"metadata": {"namespace": "ns", "name": name, "uid": "1"}}));
        ["a", "b", "c"].iter().for_each(|name| put(name));
        let informer = SharedInformer::new(source.clone(), InformerConfig::default());
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        LOOKED_AT.set(Some(informer));
        // The following changes are queued until the subscriber has read the first object. Only the queue references
        // the object states in these changes.
        for name in ["b", "c"] {
            put(name);
            settle().await;
            source.remove(&key(name));
            settle().await;
        }
        LOOKS.set(0);
        while events.try_next().is_some() {}
        assert!(LOOKS.get() > 0);
        LOOKED_AT.take();
    }
    alone(drops);
}

#[test]
fn subscription_calls_object_methods_without_locks() {
    async fn reads() {
        for streaming_list in [false, true] {
            let source = Collection::<Nosy>::default();
            let put = |name: &str, uid: &str| {
                source.put_raw(json!({"metadata": {"namespace": "ns", "name": name, "uid": uid}}));
            };
            ["a", "b", "c"].iter().for_each(|name| put(name, "1"));
            let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
            let informer =
                SharedInformer::new(source.clone(), InformerConfig { reflector, ..InformerConfig::default() });
            let state = informer.states();
            let mut subscriptions = [informer.subscribe(), informer.subscribe_ordered(1), informer.subscribe()];
            subscriptions[2].set_resync(Some(Duration::from_secs(20)));
            LOOKED_AT.set(Some(informer.clone()));
            informer.start();
            informer.wait_for_sync().await.unwrap();
            // Change objects that are still queued and objects that were already delivered. Some changes recreate an
            // object with the same name.
            for _ in 0..2 {
                for uid in ["1", "1", "2", "1"] {
                    ["a", "d"].iter().for_each(|name| put(name, uid));
                    settle().await;
                }
                source.remove(&key("a"));
                settle().await;
                for events in &mut subscriptions[1..] {
                    while events.try_next().is_some() {}
                }
            }
            // Change objects while the watch is silent. The next list also contains unchanged objects.
            source.break_watches(Break::Silent);
            put("b", "1");
            put("e", "1");
            source.compact();
            source.break_watches(Break::expired());
            LOOKS.set(0);
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(state.get().is_synced() && LOOKS.get() > 0);
            assert_eq!(informer.lister().len(), 4);
            for mut events in subscriptions {
                while events.try_next().is_some() {}
            }
            LOOKED_AT.take();
            informer.shutdown().await;
        }
    }
    alone(reads);
}

#[tokio::test(start_paused = true)]
async fn subscribe_and_resync_have_constant_cost() {
    const OBJECTS: usize = 300;
    let looks = |subscribers: usize| async move {
        let source = Collection::<Watched>::default();
        for number in 0..OBJECTS {
            source.put_raw(json!({"metadata": {"namespace": "ns", "name": number.to_string()}}));
        }
        let informer = SharedInformer::new(source, InformerConfig::default());
        let mut all: Vec<_> = (0..subscribers).map(|_| informer.subscribe()).collect();
        LOOKS.set(0);
        informer.start();
        informer.wait_for_sync().await.unwrap();
        let of_the_list = LOOKS.replace(0);
        let late = informer.subscribe();
        assert_eq!(late.len(), OBJECTS);
        let of_a_late_one = LOOKS.get();
        all.iter_mut().for_each(|events| while events.try_next().is_some() {});
        all.iter_mut().for_each(|events| events.set_resync(Some(Duration::from_secs(1))));
        LOOKS.set(0);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(all.iter().all(|events| events.len() == OBJECTS));
        (of_the_list, of_a_late_one, LOOKS.get())
    };
    let ((without, ..), (with, late, resync)) = (looks(0).await, looks(8).await);
    assert!(with - without < OBJECTS && late < OBJECTS && resync < OBJECTS, "{without} {with} {late} {resync}");
}

#[tokio::test(start_paused = true)]
async fn change_before_delivery_is_delivered_once() {
    let source = pods(&["changed", "gone", "anew", "same"]);
    let informer = synced(&source).await;
    let mut late = informer.subscribe();
    source.put(pod("changed", "1"));
    settle().await;
    source.put(pod("changed", "2"));
    for name in ["gone", "anew"] {
        source.remove(&key(name));
    }
    settle().await;
    source.put(pod("anew", ""));
    source.put(pod("new", ""));
    settle().await;
    let received = drain(&mut late).await;
    let (initial, later) = received.split_at(2);
    assert!(initial == ["A! changed@6", "A! same@4"] || initial == ["A! same@4", "A! changed@6"], "{received:?}");
    let mut later = later.to_vec();
    later.sort();
    assert_eq!(later, ["A anew@9", "A new@10"], "a re-created object is not initial");
    assert!(late.has_synced());
}

#[tokio::test(start_paused = true)]
async fn subscriber_during_a_write_receives_everything_once() {
    let source = pods(&["a"]);
    let known = Arc::<Mutex<Option<SharedInformer<Pod>>>>::default();
    let subscriptions: Arc<Mutex<Vec<Subscription<Pod>>>> = Arc::default();
    let (informer, all) = (known.clone(), subscriptions.clone());
    let subscribe = move || {
        let informer = informer.lock().unwrap().clone();
        all.lock().unwrap().extend(informer.map(|informer| informer.subscribe()));
    };
    let before = subscribe.clone();
    let transform = move |_: &mut Pod| before();
    let config = InformerConfig { transform: Some(Arc::new(transform)), ..InformerConfig::default() };
    let informer = SharedInformer::new(source.clone(), config);
    informer
        .add_index("subscribes", move |_| {
            subscribe();
            vec![]
        })
        .unwrap();
    *known.lock().unwrap() = Some(informer.clone());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.put(pod("b", ""));
    settle().await;
    source.put(pod("a", "changed"));
    settle().await;
    source.remove(&key("b"));
    settle().await;
    informer.shutdown().await;
    known.lock().unwrap().take();
    let subscriptions = std::mem::take(&mut *subscriptions.lock().unwrap());
    assert!(subscriptions.len() >= 6, "before and during three writes");
    for mut events in subscriptions {
        let mut known = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                ResourceEvent::Added { object, .. } => assert!(known.insert(object.key(), object.into_arc()).is_none()),
                ResourceEvent::Updated { old, new } => {
                    assert_eq!(known.insert(new.key(), new.into_arc()), Some(old.into_arc()));
                }
                ResourceEvent::Deleted { object, .. } => assert!(known.remove(&object.key()).is_some()),
            }
        }
        assert!(events.has_synced());
        assert_eq!(known.into_values().collect::<Vec<_>>(), informer.lister().list().iter().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn update_at_an_equal_version_is_delivered() {
    let a = |node: &str| json!({"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "1"}, "node": node});
    let (listed, modified) = (a("before"), a("after"));
    let source = Scripted::new(
        move || Ok(list(std::slice::from_ref(&listed), "1")),
        move || Ok(Box::new(std::iter::once(WatchEvent::Modified(raw(&modified))))),
    );
    let informer = SharedInformer::new(source, InformerConfig::default());
    let mut events = informer.subscribe_ordered(1);
    informer.start();
    assert!(matches!(events.next().await, Some(ResourceEvent::Added { object, .. }) if object.node == "before"));
    settle().await;
    assert_eq!(informer.lister().list()[0].node, "after");
    let Some(ResourceEvent::Updated { old, new }) = events.try_next() else { panic!("no event") };
    assert_eq!((old.node.as_str(), new.node.as_str()), ("before", "after"));
}

#[tokio::test(start_paused = true)]
async fn ordered_subscription_delivers_each_change_in_order() {
    let source = pods(&["a", "b"]);
    let informer = synced(&source).await;
    let (mut each, mut merged) = (informer.subscribe_ordered(100), informer.subscribe());
    assert_eq!(drain_sorted(&mut merged).await, ["A! a@1", "A! b@2"]);
    for name in ["a", "b", "a", "c"] {
        source.put(pod(name, ""));
    }
    source.remove(&key("c"));
    let received = drain(&mut each).await;
    assert_eq!(received[2..], ["U a@1..3", "U b@2..4", "U a@3..5", "A c@6", "D c@7"], "after the initial objects");
    assert_eq!(drain(&mut merged).await, ["U a@1..5", "U b@2..4"]);

    source.break_watches(Break::Silent);
    source.remove(&key("a"));
    source.put(pod("a", ""));
    source.compact();
    source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(drain(&mut each).await, ["D? a@5", "A a@9"], "another object of that name");
    assert_eq!(each.status().joined, 0);
}

#[tokio::test(start_paused = true)]
async fn change_beyond_the_bound_merges_with_its_key() {
    let source = pods(&["a", "b"]);
    let informer = synced(&source).await;
    let mut events = informer.subscribe_ordered(2);
    assert_eq!(drain(&mut events).await.len(), 2);
    for name in ["a", "b", "a", "c", "a"] {
        source.put(pod(name, ""));
    }
    settle().await;
    let status = events.status();
    assert_eq!((status.depth, status.joined), (3, 2));
    assert_eq!(events.try_next().map(|event| shorthand(&event)).unwrap(), "U a@1..7");
    source.put(pod("a", ""));
    assert_eq!(drain(&mut events).await, ["U b@2..4", "A c@6", "U a@7..8"], "still behind");
    for name in ["b", "b"] {
        source.put(pod(name, ""));
    }
    assert_eq!(drain(&mut events).await, ["U b@4..9", "U b@9..10"], "caught up");
    assert_eq!(events.status().joined, 2);
}

#[tokio::test(start_paused = true)]
async fn resync_follows_changes_and_skips_changed_objects() {
    let source = pods(&["a", "b", "c"]);
    let informer = synced(&source).await;
    let mut events = informer.subscribe();
    events.set_resync(Some(Duration::from_secs(60)));
    drain(&mut events).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    source.put(pod("a", ""));
    source.remove(&key("b"));
    source.put(pod("d", ""));
    assert_eq!(drain(&mut events).await, ["U a@1..4", "D b@5", "A d@6", "U c@3..3"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let first = events.try_next().map(|event| shorthand(&event)).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut rest = drain(&mut events).await;
    assert_eq!(rest.len(), 2, "no second round before the first ends");
    rest.push(first);
    rest.sort();
    assert_eq!(rest, ["U a@4..4", "U c@3..3", "U d@6..6"]);
}

#[tokio::test(start_paused = true)]
async fn subscription_status_shows_the_backlog() {
    let source = pods(&["a", "b"]);
    let informer = synced(&source).await;
    let (mut quick, mut slow) = (informer.subscribe(), informer.subscribe());
    assert_eq!(drain(&mut quick).await.len(), 2);
    slow.try_next().unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    source.put(pod("c", "1"));
    settle().await;
    source.put(pod("c", "2"));
    drain(&mut quick).await;
    let [of_quick, of_slow] = &informer.subscriptions()[..] else { panic!("two subscriptions") };
    assert_eq!((of_quick.depth, of_quick.age, of_quick.joined, of_quick.has_synced), (0, None, 1, true));
    assert_eq!((of_slow.depth, of_slow.joined, of_slow.has_synced), (2, 1, false));
    assert!(of_slow.age.unwrap() >= Duration::from_secs(30), "{of_slow:?}");
    let dump = format!("{informer:?}");
    for part in ["Pod", "Synced", "objects: 3", "depth: 2", "joined: 1"] {
        assert!(dump.contains(part), "{part} is not in {dump}");
    }
    drop(slow);
    assert_eq!(informer.subscriptions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn newest_subscription_keeps_only_the_newest_state() {
    let source = pods(&["a", "b"]);
    let informer = synced(&source).await;
    let mut newest = informer.subscribe_newest();
    let mut taken = async || {
        settle().await;
        let next = std::iter::from_fn(|| newest.try_next());
        let version = |pod: Arc<Pod>| pod.metadata.resource_version.clone();
        let mut taken: Vec<_> = next.map(|(key, pod)| (key.name().to_owned(), pod.map(version))).collect();
        taken.sort();
        taken
    };
    let at = |name: &str, version: &str| (name.to_owned(), Some(version.to_owned()));
    assert_eq!(taken().await, [at("a", "1"), at("b", "2")]);
    let old = Arc::downgrade(&informer.lister().get(&key("a")).unwrap());
    source.put(pod("a", ""));
    settle().await;
    assert!(old.upgrade().is_none(), "the old state is not kept");
    source.put(pod("a", ""));
    source.remove(&key("b"));
    source.put(pod("c", ""));
    assert_eq!(taken().await, [at("a", "4"), ("b".into(), None), at("c", "6")]);
}

#[tokio::test(start_paused = true)]
async fn observed_deletion_keeps_its_final_state_despite_recreation() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    let (mut merged, mut each) = (informer.subscribe(), informer.subscribe_ordered(10));
    assert_eq!(drain(&mut merged).await, drain(&mut each).await);
    source.remove(&key("a"));
    source.put(pod("a", ""));
    assert_eq!(drain(&mut merged).await, ["D a@2", "A a@3"]);
    assert_eq!(drain(&mut each).await, ["D a@2", "A a@3"]);
}
