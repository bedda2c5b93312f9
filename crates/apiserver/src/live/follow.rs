//! A collection of the other cluster: listed once, then watched.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use pintle_json::Json;
use tokio::time::Instant;

use super::upstream::{Refusal, collection_path, encoded};
use super::{Collection, Live, is_in, version};
use crate::kinds::Kind;
use crate::object::metadata;
use crate::store::{Range, UpstreamObject, key};

/// How many objects are asked for at once.
const PAGE: usize = 500;
/// How long a watch goes on before it is begun anew.
const WATCH_SECONDS: u64 = 300;
/// How much longer it may go on before it is given up, since nobody seems to be there.
const WATCH_GRACE: u64 = 60;
/// How long to wait before a watch that ended is begun anew; one that failed, or ended at once, at first, and at most after several that did.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A watch that ends before, though it had nothing to tell, ended at once.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// The longest event that is read.
const LONGEST_EVENT: usize = 64 << 20;
const EXPIRED_CODE: u16 = 410;

impl Live {
    /// Brings a collection here, and follows it until the server ends.
    pub(super) async fn follow(self: Arc<Self>, kind: Arc<Kind>, collection: Collection) -> Result<(), Refusal> {
        let version = self.list(&kind, &collection).await?;
        self.whole.write().unwrap_or_else(PoisonError::into_inner).insert(collection.clone());
        let stop = self.stop.clone();
        let tasks = self.tasks.clone();
        tasks.spawn(async move { stop.run_until_cancelled(self.watch_on(&kind, &collection, version)).await });
        Ok(())
    }

    /// Shows all objects of a collection; answers the version to watch from.
    async fn list(&self, kind: &Arc<Kind>, collection: &Collection) -> Result<String, Refusal> {
        let path = collection_path(kind, &collection.namespace);
        let mut told = HashSet::new();
        let mut next = format!("{path}?limit={PAGE}");
        loop {
            let mut page = match self.upstream.get(&next).await {
                // It took so long that the pages after this one are gone.
                Err(refusal) if refusal.code == EXPIRED_CODE && !told.is_empty() => {
                    told.clear();
                    self.upstream.get(&path).await?
                }
                page => page?,
            };
            for object in page["items"].as_array_mut().map(std::mem::take).into_iter().flatten() {
                told.insert(key(metadata::namespace(&object), metadata::name(&object)));
                self.show(kind, object);
            }
            match page.text("/metadata/continue") {
                "" => {
                    let range =
                        Range::namespace(Some(&*collection.namespace).filter(|namespace| !namespace.is_empty()));
                    self.registry.db.show_no_others(&collection.resource, &range, &told, version(&page));
                    return Ok(page.text("/metadata/resourceVersion").to_owned());
                }
                token => next = format!("{path}?limit={PAGE}&continue={}", encoded(token)),
            }
        }
    }

    /// Watches from that version on, for as long as the kind is served.
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
                return self.let_go(collection);
            }
            let why = ended.err().map_or_else(|| "a watch ended at once".into(), |refusal| refusal.message());
            tracing::warn!(resource = %collection.resource, why, "the cluster cannot be followed");
            tokio::time::sleep(after_failure).await;
            after_failure = (after_failure * 2).min(LONGEST_PAUSE);
        }
    }

    /// Follows a part no more. Who asks for it next, should its kind come back, has it listed anew.
    fn let_go(&self, collection: &Collection) {
        self.whole.write().unwrap_or_else(PoisonError::into_inner).remove(collection);
        self.collections.lock().unwrap_or_else(PoisonError::into_inner).remove(collection);
    }

    /// Watches until the other cluster ends it; `version` is then that to go on from.
    async fn watch(&self, kind: &Arc<Kind>, collection: &Collection, version: &mut String) -> Result<(), Refusal> {
        let path = collection_path(kind, &collection.namespace);
        let from = encoded(version);
        let query = format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}");
        let mut body = self.upstream.open(&format!("{path}?{query}")).await?;
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Refusal::unreachable(&*error))?;
            let Ok(data) = frame.into_data() else { continue };
            // What came before has no line end in it.
            let mut read = rest.len();
            rest.extend_from_slice(&data);
            let mut begin = 0;
            while let Some(end) = rest[read..].iter().position(|byte| *byte == b'\n') {
                let event = serde_json::from_slice(&rest[begin..read + end]);
                self.tell(kind, collection, event.map_err(|error| Refusal::unreachable(&error))?, version)?;
                (begin, read) = (read + end + 1, read + end + 1);
            }
            rest.drain(..begin);
            if rest.len() > LONGEST_EVENT {
                return Err(Refusal::unreachable(&std::io::Error::other("an event is too long")));
            }
        }
        Ok(())
    }

    fn tell(
        &self,
        kind: &Arc<Kind>,
        collection: &Collection,
        mut event: Json,
        reached: &mut String,
    ) -> Result<(), Refusal> {
        let object = event["object"].take();
        match event.text("/type") {
            "ERROR" => return Err(Refusal::told(&object)),
            "DELETED" => {
                let (namespace, name) = (metadata::namespace(&object), metadata::name(&object));
                let shown = UpstreamObject { at: version(&object), object: None };
                let whole = self.whole.read().unwrap_or_else(PoisonError::into_inner);
                self.registry.db.show(&collection.resource, &key(namespace, name), shown, is_in(&whole, collection));
            }
            "ADDED" | "MODIFIED" => self.show(kind, object.clone()),
            _ => (),
        }
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            version.clone_into(reached);
        }
        Ok(())
    }
}
