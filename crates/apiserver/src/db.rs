//! The store behind a lock, with a clock and the watchers' wake-ups.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, watch};

use crate::clock::Clock;
use crate::kinds::{Cluster, GroupResource};
use crate::store::{Change, Expect, History, Mismatch, Range, ResourceKey, Store, Stored};

/// Changes as they happen, in the order of their revisions. A reader that falls more than the feed's length behind is told so.
pub(crate) type Feed = broadcast::Receiver<Arc<Change>>;

/// How many changes of all resources together the background tasks may lag before they look at everything anew.
const BACKGROUND_FEED: usize = 16_384;

/// Feeds have all their room from the start, so there is an end to it.
const LONGEST_FEED: usize = 1 << 20;

/// The store, shared. The lock is held for single steps of the engine and never across an await.
#[derive(Debug)]
pub(crate) struct Db {
    inner: Mutex<Inner>,
    revision: watch::Sender<u64>,
    all: broadcast::Sender<Arc<Change>>,
    clock: Arc<Clock>,
    feed_length: usize,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    feeds: HashMap<ResourceKey, broadcast::Sender<Arc<Change>>>,
}

impl Db {
    pub(crate) fn new(first: u64, history: History, feed_length: usize, clock: Arc<Clock>) -> Self {
        let store = Store::new(first, history);
        let revision = watch::Sender::new(store.revision());
        let all = broadcast::Sender::new(BACKGROUND_FEED);
        let feed_length = feed_length.clamp(1, LONGEST_FEED);
        Self { inner: Mutex::new(Inner { store, feeds: HashMap::new() }), revision, all, clock, feed_length }
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    /// The object of that key, as it is now.
    pub(crate) fn get(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        self.lock().store.get(resource, key).cloned()
    }

    /// Asks the store more than one thing about one moment.
    pub(crate) fn read<R>(&self, question: impl FnOnce(&Store) -> R) -> R {
        question(&self.lock().store)
    }

    /// Writes an object, if what is there is as expected, and tells the watchers.
    pub(crate) fn put(
        &self,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        value: Value,
    ) -> Result<Arc<Change>, Mismatch> {
        let mut inner = self.lock();
        let change = inner.store.put(self.clock.instant(), resource, key, expect, value)?;
        self.tell(&inner, &change);
        Ok(change)
    }

    /// Removes an object, if it is as that revision left it, and tells the watchers.
    pub(crate) fn remove(&self, resource: &ResourceKey, key: &str, at: u64) -> Result<Arc<Change>, Mismatch> {
        let mut inner = self.lock();
        let change = inner.store.remove(self.clock.instant(), resource, key, at)?;
        self.tell(&inner, &change);
        Ok(change)
    }

    /// Forgets what came before that revision.
    pub(crate) fn compact(&self, revision: u64) {
        self.lock().store.compact(revision);
    }

    /// Ends the watches of a resource and forgets its past, as when its storage is made anew.
    pub(crate) fn renew(&self, resource: &ResourceKey) {
        let mut inner = self.lock();
        inner.store.forget_past(resource);
        inner.feeds.remove(resource);
    }

    /// Asks the store something and follows the resource's changes from that very moment on.
    pub(crate) fn follow<R>(&self, resource: &ResourceKey, question: impl FnOnce(&Store) -> R) -> (R, Feed) {
        let mut inner = self.lock();
        let answer = question(&inner.store);
        let feeds = inner.feeds.entry(resource.clone());
        let feed = feeds.or_insert_with(|| broadcast::Sender::new(self.feed_length)).subscribe();
        (answer, feed)
    }

    /// Follows the changes of all resources.
    pub(crate) fn follow_all(&self) -> Feed {
        self.all.subscribe()
    }

    /// The current revision, if all changes up to it have been taken from `feed`.
    pub(crate) fn revision_if_read(&self, feed: &Feed) -> Option<u64> {
        let inner = self.lock();
        feed.is_empty().then(|| inner.store.revision())
    }

    /// Waits until the store has come to that revision; false if it has not in time. Dropping it has no effect.
    pub(crate) async fn wait_for(&self, revision: u64, patience: Duration) -> bool {
        let mut seen = self.revision.subscribe();
        let reached = seen.wait_for(|current| *current >= revision);
        tokio::time::timeout(patience, reached).await.is_ok()
    }

    fn tell(&self, inner: &Inner, change: &Arc<Change>) {
        // Sending fails only where nobody follows.
        if let Some(feed) = inner.feeds.get(&change.resource) {
            let _ = feed.send(change.clone());
        }
        let _ = self.all.send(change.clone());
        self.revision.send_replace(change.revision);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic inside the engine leaves no half-made step behind: each step changes its table last.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster for Db {
    fn object(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = key(namespace, name);
        self.get(&resource.to_string(), &key).map(|stored| stored.value().clone())
    }

    fn objects(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let range = Range::namespace(namespace);
        self.read(|store| store.range(&resource.to_string(), &range).map(|(_, o)| o.value().clone()).collect())
    }
}

/// An object's place within its resource.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}
