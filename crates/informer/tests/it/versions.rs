//! Tests that the cache has the server's revisions, which never decrease.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_informer::reflector::Command;
use pintle_informer::{DecodePolicy, InformerConfig, ReflectorConfig, ReflectorError, SharedInformer};
use pintle_meta::{RawObject, Reason, Resource, ResourceVersionMatch, Status, WatchEvent};
use serde_json::json;

use crate::support::rig::{Rig, config};
use crate::support::scripted::{Scripted, list, raw, silence};
use crate::support::{Pod, drain, expired, failure, key, pod, pod_at, pods, refused, requests, settle, too_large};

fn bound(not_older_than: &str) -> ReflectorConfig {
    ReflectorConfig { not_older_than: not_older_than.into(), ..config() }
}

fn went_back(rig: &Rig) -> Option<(String, String)> {
    match rig.reflector.state().cause()? {
        ReflectorError::WentBack { returned, known } => Some((returned.clone(), known.clone())),
        _ => None,
    }
}

#[test]
fn output_revision_never_decreases() {
    let mut rig = Rig::watching(5);
    rig.receive(WatchEvent::Added(pod_at("b", 30)));
    rig.receive(WatchEvent::Modified(pod_at("b", 9)));
    rig.bookmark(20, false);
    rig.receive(WatchEvent::Deleted(pod_at("b", 100)));
    assert_eq!(rig.outputs, ["added b@30", "updated b@9 at 30", "bookmark 30", "deleted b@100"]);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.end(), "WATCH rv=100");
}

#[test]
fn f20_each_event_has_its_revision() {
    let mut rig = Rig::watching(5);
    rig.receive(WatchEvent::Added(pod_at("b", 10)));
    rig.receive(WatchEvent::Modified(pod_at("b", 20)));
    rig.bookmark(30, false);
    rig.receive(WatchEvent::Deleted(pod_at("b", 40)));
    assert_eq!(rig.outputs, ["added b@10", "updated b@20", "bookmark 30", "deleted b@40"]);
}

#[test]
fn last_revision_wins_if_not_a_number() {
    let mut rig = Rig::new();
    rig.page(&[], "b", "");
    rig.open();
    let mut pod = pod_at("a", 1);
    pod.metadata.resource_version = "a".into();
    rig.receive(WatchEvent::Added(pod));
    assert_eq!(rig.outputs, ["replaced [] at b", "added a@a"]);
}

#[test]
fn list_older_than_known_is_rejected() {
    let mut rig = Rig::watching(10);
    rig.receive(WatchEvent::Added(pod_at("b", 12)));
    rig.outputs.clear();
    rig.receive_error(expired());
    rig.wake();
    assert_eq!(rig.list(&["a"], 9), "SLEEP 1600");
    assert_eq!(went_back(&rig), Some(("9".into(), "12".into())));
    assert_eq!(rig.wake(), "LIST rv= limit=500", "the newest state bypasses the server cache");
    assert_eq!(rig.list(&["a"], 11), "SLEEP 3200");
    assert_eq!(rig.wake(), "LIST rv= limit=500", "still the newest state");
    assert!(rig.outputs.is_empty(), "{:?}", rig.outputs);
    assert_eq!(rig.list(&["a"], 12), "WATCH rv=12");
    assert_eq!(rig.outputs, ["replaced [a] at 12"]);
    assert!(rig.cause().is_none());
}

#[test]
fn streaming_list_older_than_known_is_rejected() {
    let mut rig = Rig::streaming();
    rig.open();
    rig.bookmark(10, true);
    rig.receive_error(expired());
    rig.wake();
    rig.open();
    assert!(rig.bookmark(9, true).starts_with("SLEEP"));
    assert_eq!(went_back(&rig), Some(("9".into(), "10".into())));
    assert_eq!(rig.wake(), "WATCH rv= initial");
    rig.open();
    assert_eq!(rig.bookmark(11, true), "READ");
    assert_eq!(rig.outputs, ["replaced [] at 10", "replaced [] at 11"]);
}

#[test]
fn first_list_respects_not_older_than() {
    let mut rig = Rig::with(bound("42"));
    assert_eq!(rig.command_text(), "LIST rv=42 limit=0");
    assert_eq!(rig.list(&["a"], 41), "SLEEP 800");
    assert_eq!(went_back(&rig), Some(("41".into(), "42".into())));
    assert_eq!(rig.wake(), "LIST rv= limit=500");
    assert_eq!(rig.list(&["a"], 50), "WATCH rv=50");

    let mut streaming = Rig::with(ReflectorConfig { streaming_list: true, ..bound("42") });
    assert_eq!(streaming.command_text(), "WATCH rv=42 initial");
    streaming.open();
    assert_eq!(streaming.bookmark(41, true), "SLEEP 800");
}

#[test]
fn list_below_the_minimum_revision_is_retried() {
    for lost in [too_large(), expired()] {
        let mut rig = Rig::with(bound("42"));
        assert_eq!(rig.list_fails(lost), "LIST rv= limit=500");
        assert_eq!(rig.list(&["a"], 30), "SLEEP 800");
        assert_eq!(rig.wake(), "LIST rv= limit=500");
        assert_eq!(rig.list(&["a"], 42), "WATCH rv=42");
        assert_eq!(rig.outputs, ["replaced [a] at 42"]);
    }
}

#[test]
fn restored_server_is_accepted_after_a_minute() {
    for streaming_list in [false, true] {
        let mut rig = Rig::with(ReflectorConfig { streaming_list, ..config() });
        let list = |rig: &mut Rig, revision: u64| {
            if streaming_list {
                rig.open();
                rig.bookmark(revision, true)
            } else {
                rig.list(&["a"], revision)
            }
        };
        list(&mut rig, 100);
        if !streaming_list {
            rig.open();
        }
        rig.receive_error(expired());
        rig.wake();
        rig.outputs.clear();
        list(&mut rig, 40);
        let began = rig.now;
        for revision in 41.. {
            rig.wake();
            assert!(rig.outputs.is_empty(), "{:?}", rig.outputs);
            list(&mut rig, revision);
            if rig.now - began >= Duration::from_secs(60) {
                break;
            }
            assert_eq!(went_back(&rig), Some((revision.to_string(), "100".into())));
        }
        assert_eq!(rig.outputs.len(), 1);
        assert!(rig.outputs[0].starts_with("replaced ["), "{:?}", rig.outputs);
        assert!(rig.cause().is_none());
        // Let the revision increase again after the restore.
        let known: u64 = rig.reflector.resource_version().parse().unwrap();
        assert!((41..60).contains(&known), "{known}");
        if !streaming_list {
            rig.open();
        }
        rig.receive_error(expired());
        rig.wake();
        list(&mut rig, known - 1);
        assert!(went_back(&rig).is_some(), "the minute restarts");
    }
}

#[test]
fn newer_answer_restarts_the_restore_check() {
    let mut rig = Rig::watching(100);
    for _ in 0..5 {
        rig.receive_error(expired());
        rig.wake();
        assert!(rig.list(&["a"], 40).starts_with("SLEEP"));
        rig.wake();
        rig.pass(Duration::from_secs(50));
        assert!(rig.list(&["a"], 41).starts_with("SLEEP"));
        rig.wake();
        assert_eq!(rig.list(&["a"], 100), "WATCH rv=100");
        rig.open();
    }
    rig.outputs.retain(|output| !output.ends_with("at 100"));
    assert!(rig.outputs.is_empty(), "{:?}", rig.outputs);
}

#[test]
fn configured_minimum_revision_is_awaited_forever() {
    let mut rig = Rig::with(bound("42"));
    for _ in 0..100 {
        assert!(rig.list(&["a"], 41).starts_with("SLEEP"));
        rig.wake();
    }
    assert!(rig.outputs.is_empty() && went_back(&rig).is_some());
}

#[test]
fn pages_may_be_newer_than_the_bound() {
    let mut rig = Rig::with(ReflectorConfig { page_size: Some(2), ..bound("42") });
    let Command::List(options) = rig.command.clone() else { panic!("{:?}", rig.command) };
    assert_eq!(options.resource_version_match, Some(ResourceVersionMatch::NotOlderThan));
    rig.page(&["a", "b"], "50", "more");
    let Command::List(options) = rig.command.clone() else { panic!("{:?}", rig.command) };
    assert_eq!((options.resource_version_match, options.resource_version.as_str()), (None, ""));
    assert_eq!(rig.page(&["c"], "50", ""), "WATCH rv=50");
}

#[tokio::test(start_paused = true)]
async fn first_list_waits_for_the_configured_revision() {
    let source = pods(&["a", "b"]);
    let reflector = ReflectorConfig { not_older_than: "4".into(), ..ReflectorConfig::default() };
    let config = InformerConfig { reflector, ..InformerConfig::default() };
    let informer = SharedInformer::new(source.clone(), config);
    informer.start();
    settle().await;
    assert!(informer.state().cause().is_some(), "{:?}", informer.state());
    assert_eq!(requests(&source), ["LIST rv=4 limit=0", "LIST rv= limit=500"]);
    source.put(pod("c", ""));
    source.remove(&key("a"));
    informer.wait_for_sync().await.unwrap();
    assert!(informer.lister().get(&key("a")).is_none());
    assert_eq!(informer.lister().snapshot().resource_version(), "4");
}

#[tokio::test(start_paused = true)]
async fn cache_version_ignores_transforms() {
    let source = pods(&["a"]);
    let transform = |pod: &mut Pod| pod.metadata.resource_version = String::new();
    let config = InformerConfig { transform: Some(Arc::new(transform)), ..InformerConfig::default() };
    let informer = SharedInformer::new(source.clone(), config);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let lister = informer.lister();
    let written = source.put(pod("b", ""));
    lister.wait_for(&written.metadata.resource_version).await.unwrap();
    assert!(lister.get(&key("b")).is_some());
    source.remove(&key("b"));
    lister.wait_for("3").await.unwrap();
    assert!(lister.get(&key("b")).is_none());
    assert_eq!(lister.snapshot().resource_version(), "3");
    assert_eq!(requests(&source), ["LIST rv=0 limit=500", "WATCH rv=1"]);
}

/// Returns a source that responds with the given lists. The first list has a pod at revision 10. Watches fail before
/// the second list. Later lists have the given revision and contain the same version of the pod, but with other
/// content.
fn repeated_at(revision: &'static str) -> Scripted {
    let pod = |node: &str| json!({"metadata": {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "5"}, "node": node});
    let lists = Arc::new(AtomicUsize::new(0));
    let listed = lists.clone();
    Scripted::of(
        Pod::api_resource(),
        Some("ns"),
        move || {
            let is_first = lists.fetch_add(1, Ordering::Relaxed) == 0;
            Ok(if is_first { list(&[pod("before")], "10") } else { list(&[pod("after")], revision) })
        },
        move |options| match options.send_initial_events {
            true if listed.load(Ordering::Relaxed) == 0 => Err(failure(400, Reason::Invalid)),
            false if listed.load(Ordering::Relaxed) > 1 => Ok(silence()),
            _ => Err(expired()),
        },
    )
}

#[tokio::test(start_paused = true)]
async fn restore_replaces_objects_of_equal_version() {
    for streaming_list in [false, true] {
        let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
        let config = InformerConfig { reflector, ..InformerConfig::default() };
        let informer = SharedInformer::new(repeated_at("7"), config);
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        assert_eq!(drain(&mut events).await, ["A! a@5"]);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(informer.lister().resource_version(), "7", "the restored state is accepted");
        assert_eq!(informer.lister().get(&key("a")).unwrap().node, "after");
        assert_eq!(drain(&mut events).await, ["U a@5..5"]);
    }
}

#[tokio::test(start_paused = true)]
async fn newest_list_keeps_objects_of_equal_version() {
    let informer = SharedInformer::new(repeated_at("11"), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(drain(&mut events).await, ["A! a@5"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(informer.lister().resource_version(), "11", "it was listed again");
    assert_eq!(
        informer.lister().get(&key("a")).unwrap().node,
        "before",
        "the cache has the state that the events yield"
    );
    assert_eq!(drain(&mut events).await, [""; 0]);
}

fn pod_json(name: &str, version: &str) -> serde_json::Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("u-{name}"), "resourceVersion": version}, "node": ""})
}

/// Returns a source that responds with the given lists and watches. The last list and the last watch are repeated. A
/// watch ends after a minute.
fn scripted(lists: Vec<(Vec<serde_json::Value>, &'static str)>, watches: Vec<Vec<WatchEvent<RawObject>>>) -> Scripted {
    let (listed, watched) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let answer = move || {
        let (items, version) = &lists[listed.fetch_add(1, Ordering::Relaxed).min(lists.len() - 1)];
        Ok(list(items, version))
    };
    Scripted::new(answer, move || {
        let events = watches.get(watched.fetch_add(1, Ordering::Relaxed)).cloned().unwrap_or_default();
        Ok(Box::new(events.into_iter()))
    })
}

/// For example, a server replica with an older state may continue a watch and deliver older events.
#[tokio::test(start_paused = true)]
async fn event_older_than_the_cache_is_ignored() {
    let event =
        |kind: fn(RawObject) -> WatchEvent<RawObject>, name: &str, version: &str| kind(raw(&pod_json(name, version)));
    let events = vec![
        event(WatchEvent::Modified, "a", "110"),
        event(WatchEvent::Modified, "a", "105"),
        event(WatchEvent::Deleted, "a", "104"),
        event(WatchEvent::Added, "b", "103"),
        event(WatchEvent::Modified, "a", "110"),
    ];
    let informer = SharedInformer::new(
        scripted(vec![(vec![pod_json("a", "90")], "100")], vec![events]),
        InformerConfig::default(),
    );
    let mut received = informer.subscribe_ordered(100);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(drain(&mut received).await, ["A! a@90", "U a@90..110", "A b@103", "U a@110..110"]);
    assert_eq!(informer.lister().resource_version(), "110");
}

/// The last decodable state of an undecodable object may have been stored before the server was restored.
#[tokio::test(start_paused = true)]
async fn undecodable_object_is_fixed_after_a_restore() {
    let mut bad = pod_json("a", "40");
    bad["node"] = 7.into();
    let gone = WatchEvent::Error(Box::new(Status::failure(410, Reason::Expired, "too old")));
    let mended = WatchEvent::Modified(raw(&pod_json("a", "60")));
    let lists = vec![(vec![pod_json("a", "90")], "100"), (vec![bad], "50")];
    let informer = SharedInformer::new(scripted(lists, vec![vec![gone], vec![mended]]), InformerConfig::default());
    informer.start();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let lister = informer.lister();
    assert_eq!((lister.undecodable().len(), lister.list()[0].metadata.resource_version.as_str()), (0, "60"));
}

/// After a restore, a subscriber with lazily decoded objects keeps the last decodable state, like the cache.
#[tokio::test(start_paused = true)]
async fn undecodable_object_of_a_restored_server_keeps_its_state() {
    for decode in [DecodePolicy::OnArrival, DecodePolicy::OnRead] {
        let mut bad = pod_json("a", "40");
        bad["node"] = 7.into();
        let gone = WatchEvent::Error(Box::new(Status::failure(410, Reason::Expired, "too old")));
        let lists = vec![(vec![pod_json("a", "90")], "100"), (vec![bad], "50")];
        let config = InformerConfig { decode, ..InformerConfig::default() };
        let informer = SharedInformer::new(scripted(lists, vec![vec![gone]]), config);
        let (mut newest, mut each) = (informer.subscribe_newest(), informer.subscribe_ordered(8));
        informer.start();
        informer.wait_for_sync().await.unwrap();
        assert!(newest.try_next().is_some_and(|(_, object)| object.is_some()));
        assert_eq!(drain(&mut each).await, ["A! a@90"]);
        tokio::time::sleep(Duration::from_secs(300)).await;
        let lister = informer.lister();
        assert_eq!((lister.undecodable().len(), lister.list_names()), (1, vec!["a".to_owned()]), "{decode:?}");
        assert!(std::iter::from_fn(|| newest.try_next()).all(|(_, object)| object.is_some()), "{decode:?}");
        assert!(drain(&mut each).await.iter().all(|event| event.starts_with('U')), "{decode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_fails_when_a_restore_lost_its_revision() {
    let gone = WatchEvent::Error(Box::new(Status::failure(410, Reason::Expired, "too old")));
    let lists = vec![(vec![pod_json("a", "90")], "100"), (vec![pod_json("a", "40")], "50")];
    let informer = SharedInformer::new(scripted(lists, vec![vec![gone]]), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let lister = informer.lister();
    let waits = tokio::time::timeout(Duration::from_secs(600), lister.wait_for("101")).await;
    assert_eq!(
        waits.expect("it ends").unwrap_err().to_string(),
        r#"the server's revisions went back, so the resourceVersion "101" may never arrive"#
    );
    // A wait that starts after the restore uses a revision of the restored server.
    lister.wait_for("50").await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(600), lister.wait_for("101")).await.is_err());
}

/// An aggregated API server may not set resourceVersions. Each watch of an API server without resourceVersions starts
/// with all objects.
#[test]
fn watch_without_revisions_is_followed_by_a_list() {
    for version in ["", "0"] {
        let mut rig = Rig::new();
        rig.page(&[], version, "");
        rig.open();
        rig.pass(Duration::from_secs(60));
        assert!(rig.end().starts_with("LIST"), "{version:?}");
        rig.page(&[], version, "");
        assert!(rig.open_fails(refused()).starts_with("SLEEP"));
        assert!(rig.wake().starts_with("LIST"), "{version:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn missed_deletion_without_revisions_is_noticed() {
    let (both, one) = (vec![pod_json("a", ""), pod_json("b", "")], vec![pod_json("a", "")]);
    let added = |name: &str| WatchEvent::Added(raw(&pod_json(name, "")));
    let watches = vec![vec![added("a"), added("b")], vec![added("a")]];
    let informer = SharedInformer::new(scripted(vec![(both, ""), (one, "")], watches), InformerConfig::default());
    let mut received = informer.subscribe();
    informer.start();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(informer.lister().list_names(), ["a"]);
    assert!(drain(&mut received).await.len() <= 2);
}

trait Names {
    fn list_names(&self) -> Vec<String>;
}

impl Names for pintle_informer::Lister<Pod> {
    fn list_names(&self) -> Vec<String> {
        self.list().iter().map(|pod| pod.metadata.name.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn list_with_an_empty_name_is_rejected() {
    let nameless = json!({"metadata": {"namespace": "ns", "generateName": "x-"}, "node": ""});
    let lists = vec![(vec![pod_json("a", "1"), nameless], "100"), (vec![pod_json("a", "1")], "101")];
    let informer = SharedInformer::new(scripted(lists, Vec::new()), InformerConfig::default());
    let mut states = informer.states();
    informer.start();
    let degraded = states.wait_for(|state| state.cause().is_some()).await.unwrap();
    let error = degraded.cause().unwrap().to_string();
    assert!(error.contains("item 1 of the list has no name: its name is empty"), "{error}");
    assert!(informer.lister().is_empty() && informer.lister().undecodable().is_empty());
    informer.wait_for_sync().await.unwrap();
    assert_eq!(informer.lister().list_names(), ["a"]);
}
