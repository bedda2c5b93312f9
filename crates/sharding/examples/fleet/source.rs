//! A simulated API server that selects the objects of a shard like Kubernetes 1.36.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use pintle_meta::{
    ApiError, ApiResource, ListMeta, ListOptions, ListPart, ListWatch, PartialObject, RawObject, Scope, WatchEvent,
    WatchOptions,
};
use pintle_sharding::Shard;
use tokio::sync::broadcast;

/// All objects of the server, by shard.
pub(super) struct Objects {
    revision: AtomicU64,
    /// The shard of each object, and the index of the object in its shard.
    places: Vec<(u32, u32)>,
    shards: Vec<Contents>,
}

struct Contents {
    uids: Vec<(usize, String)>,
    changes: broadcast::Sender<WatchEvent<RawObject>>,
}

/// A source of list and watch requests for a single shard.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) objects: Arc<Objects>,
    pub(super) shard: Shard,
}

/// The maximum number of changes that a watch may lag behind.
const WATCH_BUFFER: usize = 1 << 14;

impl Objects {
    pub(super) fn new(count: usize, shards: u32) -> Self {
        let shards: Vec<Shard> = Shard::all(shards).collect();
        let contents = || Contents { uids: Vec::new(), changes: broadcast::channel(WATCH_BUFFER).0 };
        let mut this = Self {
            revision: AtomicU64::new(1),
            places: Vec::new(),
            shards: shards.iter().map(|_| contents()).collect(),
        };
        let mut random = fastrand::Rng::with_seed(7);
        for object in 0..count {
            let uid = format!("{:08x}-{:04x}-4000-8000-{:012x}", random.u32(..), random.u16(..), random.u64(..1 << 48));
            let at = shards.iter().position(|shard| shard.has_uid(&uid)).expect("each uid has a shard");
            let uids = &mut this.shards[at].uids;
            this.places.push((at as u32, uids.len() as u32));
            uids.push((object, uid));
        }
        this
    }

    pub(super) fn count(&self, shard: Shard) -> usize {
        self.shards[shard.index() as usize].uids.len()
    }

    pub(super) fn change(&self, object: usize) {
        let (shard, index) = self.places[object];
        let contents = &self.shards[shard as usize];
        let revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        // Ignore the error: without an open watch, the next list returns the change.
        let _ = contents.changes.send(WatchEvent::Modified(json(&contents.uids[index as usize], revision)));
    }
}

fn json((object, uid): &(usize, String), revision: u64) -> RawObject {
    let space = object % 50;
    RawObject::from(Bytes::from(format!(
        r#"{{"metadata":{{"namespace":"bench-{space:02}","name":"bench-{object}","uid":"{uid}","resourceVersion":"{revision}","labels":{{"zone":"zone-{}"}}}}}}"#,
        object % 5
    )))
}

impl ListWatch for Source {
    type Object = PartialObject;
    type Page = BoxStream<'static, Result<ListPart, ApiError>>;
    type Events = BoxStream<'static, Result<WatchEvent<RawObject>, ApiError>>;

    fn api_resource(&self) -> ApiResource {
        ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced)
    }

    fn namespace(&self) -> Option<&str> {
        None
    }

    async fn list(&self, _: &ListOptions) -> Result<Self::Page, ApiError> {
        let (objects, shard) = (self.objects.clone(), self.shard.index() as usize);
        let revision = objects.revision.load(Ordering::Relaxed);
        let metadata = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
        let items = (0..objects.shards[shard].uids.len())
            .map(move |index| Ok(ListPart::Item(json(&objects.shards[shard].uids[index], 1))));
        Ok(stream::iter(items).chain(stream::iter([Ok(ListPart::Metadata(metadata))])).boxed())
    }

    async fn watch(&self, _: &WatchOptions) -> Result<Self::Events, ApiError> {
        let changes = self.objects.shards[self.shard.index() as usize].changes.subscribe();
        let events = stream::unfold(changes, async |mut changes| {
            // End a watch that lags too far behind, so that the informer starts another watch.
            changes.recv().await.ok().map(|event| (Ok(event), changes))
        });
        Ok(events.boxed())
    }
}
