//! Lists a collection of the upstream cluster, and then watches it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use pintle_apimachinery::object::{key, metadata};
use pintle_json::Json;
use pintle_kinds::Kind;
use pintle_storage::{Range, UpstreamObject};
use tokio::time::Instant;

use super::upstream::{Refusal, collection_path, encoded};
use super::{Collection, Live, contains, version};

const PAGE: usize = 500;
const WATCH_SECONDS: u64 = 300;
/// The number of seconds after a watch's timeout at which a still open watch is dropped, because its connection is
/// probably lost.
const WATCH_GRACE: u64 = 60;
const PAUSE: Duration = Duration::from_millis(100);
/// The pause after a watch that failed or ended too early. The pause doubles with each further failed watch, up to
/// [`LONGEST_PAUSE`].
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A watch that ends without an event before this duration counts as failed.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
const LONGEST_EVENT: usize = 64 << 20;
const EXPIRED_CODE: u16 = 410;

impl Live {
    pub(super) async fn follow(self: Arc<Self>, kind: Arc<Kind>, collection: Collection) -> Result<(), Refusal> {
        let version = self.list(&kind, &collection).await?;
        self.complete.write().insert(collection.clone());
        let stop = self.stop.clone();
        let tasks = self.tasks.clone();
        tasks.spawn(async move { stop.run_until_cancelled(self.watch_on(&kind, &collection, version)).await });
        Ok(())
    }

    /// Copies all objects of an upstream collection to this server. Returns the resourceVersion from which to watch.
    async fn list(&self, kind: &Arc<Kind>, collection: &Collection) -> Result<String, Refusal> {
        let path = collection_path(kind, &collection.namespace);
        let mut listed = HashSet::new();
        let mut next = format!("{path}?limit={PAGE}");
        loop {
            let mut page = match self.upstream.get(&next).await {
                // The continue token has expired, so list the collection again in a single request.
                Err(refusal) if refusal.code == EXPIRED_CODE && !listed.is_empty() => {
                    listed.clear();
                    self.upstream.get(&path).await?
                }
                page => page?,
            };
            for object in page["items"].as_array_mut().map(std::mem::take).into_iter().flatten() {
                listed.insert(key(metadata::namespace(&object), metadata::name(&object)));
                self.store_upstream_object(kind, object);
            }
            match page.text("/metadata/continue") {
                "" => {
                    let range =
                        Range::namespace(Some(&*collection.namespace).filter(|namespace| !namespace.is_empty()));
                    self.registry.db.show_no_others(&collection.resource, &range, &listed, version(&page));
                    return Ok(page.text("/metadata/resourceVersion").to_owned());
                }
                token => next = format!("{path}?limit={PAGE}&continue={}", encoded(token)),
            }
        }
    }

    /// Watches a collection, starting at `version`, until the kind is no longer served.
    async fn watch_on(&self, kind: &Arc<Kind>, collection: &Collection, mut version: String) {
        let mut after_failure = PAUSE_AFTER_FAILURE;
        loop {
            let (begun, from) = (Instant::now(), version.clone());
            let end = Duration::from_secs(WATCH_SECONDS + WATCH_GRACE);
            let watched = tokio::time::timeout(end, self.watch(kind, collection, &mut version)).await;
            let has_lasted = begun.elapsed() >= SHORTEST_WATCH || version != from;
            let ended = match watched.unwrap_or(Ok(())) {
                Err(refusal) if refusal.code == EXPIRED_CODE => {
                    self.list(kind, collection).await.map(|newest| version = newest)
                }
                ended => ended,
            };
            if ended.is_ok() && has_lasted {
                after_failure = PAUSE_AFTER_FAILURE;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            if self.registry.kinds().resource(&kind.group, &kind.version, &kind.plural).is_none() {
                return self.forget(collection);
            }
            let why = ended.err().map_or_else(|| "the watch ended at once".into(), |refusal| refusal.message());
            tracing::warn!(resource = %collection.resource, why, "cannot watch the upstream cluster");
            tokio::time::sleep(after_failure).await;
            after_failure = (after_failure * 2).min(LONGEST_PAUSE);
        }
    }

    /// Marks a collection as not loaded. If the kind is served again later, the next request for the collection loads
    /// its objects again.
    fn forget(&self, collection: &Collection) {
        self.complete.write().remove(collection);
        self.collections.lock().remove(collection);
    }

    /// Watches a collection until the upstream server ends the watch. Sets `version` to the resourceVersion from which
    /// to start the next watch.
    async fn watch(&self, kind: &Arc<Kind>, collection: &Collection, version: &mut String) -> Result<(), Refusal> {
        let path = collection_path(kind, &collection.namespace);
        let from = encoded(version);
        let query = format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}");
        let mut body = self.upstream.open(&format!("{path}?{query}")).await?;
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Refusal::unreachable(&*error))?;
            let Ok(data) = frame.into_data() else { continue };
            // `rest` contains no line break, because complete lines have already been removed.
            let mut read = rest.len();
            rest.extend_from_slice(&data);
            let mut begin = 0;
            while let Some(end) = rest[read..].iter().position(|byte| *byte == b'\n') {
                let event = serde_json::from_slice(&rest[begin..read + end]);
                self.apply_event(kind, collection, event.map_err(|error| Refusal::unreachable(&error))?, version)?;
                (begin, read) = (read + end + 1, read + end + 1);
            }
            rest.drain(..begin);
            if rest.len() > LONGEST_EVENT {
                return Err(Refusal::unreachable(&std::io::Error::other("a watch event is too long")));
            }
        }
        Ok(())
    }

    fn apply_event(
        &self,
        kind: &Arc<Kind>,
        collection: &Collection,
        mut event: Json,
        reached: &mut String,
    ) -> Result<(), Refusal> {
        let object = event["object"].take();
        match event.text("/type") {
            "ERROR" => return Err(Refusal::from_status(&object)),
            "DELETED" => {
                let (namespace, name) = (metadata::namespace(&object), metadata::name(&object));
                let shown = UpstreamObject { at: version(&object), object: None };
                let complete = self.complete.read();
                self.registry.db.show(
                    &collection.resource,
                    &key(namespace, name),
                    shown,
                    contains(&complete, collection),
                );
            }
            "ADDED" | "MODIFIED" => self.store_upstream_object(kind, object.clone()),
            _ => (),
        }
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            version.clone_into(reached);
        }
        Ok(())
    }
}
