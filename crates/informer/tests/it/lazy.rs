//! Tests of objects that are decoded on read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pintle_informer::{
    DecodePolicy, EventObject, InformerConfig, Objects, ReflectorConfig, ResourceEvent, ResourceEventHandler,
    SharedInformer, Subscription,
};
use pintle_meta::{ApiResource, Metadata, Object, ObjectKey, ObjectMeta, Scope};
use pintle_testing::{Break, Collection, CollectionConfig, Outcome, Verb};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::support::settle;

#[derive(Deserialize)]
struct Noted {
    metadata: ObjectMeta,
    #[serde(deserialize_with = "noted")]
    number: usize,
}

pintle_meta::resource!(Noted, "v1", "Pod", "pods", Namespaced);

static DECODED: Mutex<Vec<(ThreadId, usize)>> = Mutex::new(Vec::new());

fn noted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = usize::deserialize(deserializer)?;
    DECODED.lock().unwrap().push((thread::current().id(), number));
    Ok(number)
}

/// Each test uses its own object numbers, because all tests share the list of decoded objects.
fn decoded(number: usize) -> usize {
    DECODED.lock().unwrap().iter().filter(|(_, decoded)| *decoded == number).count()
}

fn object(name: &str, number: impl Into<Value>) -> Value {
    let metadata = json!({"namespace": "ns", "name": name, "uid": name, "labels": {"app": name}});
    json!({"metadata": metadata, "number": number.into(), "secret": "hush"})
}

fn source() -> Collection<Noted> {
    let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    Collection::dynamic(resource, CollectionConfig::default())
}

fn lazy(hot_bytes: usize) -> InformerConfig<Noted> {
    InformerConfig { decode: DecodePolicy::OnRead, hot_bytes, ..InformerConfig::default() }
}

async fn started(source: &Collection<Noted>, config: InformerConfig<Noted>) -> SharedInformer<Noted> {
    let informer = SharedInformer::new(source.clone(), config);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    informer
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

async fn taken(events: &mut Subscription<Noted>) -> Vec<ResourceEvent<Noted>> {
    settle().await;
    std::iter::from_fn(|| events.try_next()).collect()
}

fn undecodable(informer: &SharedInformer<Noted>) -> Vec<String> {
    let entries = informer.lister().undecodable();
    let what = |error: &str| error.split(" at line").next().unwrap_or_default().to_owned();
    entries.into_iter().map(|entry| format!("{}: {}", entry.key, what(&entry.error))).collect()
}

async fn checked() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn object_is_decoded_at_its_first_read_and_once() {
    let source = source();
    source.put_raw(object("a", 1_000));
    let informer = started(&source, lazy(1 << 20)).await;
    let lister = informer.lister();
    assert_eq!((lister.len(), lister.snapshot().len(), decoded(1_000)), (1, 1, 0));
    let first = lister.get(&key("a")).unwrap();
    assert_eq!((first.number, decoded(1_000)), (1_000, 1));
    assert!(Arc::ptr_eq(&first, &lister.list()[0]) && Arc::ptr_eq(&first, &lister.namespace("ns").list()[0]));
    assert_eq!(decoded(1_000), 1);
}

#[test]
fn concurrent_readers_decode_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let source = source();
    (0..100).for_each(|number| source.put_raw(object(&number.to_string(), 2_000 + number)));
    let informer = runtime.block_on(started(&source, lazy(1 << 20)));
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let lister = informer.lister();
                (0..100).for_each(|number| {
                    assert_eq!(lister.get(&key(&number.to_string())).unwrap().number, 2_000 + number)
                });
            });
        }
    });
    assert!((0..100).all(|number| decoded(2_000 + number) == 1));
}

#[tokio::test(start_paused = true)]
async fn eviction_keeps_objects_that_readers_hold() {
    let source = source();
    ["a", "b", "c"].iter().enumerate().for_each(|(number, name)| source.put_raw(object(name, 3_000 + number)));
    let informer = started(&source, lazy(0)).await;
    let lister = informer.lister();
    let held = lister.get(&key("a")).unwrap();
    let released = Arc::downgrade(&lister.get(&key("b")).unwrap());
    (0..5).for_each(|_| ["b", "c"].iter().for_each(|name| drop(lister.get(&key(name)))));
    assert!(Arc::ptr_eq(&held, &lister.get(&key("a")).unwrap()), "a reader holds it");
    assert!(released.upgrade().is_none() && decoded(3_001) > 1, "nothing holds it, and there is no budget");
    assert_eq!((held.number, decoded(3_000)), (3_000, 1));
    drop(held);
    (0..5).for_each(|_| ["b", "c"].iter().for_each(|name| drop(lister.get(&key(name)))));
    assert_eq!((lister.get(&key("a")).unwrap().number, decoded(3_000)), (3_000, 2));
}

#[tokio::test(start_paused = true)]
async fn metadata_of_events_is_read_without_decoding() {
    let source = source();
    source.put_raw(object("a", 4_000));
    let informer = started(&source, lazy(1 << 20)).await;
    let (mut one, mut other) = (informer.subscribe(), informer.subscribe());
    assert_eq!((taken(&mut one).await.len(), taken(&mut other).await.len()), (1, 1));
    assert_eq!(decoded(4_000), 1, "an addition is decoded once for all subscribers");

    source.put_raw(object("a", 4_001));
    let (of_one, of_other) = (taken(&mut one).await, taken(&mut other).await);
    let ([ResourceEvent::Updated { old, new }], [ResourceEvent::Updated { new: again, .. }]) =
        (&of_one[..], &of_other[..])
    else {
        panic!("{of_one:?} {of_other:?}")
    };
    assert_eq!((new.key(), of_one[0].key(), new.uid()), (key("a"), key("a"), "a"));
    assert_eq!((old.resource_version(), new.resource_version(), new.metadata().generation()), ("1", "2", 0));
    assert_eq!((new.metadata().labels()["app"].as_str(), new.metadata().is_terminating()), ("a", false));
    assert_eq!((new.metadata().labels(), new.is_same(again)), (old.metadata().labels(), true));
    assert_eq!(decoded(4_001), 0);
    assert_eq!((old.number, new.number, again.number), (4_000, 4_001, 4_001));
    assert!(Arc::ptr_eq(new, again) && Arc::ptr_eq(new, &informer.lister().get(&key("a")).unwrap()));
    assert_eq!((decoded(4_000), decoded(4_001)), (2, 1), "nothing had read the addition, so it was dropped");
}

#[tokio::test(start_paused = true)]
async fn unread_addition_is_dropped_with_its_event() {
    let source = source();
    ["a", "b"].iter().enumerate().for_each(|(number, name)| source.put_raw(object(name, 16_000 + number)));
    let informer = started(&source, lazy(1 << 20)).await;
    let mut events = informer.subscribe();
    let mut added = taken(&mut events).await;
    added.sort_by_key(ResourceEvent::key);
    assert_eq!((decoded(16_000), decoded(16_001)), (1, 1), "the subscription has checked the additions");
    let read = Arc::downgrade(added[0].object());
    let copy = added[1].clone();
    drop(added);
    let lister = informer.lister();
    assert!(Arc::ptr_eq(&read.upgrade().unwrap(), &lister.get(&key("a")).unwrap()), "the read object stays in memory");
    assert_eq!((lister.get(&key("b")).unwrap().number, copy.object().number), (16_001, 16_001));
    assert_eq!((decoded(16_000), decoded(16_001)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn list_omits_objects_that_cannot_be_decoded() {
    let source = source();
    ["a", "b", "c"].iter().enumerate().for_each(|(number, name)| source.put_raw(object(name, 17_000 + number)));
    source.put_raw(object("d", "four"));
    let informer = started(&source, lazy(1 << 20)).await;
    let lister = informer.lister();
    let list = lister.list();
    assert_eq!((lister.len(), list.len(), list.get(3).is_none()), (4, 3, true));
    let numbers = |list: &Objects<Noted>| {
        let mut numbers: Vec<usize> = list.iter().map(|object| object.number).collect();
        let by_index: Vec<usize> = (0..list.len()).map(|index| list[index].number).collect();
        assert_eq!(by_index, numbers);
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(&list), [17_000, 17_001, 17_002]);
    checked().await;
    source.put_raw(object("a", 17_003));
    source.put_raw(object("b", "two"));
    settle().await;
    let decoded_before: usize = (17_000..17_004).map(decoded).sum();
    let later = lister.list();
    assert_eq!(later.len(), 3);
    assert_eq!((17_000..17_004).map(decoded).sum::<usize>(), decoded_before, "the list decodes nothing");
    assert_eq!((numbers(&later), numbers(&list)), (vec![17_001, 17_002, 17_003], vec![17_000, 17_001, 17_002]));
}

#[tokio::test(start_paused = true)]
async fn objects_of_events_are_readable_after_eviction() {
    let source = source();
    source.put_raw(object("a", 5_000));
    let informer = started(&source, lazy(0)).await;
    let mut events = informer.subscribe_ordered(100);
    drop(taken(&mut events).await);
    (1..4).for_each(|number| source.put_raw(object("a", 5_000 + number)));
    source.remove(&key("a"));
    let events = taken(&mut events).await;
    for _ in 0..2 {
        let numbers: Vec<(Option<usize>, usize)> = events
            .iter()
            .map(|event| match event {
                ResourceEvent::Updated { old, new } => (Some(old.clone().number), new.clone().number),
                event => (None, event.object().clone().number),
            })
            .collect();
        let updates = (1..4).map(|number| (Some(4_999 + number), 5_000 + number));
        assert_eq!(numbers, updates.chain([(None, 5_003)]).collect::<Vec<_>>());
    }
}

#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

impl ResourceEventHandler<Noted> for Calls {
    fn on_add(&self, object: &Arc<Noted>, _: bool) {
        self.0.fetch_add(object.number, Ordering::Relaxed);
    }
    fn on_update(&self, old: &Arc<Noted>, new: &Arc<Noted>) {
        self.0.fetch_add(new.number - old.number, Ordering::Relaxed);
    }
    fn on_delete(&self, object: &Arc<Noted>, _: bool) {
        self.0.fetch_sub(object.number, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn handler_methods_receive_decoded_objects() {
    let source = source();
    source.put_raw(object("a", 6_000));
    let informer = started(&source, lazy(0)).await;
    let calls = Calls::default();
    let mut guard = informer.add_event_handler(calls.clone());
    assert!(guard.synced().await);
    source.put_raw(object("a", 6_005));
    source.put_raw(object("b", 6_010));
    settle().await;
    assert_eq!(calls.0.load(Ordering::Relaxed), 12_015);
    source.remove(&key("b"));
    settle().await;
    assert_eq!(calls.0.load(Ordering::Relaxed), 6_005);
}

#[tokio::test(start_paused = true)]
async fn undecodable_update_reads_as_the_last_good_state() {
    let source = source();
    source.put_raw(object("a", 7_000));
    let informer = started(&source, lazy(0)).await;
    let mut events = informer.subscribe();
    drop(taken(&mut events).await);
    source.put_raw(object("a", "seven"));
    let updates = taken(&mut events).await;
    let [ResourceEvent::Updated { old, new }] = &updates[..] else { panic!("{updates:?}") };
    assert_eq!((old.number, new.number, new.resource_version()), (7_000, 7_000, "2"));
    assert_eq!(undecodable(&informer), ["ns/a: invalid type: string, expected usize"], "the read has found it");

    settle().await;
    let lister = informer.lister();
    assert_eq!((lister.get(&key("a")).unwrap().number, lister.len()), (7_000, 1));
    assert_eq!(lister.undecodable()[0].resource_version, "2");
    source.compact();
    source.break_watches(Break::expired());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((lister.get(&key("a")).unwrap().number, undecodable(&informer).len()), (7_000, 1), "also after a list");
    assert!(taken(&mut events).await.is_empty());

    source.put_raw(object("a", 7_001));
    let updates = taken(&mut events).await;
    let [.., ResourceEvent::Updated { old, new }] = &updates[..] else { panic!("{updates:?}") };
    assert_eq!((old.number, new.number, undecodable(&informer)), (7_000, 7_001, vec![]));
}

/// The first subscriber requests its event before any reader has decoded the only good state. Nevertheless, all
/// subscribers and the cache end with the same state.
#[tokio::test(start_paused = true)]
async fn good_state_between_undecodable_states_reaches_all_subscribers() {
    let source = source();
    source.put_raw(object("a", "first"));
    let informer = started(&source, lazy(0)).await;
    let (mut newest, mut each, mut ordered) =
        (informer.subscribe_newest(), informer.subscribe(), informer.subscribe_ordered(8));
    for number in [Value::from(7_100), Value::from("third")] {
        source.put_raw(object("a", number));
        settle().await;
    }
    assert!(newest.try_next().is_none() && each.try_next().is_none(), "no decodable state is known");
    assert_eq!((informer.lister().get(&key("a")).is_none(), decoded(7_100)), (true, 0));
    let added = ordered.try_next().unwrap();
    assert!(matches!(&added, ResourceEvent::Added { object, .. } if object.number == 7_100), "{added:?}");

    checked().await;
    assert_eq!(informer.lister().get(&key("a")).map(|object| object.number), Some(7_100));
    assert_eq!(undecodable(&informer), ["ns/a: invalid type: string, expected usize"]);
    let updated = ordered.try_next().unwrap();
    let ResourceEvent::Updated { new, .. } = &updated else { panic!("{updated:?}") };
    assert_eq!((new.number, new.resource_version()), (7_100, "3"), "the metadata is that of the newest state");
    assert!(ordered.try_next().is_none(), "this subscriber has the good state already");
    let (added, (_, object)) = (each.try_next().unwrap(), newest.try_next().unwrap());
    assert!(matches!(&added, ResourceEvent::Added { object, .. } if object.number == 7_100), "{added:?}");
    assert_eq!(object.map(|object| object.number), Some(7_100));

    source.remove(&key("a"));
    let deleted = taken(&mut ordered).await;
    assert!(matches!(&deleted[..], [ResourceEvent::Deleted { object, .. }] if object.number == 7_100), "{deleted:?}");
}

/// The bounded queue merges the last undecodable state of an object with its deletion.
#[tokio::test(start_paused = true)]
async fn deletion_of_undecodable_object_reaches_subscriber_of_good_state() {
    let source = source();
    source.put_raw(object("a", "first"));
    let informer = started(&source, lazy(0)).await;
    let mut ordered = informer.subscribe_ordered(2);
    for number in [Value::from(7_200), Value::from("third")] {
        source.put_raw(object("a", number));
        settle().await;
    }
    let added = ordered.try_next().unwrap();
    assert!(matches!(&added, ResourceEvent::Added { object, .. } if object.number == 7_200), "{added:?}");
    source.put_raw(object("b", 7_201));
    settle().await;
    source.remove(&key("a"));
    let after = taken(&mut ordered).await;
    let [ResourceEvent::Updated { new, .. }, ResourceEvent::Deleted { object, .. }, ResourceEvent::Added { .. }] =
        &after[..]
    else {
        panic!("{after:?}")
    };
    assert_eq!((new.number, object.number), (7_200, 7_200));
}

#[tokio::test(start_paused = true)]
async fn idle_informer_finds_undecodable_objects() {
    let source = source();
    source.put_raw(object("a", 8_000));
    source.put_raw(object("b", "eight"));
    let informer = started(&source, lazy(1 << 20)).await;
    let mut events = informer.subscribe();
    assert_eq!((undecodable(&informer).len(), informer.lister().len()), (0, 2));
    checked().await;
    assert_eq!(undecodable(&informer), ["ns/b: invalid type: string, expected usize"]);
    assert_eq!((informer.lister().len(), decoded(8_000)), (1, 1));
    let added = taken(&mut events).await;
    assert!(matches!(&added[..], [ResourceEvent::Added { object, is_initial: true }] if object.number == 8_000));
    assert!(events.has_synced());

    source.put_raw(object("a", "seven"));
    checked().await;
    assert_eq!((undecodable(&informer).len(), informer.lister().get(&key("a")).unwrap().number), (2, 8_000));
    source.put_raw(object("b", 8_001));
    checked().await;
    let last = taken(&mut events).await.pop().unwrap();
    assert!(matches!(&last, ResourceEvent::Added { object, is_initial: false } if object.number == 8_001), "{last:?}");
    source.remove(&key("a"));
    let last = taken(&mut events).await.pop().unwrap();
    assert!(matches!(&last, ResourceEvent::Deleted { object, .. } if object.number == 8_000), "{last:?}");
    assert_eq!((undecodable(&informer), informer.lister().len()), (vec![], 1));
}

/// A write that arrives while the check waits for an idle informer must not suppress later checks.
#[tokio::test(start_paused = true)]
async fn idle_check_runs_again_after_two_writes() {
    let source = source();
    source.put_raw(object("a", 8_100));
    let informer = started(&source, lazy(1 << 20)).await;
    source.put_raw(object("b", 8_101));
    checked().await;
    source.put_raw(object("c", "bad"));
    checked().await;
    assert_eq!(undecodable(&informer), ["ns/c: invalid type: string, expected usize"]);
    assert_eq!(informer.lister().len(), 2);
}

/// A list takes the object of its first page from the cache, and the object turns out to be undecodable before the
/// last page arrives.
#[tokio::test(start_paused = true)]
async fn relist_does_not_bring_back_an_undecodable_object() {
    // The seed determines whether the list starts before the check of the idle informer.
    for seed in 0..8 {
        let source = source();
        ["a", "b", "c"].iter().for_each(|name| source.put_raw(object(name, 8_200)));
        source.put_raw(object("a", "bad"));
        let reflector = ReflectorConfig { page_size: Some(2), ..ReflectorConfig::default() };
        let config = InformerConfig { reflector, seed: Some(seed), ..lazy(1 << 20) };
        let informer = started(&source, config).await;
        source.faults().next_of(Verb::List, [Outcome::Pass, Outcome::AnswerSlow(Duration::from_secs(5))]);
        source.compact();
        source.break_watches(Break::expired());
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(undecodable(&informer), ["ns/a: invalid type: string, expected usize"]);
        assert_eq!((informer.lister().len(), informer.lister().get(&key("a")).is_none()), (2, true));
    }
}

#[tokio::test(start_paused = true)]
async fn object_that_was_never_good_yields_no_event() {
    let source = source();
    source.put_raw(object("a", "nine"));
    let informer = started(&source, lazy(1 << 20)).await;
    let (mut events, mut newest) = (informer.subscribe(), informer.subscribe_newest());
    assert!(taken(&mut events).await.is_empty() && newest.try_next().is_none());
    assert!(informer.lister().get(&key("a")).is_none() && informer.lister().list().is_empty());
    source.remove(&key("a"));
    source.put_raw(object("b", 9_000));
    let added = taken(&mut events).await;
    assert!(matches!(&added[..], [ResourceEvent::Added { object, is_initial: false }] if object.number == 9_000));
    assert!(matches!(newest.try_next(), Some((name, Some(_))) if name == key("b")));
    assert!(undecodable(&informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn index_functions_never_run_on_the_runtime() {
    let source = source();
    (0..10).for_each(|number| source.put_raw(object(&number.to_string(), 10_000 + number)));
    let informer = SharedInformer::new(source.clone(), lazy(1 << 20));
    let called: Arc<Mutex<BTreeMap<usize, ThreadId>>> = Arc::default();
    let calls = called.clone();
    let by_number = move |object: &Noted| {
        calls.lock().unwrap().insert(object.number, thread::current().id());
        vec![object.number.to_string()]
    };
    informer.add_index("number", by_number).unwrap();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.put_raw(object("0", 10_100));
    settle().await;
    let lister = informer.lister();
    assert_eq!(lister.by_index("number", "10100").unwrap()[0].metadata.name, "0");
    assert!(lister.by_index("number", "10000").unwrap().is_empty());
    let called = called.lock().unwrap();
    assert!(called.len() == 11 && called.values().all(|thread| *thread != thread::current().id()), "{called:?}");
    let here = thread::current().id();
    let decoded_here =
        DECODED.lock().unwrap().iter().any(|(on, number)| *on == here && (10_000..10_200).contains(number));
    assert!(!decoded_here);
}

#[tokio::test(start_paused = true)]
async fn metadata_index_decodes_nothing() {
    let source = source();
    source.put_raw(object("a", 11_000));
    source.put_raw(object("b", 11_001));
    let informer = started(&source, lazy(1 << 20)).await;
    informer.add_metadata_index("app", |metadata: &dyn Metadata| metadata.labels().get("app").cloned()).unwrap();
    source.put_raw(object("c", 11_002));
    settle().await;
    let lister = informer.lister();
    assert_eq!(lister.snapshot().index_keys("app", "c").unwrap(), [key("c")]);
    assert_eq!((decoded(11_000), decoded(11_001), decoded(11_002)), (0, 0, 0));
    assert_eq!(lister.by_index("app", "a").unwrap()[0].number, 11_000);
    assert_eq!(lister.select(&"app=b".parse().unwrap())[0].number, 11_001);
    assert_eq!((decoded(11_000), decoded(11_001), decoded(11_002)), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn debug_output_shows_no_content() {
    let source = source();
    source.put_raw(object("a", 12_000));
    let informer = started(&source, lazy(1 << 20)).await;
    let mut events = informer.subscribe();
    let event = taken(&mut events).await.pop().unwrap();
    let object: &EventObject<Noted> = event.object();
    let lister = informer.lister();
    let shown = format!("{event:?} {object:?} {events:?} {informer:?} {lister:?} {:?}", lister.snapshot());
    assert!(shown.contains("ns/a") && !shown.contains("hush") && !shown.contains("12000"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn relist_keeps_decoded_objects() {
    let source = source();
    source.put_raw(object("a", 13_000));
    let informer = started(&source, lazy(1 << 20)).await;
    let before = informer.lister().get(&key("a")).unwrap();
    source.put_raw(object("b", 13_001));
    source.compact();
    source.break_watches(Break::expired());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(Arc::ptr_eq(&before, &informer.lister().get(&key("a")).unwrap()));
    assert_eq!(decoded(13_000), 1);
}

#[tokio::test(start_paused = true)]
async fn small_or_transformed_objects_are_decoded_on_arrival() {
    let (auto, on_read) = (source(), source());
    auto.put_raw(object("a", 14_000));
    on_read.put_raw(object("a", 14_001));
    let transform = Arc::new(|object: &mut Noted| object.number += 1);
    let transformed = InformerConfig { transform: Some(transform), ..lazy(1 << 20) };
    let _informers = (started(&auto, InformerConfig::default()).await, started(&on_read, transformed).await);
    assert_eq!((decoded(14_000), decoded(14_001)), (1, 1));
}

#[derive(Deserialize)]
struct Large {
    metadata: ObjectMeta,
    #[serde(default, skip)]
    _space: [[u64; 32]; 4],
    #[serde(deserialize_with = "noted", rename = "number")]
    _number: usize,
}

pintle_meta::resource!(Large, "v1", "Pod", "pods", Namespaced);

#[tokio::test(start_paused = true)]
async fn large_objects_are_decoded_when_read_by_default() {
    let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    let source = Collection::<Large>::dynamic(resource, CollectionConfig::default());
    source.put_raw(object("a", 15_000));
    let informer = SharedInformer::new(source, InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(decoded(15_000), 0);
    assert_eq!(informer.lister().get(&key("a")).unwrap().metadata.name, "a");
    assert_eq!(decoded(15_000), 1);
}
