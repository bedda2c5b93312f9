//! Objects that cannot be decoded: they are shown, and hold nobody up.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer, Subscription};
use pintle_meta::{
    ApiError, Bookmark, ListMeta, ListOptions, ListPart, ListWatch, ObjectKey, Parts, WatchEvent, WatchOptions,
};
use tokio::sync::mpsc;

use crate::support::{Pod, drain, drain_sorted, settle};

/// A source of whatever bytes the test wants.
#[derive(Clone, Default)]
struct Raw(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    items: Vec<Bytes>,
    revision: u64,
    watch: Option<mpsc::UnboundedSender<Item>>,
}

type Item = Result<WatchEvent<Bytes>, ApiError>;

struct Events(mpsc::UnboundedReceiver<Item>);

impl futures_core::Stream for Events {
    type Item = Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Item>> {
        self.0.poll_recv(context)
    }
}

impl Raw {
    fn listing(items: &[Bytes]) -> Self {
        let raw = Self::default();
        raw.list_from_now(items, 7);
        raw
    }

    fn list_from_now(&self, items: &[Bytes], revision: u64) {
        let mut inner = self.0.lock().unwrap();
        (inner.items, inner.revision) = (items.to_vec(), revision);
    }

    fn tell(&self, event: WatchEvent<Bytes>) {
        self.0.lock().unwrap().watch.as_ref().unwrap().send(Ok(event)).unwrap();
    }

    /// The server has lost track, and is listed anew.
    fn expire(&self) {
        let expired = pintle_meta::Status::failure(410, pintle_meta::Reason::Expired, "too old");
        self.tell(WatchEvent::Error(Box::new(expired)));
    }
}

impl ListWatch for Raw {
    type Object = Pod;
    type Page = Parts;
    type Events = Events;

    async fn list(&self, _: &ListOptions) -> Result<Parts, ApiError> {
        let inner = self.0.lock().unwrap();
        let mut parts: Vec<_> = inner.items.iter().map(|item| Ok(ListPart::Item(item.clone()))).collect();
        let metadata = ListMeta { resource_version: inner.revision.to_string(), ..ListMeta::default() };
        parts.push(Ok(ListPart::Metadata(metadata)));
        Ok(Parts::new(parts))
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Events, ApiError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.0.lock().unwrap();
        if options.send_initial_events {
            for item in &inner.items {
                sender.send(Ok(WatchEvent::Added(item.clone()))).unwrap();
            }
            let resource_version = inner.revision.to_string();
            sender.send(Ok(WatchEvent::Bookmark(Bookmark { resource_version, initial_events_end: true }))).unwrap();
        }
        inner.watch = Some(sender);
        Ok(Events(receiver))
    }
}

/// A pod, or with a number for its node what is none.
fn pod(name: &str, uid: &str, revision: u64, node: &str) -> Bytes {
    let metadata = format!(r#"{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{revision}"}}"#);
    format!(r#"{{"metadata":{metadata},"node":{node}}}"#).into()
}

async fn start(source: &Raw, streaming_list: bool) -> (SharedInformer<Pod>, Subscription<Pod>) {
    let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
    let informer = SharedInformer::new(source.clone(), InformerConfig { reflector, ..InformerConfig::default() });
    let events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    (informer, events)
}

/// `key@resourceVersion` of each entry.
fn shown(informer: &SharedInformer<Pod>) -> Vec<String> {
    let entries = informer.lister().undecodable();
    assert!(entries.iter().all(|entry| entry.error.contains("expected a string")), "{entries:?}");
    entries.iter().map(|entry| format!("{}@{}", entry.key, entry.resource_version)).collect()
}

fn node(informer: &SharedInformer<Pod>, name: &str) -> Option<String> {
    informer.lister().get(&ObjectKey::new("ns", name)).map(|pod| pod.node.clone())
}

#[tokio::test(start_paused = true)]
async fn one_in_the_first_list_is_shown_and_the_others_are_there() {
    for streaming_list in [false, true] {
        let source = Raw::listing(&[pod("a", "1", 1, "\"x\""), pod("b", "2", 2, "7"), pod("c", "3", 3, "\"x\"")]);
        let (informer, mut events) = start(&source, streaming_list).await;
        assert!(informer.state().is_synced(), "{:?}", informer.state());
        assert_eq!(drain_sorted(&mut events).await, ["A! a@1", "A! c@3"]);
        assert_eq!(shown(&informer), ["ns/b@2"]);

        source.tell(WatchEvent::Modified(pod("b", "2", 8, "\"x\"")));
        assert_eq!(drain(&mut events).await, ["A b@8"], "it heals");
        assert!(shown(&informer).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_known_keeps_its_last_good_state_until_it_is_mended() {
    let source = Raw::listing(&[pod("a", "1", 1, "\"x\"")]);
    let (informer, mut events) = start(&source, false).await;
    drain(&mut events).await;
    source.tell(WatchEvent::Modified(pod("a", "1", 8, "7")));
    source.tell(WatchEvent::Added(pod("b", "2", 9, "\"y\"")));
    assert_eq!(drain(&mut events).await, ["A b@9"], "nobody is told of a deletion");
    assert_eq!((node(&informer, "a").unwrap().as_str(), shown(&informer)), ("x", vec!["ns/a@8".into()]));

    source.list_from_now(&[pod("a", "1", 8, "7"), pod("b", "2", 9, "\"y\"")], 9);
    source.expire();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(drain(&mut events).await.is_empty(), "nor by a list");
    assert_eq!((node(&informer, "a").unwrap().as_str(), shown(&informer)), ("x", vec!["ns/a@8".into()]));

    source.tell(WatchEvent::Modified(pod("a", "1", 10, "\"z\"")));
    assert_eq!(drain(&mut events).await, ["U a@1..10"]);
    assert!(shown(&informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_goes_from_the_cache_and_from_what_is_shown() {
    let source = Raw::listing(&[pod("a", "1", 1, "\"x\""), pod("b", "2", 2, "7")]);
    let (informer, mut events) = start(&source, false).await;
    drain(&mut events).await;
    source.tell(WatchEvent::Modified(pod("a", "1", 8, "7")));
    source.tell(WatchEvent::Deleted(pod("a", "1", 9, "7")));
    source.tell(WatchEvent::Deleted(pod("b", "2", 10, "7")));
    assert_eq!(drain(&mut events).await, ["D? a@1"], "the last state cannot be told");
    assert!(shown(&informer).is_empty() && informer.lister().is_empty());

    source.tell(WatchEvent::Added(pod("c", "3", 11, "7")));
    settle().await;
    assert_eq!(shown(&informer), ["ns/c@11"]);
    source.list_from_now(&[], 12);
    source.expire();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(shown(&informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_was_made_anew_is_another_object() {
    let source = Raw::listing(&[pod("a", "1", 1, "\"x\"")]);
    let (informer, mut events) = start(&source, false).await;
    drain(&mut events).await;
    source.tell(WatchEvent::Modified(pod("a", "other", 8, "7")));
    assert_eq!(drain(&mut events).await, ["D? a@1"]);
    assert_eq!((node(&informer, "a"), shown(&informer)), (None, vec!["ns/a@8".into()]));

    source.tell(WatchEvent::Added(pod("b", "2", 9, "\"y\"")));
    drain(&mut events).await;
    source.list_from_now(&[pod("b", "other", 10, "7")], 10);
    source.expire();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(drain(&mut events).await, ["D? b@9"], "also when a list tells it");
    assert_eq!(shown(&informer), ["ns/b@10"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_its_metadata_is_no_list() {
    struct Half;
    impl ListWatch for Half {
        type Object = Pod;
        type Page = Parts;
        type Events = Events;
        async fn list(&self, _: &ListOptions) -> Result<Parts, ApiError> {
            Ok(Parts::new(vec![Ok(ListPart::Item(pod("a", "1", 1, "\"x\"")))]))
        }
        async fn watch(&self, _: &WatchOptions) -> Result<Events, ApiError> {
            unreachable!("there is nothing to watch from")
        }
    }
    let informer = SharedInformer::new(Half, InformerConfig::default());
    informer.start();
    settle().await;
    assert!(!informer.has_synced() && informer.lister().is_empty());
    assert!(informer.state().cause().unwrap().to_string().contains("metadata"));
}
