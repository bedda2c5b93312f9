//! The store behind a lock, with a clock and the watchers' wake-ups.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, watch};

use crate::clock::Clock;
use crate::kinds::{Cluster, GroupResource};
use crate::server::Kept;
use crate::store::{Change, Expect, History, Key, Range, Refused, ResourceKey, Store, Stored};

/// The changes of all resources as they happen, in the order of their revisions. A reader that falls too far behind is told so.
pub(crate) type AllChanges = broadcast::Receiver<Arc<Change>>;

/// How many changes of all resources together the background tasks may lag before they look at everything anew.
const BACKGROUND_FEED: usize = 16_384;

/// How many changes a feed takes from the log at once, and how many bytes of them, about.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

const QUOTAS: &str = "resourcequotas";

/// What a quota becomes with a write that it is charged for.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) key: String,
    /// The revision of the quota that was looked at.
    pub(crate) at: u64,
    pub(crate) value: Value,
}

/// The store, shared. The lock is held for single steps of the engine and never across an await.
#[derive(Debug)]
pub(crate) struct Db {
    inner: Mutex<Inner>,
    revision: watch::Sender<u64>,
    all: broadcast::Sender<Arc<Change>>,
    clock: Arc<Clock>,
    /// How many changes who follows a resource may lag behind.
    longest_lag: usize,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    /// Tells those who follow a resource the revision of its last change.
    news: HashMap<ResourceKey, watch::Sender<u64>>,
}

/// The changes of one resource, read from the log as far as it has come. It keeps none of them alive but those that it is about to
/// give out, however slowly it is read.
#[derive(Debug)]
pub(crate) struct Feed {
    resource: ResourceKey,
    /// Up to which revision they have been read from the log.
    after: u64,
    /// Whether it has come to the end of the log once. Before, it does not lag: it begins in the past.
    live: bool,
    news: watch::Receiver<u64>,
    ready: VecDeque<Arc<Change>>,
}

/// Why a feed gives out no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// It was read so slowly that changes were lost for it.
    TooSlow,
    /// The resource is no more, or was made anew.
    Ended,
}

impl Feed {
    /// The same from an earlier revision on.
    pub(crate) fn starting_after(mut self, revision: u64) -> Self {
        self.after = revision;
        self.live = false;
        self
    }

    /// The next change. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self, db: &Db) -> Result<Arc<Change>, Over> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Ok(change);
            }
            let last = *self.news.borrow_and_update();
            let ended = self.news.has_changed().is_err();
            let read = self.read(db, if ended { last } else { u64::MAX });
            if self.ready.is_empty() {
                if ended {
                    return Err(Over::Ended);
                }
                read?;
                self.live = true;
                // If nobody tells any more, there is an end to what is left.
                let _ = self.news.changed().await;
            }
        }
    }

    /// Takes what comes next from the log, up to that revision.
    fn read(&mut self, db: &Db, last: u64) -> Result<(), Over> {
        let most = if self.live { db.longest_lag } else { usize::MAX };
        let inner = db.lock();
        let changes = inner.store.followed(&self.resource, self.after, most).ok_or(Over::TooSlow)?;
        let mut bytes = 0;
        for change in changes.take_while(|change| change.revision <= last).take(BATCH) {
            bytes += change.new.weight();
            self.after = change.revision;
            self.ready.push_back(change.clone());
            if bytes > BATCH_BYTES {
                break;
            }
        }
        Ok(())
    }
}

impl Db {
    pub(crate) fn new(first: u64, history: History, clock: Arc<Clock>) -> Self {
        let longest_lag = history.followed;
        let store = Store::new(first, history).with_claims(crate::kinds::claims);
        let revision = watch::Sender::new(store.revision());
        let all = broadcast::Sender::new(BACKGROUND_FEED);
        Self { inner: Mutex::new(Inner { store, news: HashMap::new() }), revision, all, clock, longest_lag }
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
    ) -> Result<Arc<Change>, Refused> {
        let mut inner = self.lock();
        let change = inner.store.put(self.clock.instant(), resource, key, expect, value)?;
        self.tell(&inner, &change);
        Ok(change)
    }

    /// Writes an object and what is charged for it, in one step: all of it, or nothing. `holds` says whether what else was looked at
    /// is still so.
    pub(crate) fn commit(
        &self,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        value: Value,
        charges: Vec<Charge>,
        holds: impl FnOnce(&Store) -> bool,
    ) -> Result<Arc<Change>, Refused> {
        let mut inner = self.lock();
        let now = self.clock.instant();
        inner.store.check(resource, key, expect, &value)?;
        let quotas = ResourceKey::from(QUOTAS);
        let is_charged =
            |charge: &Charge| inner.store.check(&quotas, &charge.key, Expect::At(charge.at), &charge.value).is_ok();
        if !holds(&inner.store) || !charges.iter().all(is_charged) {
            return Err(Refused::Moved);
        }
        for Charge { key, at, value } in charges {
            let change = inner.store.put(now, &quotas, &key, Expect::At(at), value)?;
            self.tell(&inner, &change);
        }
        let change = inner.store.put(now, resource, key, expect, value)?;
        self.tell(&inner, &change);
        Ok(change)
    }

    /// Removes an object, if it is as that revision left it, and tells the watchers.
    pub(crate) fn remove(&self, resource: &ResourceKey, key: &str, at: u64) -> Result<Arc<Change>, Refused> {
        let mut inner = self.lock();
        let change = inner.store.remove(self.clock.instant(), resource, key, at)?;
        self.tell(&inner, &change);
        Ok(change)
    }

    /// Makes the objects those that are given, in one step: what is none of them goes, what is as it was stays untouched, and each
    /// other is a write. Answers how many writes that took.
    pub(crate) fn restore(&self, wanted: &BTreeMap<(ResourceKey, Key), Kept>) -> usize {
        let mut inner = self.lock();
        let now = self.clock.instant();
        let there: Vec<_> = inner
            .store
            .everything()
            .map(|(resource, key, stored)| (resource.clone(), key.clone(), stored.clone()))
            .collect();
        let mut writes = 0;
        let mut same = HashSet::new();
        for (resource, key, stored) in there {
            let place = (resource, key);
            match wanted.get(&place) {
                Some(kept) if kept.is(&stored) => {
                    same.insert(place);
                }
                // What takes its place is another object, and may claim what others let go first.
                _ => {
                    if let Ok(change) = inner.store.remove(now, &place.0, &place.1, stored.revision()) {
                        self.tell(&inner, &change);
                        writes += 1;
                    }
                }
            }
        }
        for (place, kept) in wanted.iter().filter(|(place, _)| !same.contains(place)) {
            let mut value = Value::clone(&kept.value);
            value["apiVersion"] = (*kept.api_version).into();
            if let Ok(change) = inner.store.put(now, &place.0, &place.1, Expect::Absent, value) {
                self.tell(&inner, &change);
                writes += 1;
            }
        }
        writes
    }

    /// Forgets what came before that revision.
    pub(crate) fn compact(&self, revision: u64) {
        self.lock().store.compact(revision);
    }

    /// Ends the watches of a resource and forgets its past, as when its storage is made anew.
    pub(crate) fn renew(&self, resource: &ResourceKey) {
        let mut inner = self.lock();
        inner.store.forget_past(resource);
        inner.news.remove(resource);
    }

    /// Asks the store something and follows the resource's changes from that very moment on.
    pub(crate) fn follow<R>(&self, resource: &ResourceKey, question: impl FnOnce(&Store) -> R) -> (R, Feed) {
        let mut inner = self.lock();
        let answer = question(&inner.store);
        let after = inner.store.revision();
        let news = inner.news.entry(resource.clone()).or_insert_with(|| watch::Sender::new(after)).subscribe();
        (answer, Feed { resource: resource.clone(), after, live: true, news, ready: VecDeque::new() })
    }

    /// Follows the changes of all resources.
    pub(crate) fn follow_all(&self) -> AllChanges {
        self.all.subscribe()
    }

    /// The current revision, if all changes up to it have been taken from `changes`.
    pub(crate) fn revision_if_all_read(&self, changes: &AllChanges) -> Option<u64> {
        let inner = self.lock();
        changes.is_empty().then(|| inner.store.revision())
    }

    /// The current revision, if all changes up to it have been taken from `feed`.
    pub(crate) fn revision_if_read(&self, feed: &Feed) -> Option<u64> {
        let inner = self.lock();
        let mut left = inner.store.followed(&feed.resource, feed.after, usize::MAX)?;
        (feed.ready.is_empty() && left.next().is_none()).then(|| inner.store.revision())
    }

    /// Waits until the store has come to that revision; false if it has not in time. Dropping it has no effect.
    pub(crate) async fn wait_for(&self, revision: u64, patience: Duration) -> bool {
        let mut seen = self.revision.subscribe();
        let reached = seen.wait_for(|current| *current >= revision);
        tokio::time::timeout(patience, reached).await.is_ok()
    }

    fn tell(&self, inner: &Inner, change: &Arc<Change>) {
        // Sending fails only where nobody follows.
        if let Some(news) = inner.news.get(&change.resource) {
            news.send_replace(change.revision);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(number: usize) -> Value {
        json!({"metadata": {"name": number.to_string()}})
    }

    #[tokio::test]
    async fn a_feed_that_is_not_read_keeps_no_change_alive() {
        let history = History { max_changes: 1, followed: 2, ..History::default() };
        let db = Db::new(1, history, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let ((), mut slow) = db.follow(&resource, |_| ());
        let put =
            |number: usize| db.put(&resource, &number.to_string(), Expect::Absent, object(number)).expect("absent");
        let first = Arc::downgrade(&put(0));
        let second = put(1).revision;
        assert_eq!(db.revision_if_read(&slow), None);
        put(2);
        assert!(first.upgrade().is_none(), "nobody keeps it");
        assert_eq!(slow.next(&db).await.err(), Some(Over::TooSlow));
        // Who is within the lag that is let pass reads on, and one that begins in the past may have more before it.
        let ((), within) = db.follow(&resource, |_| ());
        put(3);
        let mut past = within.starting_after(second);
        for number in [2, 3] {
            let change = past.next(&db).await.expect("it is kept");
            assert_eq!(*change.key, *number.to_string());
        }
        assert_eq!(db.revision_if_read(&past), Some(db.revision()));
    }

    #[tokio::test]
    async fn a_feed_of_a_resource_that_is_made_anew_ends() {
        let db = Db::new(1, History { followed: 8, ..History::default() }, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let ((), mut feed) = db.follow(&resource, |_| ());
        db.put(&"pods".into(), "a", Expect::Absent, object(1)).expect("absent");
        db.renew(&resource);
        db.put(&resource, "a", Expect::Absent, object(1)).expect("absent");
        assert_eq!(feed.next(&db).await.err(), Some(Over::Ended));
    }
}
