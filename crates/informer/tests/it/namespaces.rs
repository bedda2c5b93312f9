//! Tests that add and remove namespaces while an informer runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_informer::{
    InformerConfig, InformerFactory, InformerState, Namespaces, Overlay, OverlayConfig, ReflectorConfig,
    SharedInformer, StopCause, Subscription,
};
use pintle_meta::{ObjectKey, ObjectMeta, Reason, Resource};
use pintle_testing::{Break, Client, Collection, Outcome, Verb};

use crate::support::scripted::{Scripted, list, silence};
use crate::support::{Pod, requests, settle, shorthand};

fn source(namespaces: &str) -> Collection<Pod> {
    namespaces.chars().map(|namespace| pod(&namespace.to_string(), "x")).collect()
}

pub(crate) fn pod(namespace: &str, name: &str) -> Pod {
    Pod { metadata: ObjectMeta::new(namespace, name), node: String::new() }
}

fn clients(source: &Collection<Pod>) -> impl Fn(Option<&str>) -> Client<Pod> + Send + use<> {
    let source = source.clone();
    move |namespace| match namespace {
        Some(namespace) => source.client(namespace).in_namespace(namespace),
        None => source.client("all"),
    }
}

pub(crate) fn informer(source: &Collection<Pod>, namespaces: &Namespaces, streaming_list: bool) -> SharedInformer<Pod> {
    let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
    let config = InformerConfig { reflector, seed: Some(1), ..InformerConfig::default() };
    SharedInformer::of_namespaces(namespaces, clients(source), config)
}

pub(crate) async fn synced_with_a_and_b() -> (Collection<Pod>, Namespaces, SharedInformer<Pod>) {
    let source = source("ab");
    let namespaces = Namespaces::new(set("ab"));
    let informer = informer(&source, &namespaces, false);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    (source, namespaces, informer)
}

pub(crate) fn set(names: &str) -> Vec<String> {
    names.chars().map(String::from).collect()
}

pub(crate) fn held(informer: &SharedInformer<Pod>) -> String {
    let snapshot = informer.lister().snapshot();
    let keys: BTreeSet<ObjectKey> =
        snapshot.iter().map(|pod| ObjectKey::new(&pod.metadata.namespace, &pod.metadata.name)).collect();
    keys.iter().filter_map(ObjectKey::namespace).collect()
}

fn fold(known: &mut BTreeSet<ObjectKey>, events: &mut Subscription<Pod>) {
    while let Some(event) = events.try_next() {
        let key = event.key();
        if event.is_deleted() {
            assert!(known.remove(&key), "{event:?}");
        } else {
            _ = known.insert(key);
        }
    }
}

pub(crate) async fn long() {
    tokio::time::sleep(Duration::from_secs(90)).await;
}

/// Describes the queued events, with namespaces instead of names.
pub(crate) async fn received(events: &mut Subscription<Pod>) -> Vec<String> {
    settle().await;
    let mut received: Vec<String> = std::iter::from_fn(|| events.try_next())
        .map(|event| shorthand(&event).replace('x', &event.object().metadata.namespace))
        .collect();
    received.sort();
    received
}

#[tokio::test(start_paused = true)]
async fn changed_set_leaves_other_namespaces_alone() {
    for streaming_list in [false, true] {
        let source = source("abc");
        let namespaces = Namespaces::new(set("ab"));
        let informer = informer(&source, &namespaces, streaming_list);
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        assert_eq!(received(&mut events).await, ["A! a@1", "A! b@2"]);
        assert_eq!(source.open_watches(), 2);

        requests(&source);
        namespaces.set(set("bc"));
        informer.wait_for_sync().await.unwrap();
        assert_eq!(received(&mut events).await, ["A c@3", "D? a@1"]);
        assert_eq!((held(&informer).as_str(), source.open_watches()), ("bc", 2));
        assert!(informer.state().is_synced());
        let sent = requests(&source);
        assert!(!sent.is_empty() && sent.iter().all(|request| request.starts_with("c ")), "{sent:?}");

        source.put(pod("a", "x"));
        source.put(pod("b", "x"));
        source.put(pod("c", "x"));
        assert_eq!(received(&mut events).await, ["U b@2..5", "U c@3..6"]);

        namespaces.set(set("cb"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(requests(&source).len(), 0, "the set is equal");
        informer.shutdown().await;
        assert_eq!(source.open_watches(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn set_can_switch_between_all_and_some() {
    for streaming_list in [false, true] {
        let source = source("abc");
        let namespaces = Namespaces::all();
        let informer = informer(&source, &namespaces, streaming_list);
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        assert_eq!(received(&mut events).await, ["A! a@1", "A! b@2", "A! c@3"]);
        namespaces.set(set("bc"));
        informer.wait_for_sync().await.unwrap();
        assert_eq!(received(&mut events).await, ["D? a@1"]);
        assert_eq!(source.open_watches(), 2);
        namespaces.set_all();
        informer.wait_for_sync().await.unwrap();
        assert_eq!(received(&mut events).await, ["A a@1"], "known objects are not delivered again");
        assert_eq!(source.open_watches(), 1);
        namespaces.set(set(""));
        informer.wait_for_sync().await.unwrap();
        assert_eq!(received(&mut events).await, ["D? a@1", "D? b@2", "D? c@3"]);
        assert!(informer.state().is_synced() && source.open_watches() == 0);
    }
}

#[tokio::test(start_paused = true)]
async fn informer_without_namespaces_is_synced_and_empty() {
    let source = source("a");
    let namespaces = Namespaces::new(set(""));
    let informer = informer(&source, &namespaces, false);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert!(informer.state().is_synced() && informer.lister().is_empty() && requests(&source).is_empty());
    namespaces.set([""]);
    long().await;
    assert!(requests(&source).is_empty(), "an empty name is ignored");
    namespaces.set(set("a"));
    informer.wait_for_sync().await.unwrap();
    assert_eq!(held(&informer), "a");
}

#[tokio::test(start_paused = true)]
async fn failing_namespace_degrades_the_informer_but_not_others() {
    let source = source("ab");
    let is_forbidden = Arc::new(AtomicBool::new(true));
    let still = is_forbidden.clone();
    source.faults().when(move |request| {
        (request.client == "b" && still.load(Ordering::Relaxed)).then(|| Outcome::refused(403, Reason::Forbidden))
    });
    let namespaces = Namespaces::new(set("ab"));
    let informer = informer(&source, &namespaces, false);
    let mut events = informer.subscribe();
    let mut sync = events.sync_handle();
    informer.start();
    let mut states = informer.states();
    states.wait_for(|state| state.cause().is_some()).await.unwrap();
    assert_eq!(received(&mut events).await, ["A! a@1"]);
    assert!(!informer.has_synced() && !sync.has_synced());
    let by_namespace = informer.states_by_namespace();
    assert!(by_namespace["a"].is_synced() && by_namespace["b"].cause().is_some(), "{by_namespace:?}");
    assert!(tokio::time::timeout(Duration::from_secs(30), informer.lister().wait_for("1")).await.is_err());

    is_forbidden.store(false, Ordering::Relaxed);
    informer.wait_for_sync().await.unwrap();
    assert!(!sync.has_synced(), "b was not removed");
    assert_eq!(received(&mut events).await, ["A! b@2"]);
    assert!(sync.synced().await && informer.state().is_synced());
}

#[tokio::test(start_paused = true)]
async fn removed_namespace_does_not_block_sync() {
    let source = source("ab");
    source.faults().when(|request| (request.client == "b").then(|| Outcome::refused(403, Reason::Forbidden)));
    let namespaces = Namespaces::new(set("ab"));
    let informer = informer(&source, &namespaces, false);
    informer.start();
    long().await;
    assert!(!informer.has_synced());
    namespaces.set(set("a"));
    informer.wait_for_sync().await.unwrap();
    settle().await;
    assert!(informer.has_synced() && informer.state().is_synced());
}

#[tokio::test(start_paused = true)]
async fn removing_a_namespace_ends_waits_for_it() {
    let source = source("ab");
    source.faults().when(|request| (request.client == "b").then(|| Outcome::refused(403, Reason::Forbidden)));
    let namespaces = Namespaces::new(set("ab"));
    let informer = informer(&source, &namespaces, false);
    informer.start();
    let lister = informer.lister();
    let leave = async {
        long().await;
        namespaces.set(set("a"));
    };
    let waits = async { tokio::join!(informer.wait_for_sync(), lister.wait_for("1"), leave) };
    let (synced, reached, ()) = tokio::time::timeout(Duration::from_secs(120), waits).await.expect("the waits end");
    synced.unwrap();
    reached.unwrap();
    assert_eq!(held(&informer), "a");
}

/// The list of the new namespace is older than the revision of the other namespaces, as if the server had been
/// restored. At first, the driver of the new namespace rejects states that are older than the revision of the other
/// namespaces.
#[tokio::test(start_paused = true)]
async fn added_namespace_accepts_a_restored_server() {
    let source = |namespace: Option<&str>| {
        let (namespace, revision) = match namespace {
            Some("a") => (Some("a"), "10"),
            Some(_) => (Some("b"), "7"),
            None => (None, "10"),
        };
        Scripted::<Pod>::of(Pod::api_resource(), namespace, move || Ok(list(&[], revision)), |_| Ok(silence()))
    };
    let namespaces = Namespaces::new(set("a"));
    let informer = SharedInformer::of_namespaces(&namespaces, source, InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    namespaces.set(set("ab"));
    let waited = tokio::time::timeout(Duration::from_secs(10), informer.wait_for_sync());
    assert!(waited.await.is_err(), "the server may be a lagging replica");
    let waited = tokio::time::timeout(Duration::from_secs(300), informer.wait_for_sync());
    waited.await.expect("the wait ends").unwrap();
    assert_eq!(informer.lister().resource_version(), "7");
}

/// A watch of one namespace may deliver revisions that are newer than the cache's revision.
#[tokio::test(start_paused = true)]
async fn lagging_replica_does_not_take_a_namespace_back() {
    for between in ["ab", "b"] {
        let source = |namespace: Option<&str>| {
            let pod = |namespace: &str, version: &str| serde_json::json!({"metadata": {"namespace": namespace, "name": "x", "resourceVersion": version}, "node": ""});
            let (namespace, pods, revision) = match namespace {
                Some("a") => (Some("a"), vec![pod("a", "90")], "100"),
                Some(_) => (Some("b"), vec![pod("b", "40")], "50"),
                None => (None, vec![pod("b", "40")], "60"),
            };
            Scripted::<Pod>::of(Pod::api_resource(), namespace, move || Ok(list(&pods, revision)), |_| Ok(silence()))
        };
        let namespaces = Namespaces::new(set("ab"));
        let informer = SharedInformer::of_namespaces(&namespaces, source, InformerConfig::default());
        informer.start();
        informer.wait_for_sync().await.unwrap();
        namespaces.set(set(between));
        informer.wait_for_sync().await.unwrap();
        namespaces.set_all();
        let waited = tokio::time::timeout(Duration::from_secs(10), informer.wait_for_sync());
        assert!(waited.await.is_err(), "{between}: the state is older than the state of a");
        assert_eq!(held(&informer), between);
    }
}

#[tokio::test(start_paused = true)]
async fn overlay_shows_later_writes_despite_a_lagging_namespace() {
    let source = source("ab");
    source.faults().when(|request| (request.client == "b").then(|| Outcome::refused(403, Reason::Forbidden)));
    let informer = informer(&source, &Namespaces::new(set("ab")), false);
    informer.start();
    settle().await;
    let overlay = Overlay::new(informer.lister(), OverlayConfig::default());
    overlay.wrote(source.put(pod("a", "x")));
    let others = source.put(Pod { node: "later".into(), ..pod("a", "x") });
    settle().await;
    let key = ObjectKey::new("a", "x");
    assert_eq!(informer.lister().get(&key).unwrap().metadata.resource_version, others.metadata.resource_version);
    assert_eq!(overlay.get(&key).unwrap().node, "later");
    assert!(overlay.list().iter().all(|pod| pod.node == "later") && overlay.is_empty());
}

#[tokio::test(start_paused = true)]
async fn overlay_hides_later_deletions_despite_a_lagging_namespace() {
    let source = source("ab");
    source.faults().when(|request| (request.client == "b").then(|| Outcome::refused(403, Reason::Forbidden)));
    let informer = informer(&source, &Namespaces::new(set("ab")), false);
    informer.start();
    settle().await;
    let overlay = Overlay::new(informer.lister(), OverlayConfig::default());
    let (of_a, of_b) = (ObjectKey::new("a", "x"), ObjectKey::new("b", "x"));
    for namespace in ["a", "b"] {
        overlay.wrote(source.put(pod(namespace, "x")));
    }
    assert!(overlay.get(&of_a).is_some() && overlay.get(&of_b).is_some() && overlay.len() == 2);
    source.remove(&of_a);
    source.remove(&of_b);
    settle().await;
    assert!(informer.lister().is_empty());
    assert!(overlay.get(&of_a).is_none() && overlay.get(&of_b).is_some(), "b has no events yet");
    assert_eq!(overlay.list().iter().map(|pod| &*pod.metadata.namespace).collect::<Vec<_>>(), ["b"]);
    assert_eq!(overlay.len(), 1);
}

/// The written object has a lower revision than the cached objects in the other namespaces.
#[tokio::test(start_paused = true)]
async fn overlay_keeps_a_write_to_an_added_namespace() {
    let (source, namespaces, informer) = synced_with_a_and_b().await;
    let (lister, overlay) = (informer.lister(), Overlay::new(informer.lister(), OverlayConfig::default()));
    let written = source.put(pod("c", "x"));
    let version = written.metadata.resource_version.clone();
    source.bookmark();
    lister.wait_for(&version).await.unwrap();

    let held_up = source.faults();
    held_up.when(|request| (request.client == "c").then(|| Outcome::refused(500, Reason::InternalError)));
    namespaces.set(set("abc"));
    overlay.wrote(written);
    let early = tokio::time::timeout(Duration::from_secs(5), lister.wait_for(&version));
    assert!(early.await.is_err(), "c is not there yet");
    assert!(overlay.get(&ObjectKey::new("c", "x")).is_some() && overlay.list().len() == 3);
    held_up.when(|_| None);
    lister.wait_for(&version).await.unwrap();
    assert_eq!(held(&informer), "abc");
}

#[tokio::test(start_paused = true)]
async fn wait_after_namespace_removal_finds_no_objects() {
    let source: Collection<Pod> = (0..20_000).map(|number| pod("a", &number.to_string())).collect();
    let namespaces = Namespaces::new(set("ab"));
    let informer = informer(&source, &namespaces, false);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let lister = informer.lister();
    assert_eq!(lister.len(), 20_000);
    namespaces.set(set("b"));
    lister.wait_for("1").await.unwrap();
    assert_eq!(lister.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn wait_after_a_set_change_covers_the_change() {
    let (source, namespaces, informer) = synced_with_a_and_b().await;
    source.put(pod("c", "x"));
    let lister = informer.lister();
    for (names, by_revision) in [("b", false), ("bc", true), ("a", true), ("", false), ("abc", false), ("c", true)] {
        namespaces.set(set(names));
        if by_revision {
            lister.wait_for("1").await.unwrap();
        } else {
            informer.wait_for_sync().await.unwrap();
        }
        assert_eq!(held(&informer), names);
    }
    namespaces.set_all();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(held(&informer), "abc");
    namespaces.set(set("a"));
    namespaces.set_all();
    lister.wait_for("1").await.unwrap();
    assert_eq!(held(&informer), "abc");
    namespaces.set(set("a"));
    informer.shutdown().await;
    assert!(lister.wait_for("1").await.is_err(), "no source is left");
}

#[tokio::test(start_paused = true)]
async fn cache_revision_follows_the_slowest_namespace() {
    let (source, namespaces, informer) = synced_with_a_and_b().await;
    let lister = informer.lister();
    let before = lister.resource_version();
    let written = source.put(pod("a", "y"));
    settle().await;
    assert_eq!(lister.resource_version(), before, "b has not reached that revision");
    source.bookmark();
    lister.wait_for(&written.metadata.resource_version).await.unwrap();

    // The cache's revision does not advance before the new namespace is listed.
    let held_up = source.faults();
    held_up.when(|request| (request.client == "c").then(|| Outcome::refused(500, Reason::InternalError)));
    namespaces.set(set("abc"));
    settle().await;
    let written = source.put(pod("c", "x"));
    source.bookmark();
    let wait = lister.wait_for(&written.metadata.resource_version);
    assert!(tokio::time::timeout(Duration::from_secs(5), wait).await.is_err());
    held_up.when(|_| None);
    lister.wait_for(&written.metadata.resource_version).await.unwrap();
    assert!(lister.get(&ObjectKey::new("c", "x")).is_some(), "c is listed");
}

#[tokio::test(start_paused = true)]
async fn relist_of_one_namespace_keeps_the_others() {
    let source = source("ab");
    let namespaces = Namespaces::new(set("ab"));
    let informer = informer(&source, &namespaces, false);
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    received(&mut events).await;
    source.put_raw(serde_json::json!({"metadata": {"namespace": "a", "name": "broken"}, "node": 7}));
    settle().await;
    assert_eq!(informer.lister().undecodable().len(), 1);
    // End all watches, but make only the namespace `b` list again.
    source.faults().when(|request| {
        (request.client == "b" && request.verb() == Verb::Watch).then(|| Outcome::refused(410, Reason::Expired))
    });
    source.break_watches(Break::End);
    settle().await;
    source.remove(&ObjectKey::new("b", "x"));
    long().await;
    source.faults().when(|_| None);
    long().await;
    assert_eq!(received(&mut events).await, ["D? b@2"]);
    assert_eq!(informer.lister().undecodable().len(), 1, "that of a");
    namespaces.set(set("b"));
    settle().await;
    assert_eq!(received(&mut events).await, ["D? a@1"]);
    assert!(informer.lister().undecodable().is_empty() && held(&informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn factory_shares_by_set_identity() {
    let source = source("ab");
    let factory = InformerFactory::new();
    let namespaces = Namespaces::new(set("a"));
    let name_of = |namespaces: &Namespaces, name: &str| {
        let config = InformerConfig { name: name.into(), ..InformerConfig::default() };
        factory.informer_of_namespaces(namespaces, clients(&source), config).name().to_owned()
    };
    assert_eq!(name_of(&namespaces, "first"), "first");
    namespaces.set(set("b"));
    assert_eq!(name_of(&namespaces.clone(), ""), "first");
    assert_eq!(name_of(&Namespaces::new(set("b")), "third"), "third", "sets may differ later");
    let all = factory.informer(source.clone(), InformerConfig { name: "fourth".into(), ..InformerConfig::default() });
    assert_eq!(all.name(), "fourth");
    factory.start();
    factory.wait_for_sync().await.unwrap();
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn source_with_wrong_namespace_stops_the_informer() {
    let source = source("ab");
    let informer = {
        let source = source.clone();
        let all = move |_: Option<&str>| source.client("all");
        SharedInformer::of_namespaces(&Namespaces::new(set("a")), all, InformerConfig::default())
    };
    informer.start();
    informer.wait_for_sync().await.unwrap_err();
    let InformerState::Stopped { cause: StopCause::Panicked { message } } = informer.state() else {
        panic!("{:?}", informer.state())
    };
    assert!(message.contains("a source of the requested namespace"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn rapid_changes_end_with_the_last_set() {
    for streaming_list in [false, true] {
        let source = source("abcd");
        let namespaces = Namespaces::new(set("a"));
        let informer = informer(&source, &namespaces, streaming_list);
        let mut events = informer.subscribe();
        let mut known = BTreeSet::new();
        informer.start();
        let mut chance = fastrand::Rng::with_seed(7);
        for round in 0..200 {
            if chance.u8(..10) == 0 {
                namespaces.set_all();
            } else {
                namespaces.set("abcd".chars().filter(|_| chance.bool()).map(String::from));
            }
            let namespace = ["a", "b", "c", "d"][chance.usize(..4)];
            if chance.bool() {
                source.put(pod(namespace, "x"));
            } else {
                source.remove(&ObjectKey::new(namespace, "x"));
            }
            tokio::time::sleep(Duration::from_millis(chance.u64(..3))).await;
            if round % 3 == 0 {
                fold(&mut known, &mut events);
            }
        }
        informer.wait_for_sync().await.unwrap();
        long().await;
        fold(&mut known, &mut events);
        let there = source.objects().into_iter().map(|pod| ObjectKey::new(&pod.metadata.namespace, &pod.metadata.name));
        let followed = namespaces.names();
        let expected: BTreeSet<ObjectKey> = there
            .filter(|key| followed.as_ref().is_none_or(|names| names.contains(key.namespace().unwrap())))
            .collect();
        assert_eq!(known, expected);
        assert_eq!(held(&informer), expected.iter().filter_map(ObjectKey::namespace).collect::<String>());
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_during_a_set_change_leaves_no_watch() {
    for moment in 0..20 {
        let source = source("abcd");
        let namespaces = Namespaces::new(set("ab"));
        let informer = informer(&source, &namespaces, moment % 2 == 0);
        let mut events = informer.subscribe();
        informer.start();
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        namespaces.set(set("bcd"));
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        informer.shutdown().await;
        assert_eq!(source.open_watches(), 0);
        while events.next().await.is_some() {}
        requests(&source);
        namespaces.set(set("a"));
        long().await;
        assert!(requests(&source).is_empty() && informer.state().has_ended());
        informer.wait_for_sync().await.unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn removing_a_failing_namespace_clears_its_failure() {
    let (source, namespaces, informer) = synced_with_a_and_b().await;
    source.faults().when(|request| (request.client == "b").then(|| Outcome::refused(403, Reason::Forbidden)));
    source.break_watches(Break::expired());
    long().await;
    assert!(informer.state().cause().is_some() && informer.has_synced(), "{:?}", informer.state());
    assert!(format!("{informer:?}").contains("403"), "the debug output shows which namespace: {informer:?}");
    namespaces.set(set("a"));
    let mut states = informer.states();
    states.wait_for(InformerState::is_synced).await.unwrap();
    assert_eq!(informer.states_by_namespace().into_keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_one_set_follow_all_changes() {
    let source = source("abcd");
    let namespaces = Namespaces::new(set("a"));
    let informers = [informer(&source, &namespaces, false), informer(&source, &namespaces, true)];
    informers.iter().for_each(SharedInformer::start);
    let changers = [1_u64, 2].map(|seed| {
        let namespaces = namespaces.clone();
        std::thread::spawn(move || {
            let mut chance = fastrand::Rng::with_seed(seed);
            for _ in 0..100 {
                namespaces.set("abcd".chars().filter(|_| chance.bool()).map(String::from));
                std::thread::yield_now();
            }
        })
    });
    changers.into_iter().for_each(|changer| changer.join().unwrap());
    namespaces.set(set("bd"));
    for informer in &informers {
        let as_wanted = async {
            while held(informer) != "bd" {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), as_wanted).await.expect("the cache converges");
        informer.wait_for_sync().await.unwrap();
        informer.shutdown().await;
    }
    assert_eq!(source.open_watches(), 0);
}
