//! The store behind a lock, with lock-free reads of the current state, a clock, and notifications for watchers.

mod backlog;
mod feed;
mod followers;
mod mirror;
#[cfg(test)]
mod races;
mod restore;
mod retired;

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use backlog::ChangeSender;
pub use backlog::{Changes, Lagged};
pub use feed::{Feed, FeedEnd};
pub use followers::FeedScope;
use mirror::Mirror;
pub use mirror::{LocalWrite, UpstreamObject};
use pintle_apimachinery::clock::Clock;
use pintle_json::Json;
use pintle_meta::__private::Mutex;
use retired::{Followed, RetiredLogs};
use tokio::sync::watch;

use crate::committed::record_commit;
use crate::{
    Change, Compacted, Draft, Expect, History, Interner, Objects, Present, Range, Refused, ResourceKey, Run, Store,
    Stored,
};

/// The minimum size limit of a backlog, in bytes. A backlog contains the unread changes of a watcher of several
/// resources. With a lower limit, the watcher might have to list again after every change.
const MIN_BACKLOG_BYTES: usize = 16 << 20;

/// A new value of an object, such as a quota, that must be committed together with the write of another object.
pub struct Charge {
    pub resource: ResourceKey,
    pub key: String,
    /// The revision of the object from which the new value was computed.
    pub at: u64,
    pub value: Json,
}

/// A function that converts a resource's object to its stored form, while the store is not locked.
pub(crate) type Drafting = fn(interner: &Arc<Interner>, resource: &str, object: &Json) -> Draft;

/// The store that all parts of the server share. The lock is held only during a single operation of the store, and
/// never across an await point. Reading the current state takes no lock.
#[derive(Debug)]
pub struct Db {
    // Even after a panic in the store, the state is consistent, because each operation changes the table last.
    inner: Mutex<Inner>,
    /// The retired logs have their own lock, so that `renew` can measure a log without blocking other operations.
    retired: Mutex<RetiredLogs>,
    /// The state after the latest operation. Each operation publishes this state before it notifies followers and
    /// releases the lock.
    present: ArcSwap<Present>,
    revision: watch::Sender<u64>,
    clock: Arc<Clock>,
    draft: Drafting,
    /// Returns `true` if many requests read a resource's objects, so that the store keeps them decoded.
    pub(crate) is_read_often: fn(resource: &str) -> bool,
    interner: Arc<Interner>,
    /// The maximum number of unread changes for a follower of one resource.
    max_lag: usize,
    /// The approximate maximum size, in bytes, of the unread changes for a follower of several resources, and of all
    /// retired logs together. This size limit is at least as large as the size limit of the log.
    max_backlog_bytes: usize,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    /// The followers of each resource. A follower is a reader that receives a resource's changes.
    followers: HashMap<ResourceKey, Followed>,
    multi: Vec<MultiFollower>,
    /// The mirrored objects of the upstream cluster, if this is the store of a plan (a dry run on top of a live
    /// cluster).
    mirror: Option<Mirror>,
}

/// A reader of the changes of several resources, or of all resources if `resources` is `None`.
#[derive(Debug)]
struct MultiFollower {
    resources: Option<&'static [&'static str]>,
    sender: ChangeSender,
}

impl Db {
    pub fn new(first: u64, history: History, draft: Drafting, clock: Arc<Clock>) -> Self {
        let (max_lag, max_backlog_bytes) = (history.followed, history.max_bytes.max(MIN_BACKLOG_BYTES));
        let store = Store::new(first, history);
        let interner = store.interner().clone();
        let revision = watch::Sender::new(store.revision());
        let present = ArcSwap::from_pointee(store.now().clone());
        let inner = Inner { store, followers: HashMap::new(), multi: Vec::new(), mirror: None };
        let is_read_often = |_: &str| false;
        Self {
            inner: Mutex::new(inner),
            retired: Mutex::default(),
            present,
            revision,
            clock,
            draft,
            is_read_often,
            interner,
            max_lag,
            max_backlog_bytes,
        }
    }

    /// Sets the function that selects the resources whose objects the store keeps in decoded form.
    pub fn keeping_trees_of(self, is_read_often: fn(resource: &str) -> bool) -> Self {
        Self { is_read_often, ..self }
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.present.load().revision()
    }

    /// Returns the current object with this key.
    pub fn get(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        self.present.load().get(resource, key).cloned()
    }

    /// Returns the current object's size in bytes, or 0 if it does not exist.
    pub fn weight(&self, resource: &str, key: &str) -> usize {
        self.present.load().get(resource, key).map_or(0, |stored| stored.weight())
    }

    /// Returns the current objects in a range, in key order. Later writes do not change the returned objects.
    pub fn objects_of(&self, resource: &str, range: &Range) -> Run {
        self.present.load().objects(resource).run(range)
    }

    /// Returns a snapshot of the current state. Use a snapshot to read several objects at the same revision.
    pub fn now(&self) -> Arc<Present> {
        self.present.load_full()
    }

    /// Returns a resource's objects at `revision`. The objects are cached for some time, because requests for the next
    /// pages of a list read them again.
    pub fn past(&self, resource: &ResourceKey, revision: u64) -> Result<Objects, Compacted> {
        let (past, revision) = self.read(|store| {
            // For a future revision, read the current state, because the log does not contain the revision yet.
            let revision = revision.min(store.revision());
            store.past(resource, revision).map(|past| (past, revision))
        })?;
        // Release the lock before computing the past state, because the computation may have to undo many changes.
        let objects = past.objects();
        self.keep(resource, revision, &objects);
        Ok(objects)
    }

    /// Caches a resource's objects at `revision` for requests for the next pages of a list.
    pub fn keep(&self, resource: &ResourceKey, revision: u64, objects: &Objects) {
        self.inner.lock().store.keep(resource, revision, objects);
    }

    /// Calls `question` with the store while the lock is held. Use this method for past states and unique values, and
    /// [`now`](Self::now) for all other reads.
    pub fn read<R>(&self, question: impl FnOnce(&Store) -> R) -> R {
        question(&self.inner.lock().store)
    }

    /// Converts an object to its stored form, without locking the store.
    pub fn draft(&self, resource: &str, object: &Json) -> Draft {
        (self.draft)(&self.interner, resource, object)
    }

    /// Writes an object if its current state matches `expect`, and then notifies the watchers.
    pub fn put(&self, resource: &ResourceKey, key: &str, expect: Expect, value: Json) -> Result<Arc<Change>, Refused> {
        let draft = self.draft(resource, &value);
        drop(value);
        let mut inner = self.inner.lock();
        let change = inner.store.put(self.clock.instant(), resource, key, expect, draft)?;
        let replaced = self.notify(&mut inner, slice::from_ref(&change));
        drop(inner);
        drop(replaced);
        Ok(change)
    }

    /// Like [`put`](Self::put), but for an object that is being deleted. If another object has one of the object's
    /// unique values, this method writes the object without its unique values.
    pub fn put_leaving(&self, resource: &ResourceKey, key: &str, at: u64, value: Json) -> Result<Arc<Change>, Refused> {
        let draft = self.draft(resource, &value);
        drop(value);
        let mut inner = self.inner.lock();
        let draft = inner.with_free_claims(resource, key, Expect::At(at), draft);
        let change = inner.store.put(self.clock.instant(), resource, key, Expect::At(at), draft)?;
        let replaced = self.notify(&mut inner, slice::from_ref(&change));
        drop(inner);
        drop(replaced);
        Ok(change)
    }

    /// Writes an object and the resulting quota updates in one step. Writes nothing if one of these objects does not
    /// have its expected state, or if `precondition` returns `false`.
    pub fn commit(
        &self,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        value: Json,
        charges: Vec<Charge>,
        precondition: impl FnOnce(&Present) -> bool,
    ) -> Result<Arc<Change>, Refused> {
        let draft = self.draft(resource, &value);
        drop(value);
        let to_draft = |Charge { resource, key, at, value }| {
            let draft = self.draft(&resource, &value);
            (resource, key, at, draft)
        };
        let charges: Vec<_> = charges.into_iter().map(to_draft).collect();
        let mut inner = self.inner.lock();
        let now = self.clock.instant();
        inner.store.check(resource, key, expect, &draft)?;
        let mut checked =
            charges.iter().map(|(resource, key, at, draft)| inner.store.check(resource, key, Expect::At(*at), draft));
        if !precondition(inner.store.now()) || !checked.all(|checked| checked.is_ok()) {
            return Err(Refused::Moved);
        }
        let mut changes = Vec::new();
        let mut put = |resource: &ResourceKey, key: &str, expect, draft| {
            let change = inner.store.put(now, resource, key, expect, draft)?;
            changes.push(change.clone());
            Ok(change)
        };
        let mut charges = charges.into_iter();
        let charged = charges.try_for_each(|(of, key, at, draft)| put(&of, &key, Expect::At(at), draft).map(drop));
        let change = charged.and_then(|()| put(resource, key, expect, draft));
        let replaced = self.notify(&mut inner, &changes);
        drop(inner);
        drop(replaced);
        change
    }

    /// Removes an object if its revision is `at`, and then notifies the watchers.
    pub fn remove(&self, resource: &ResourceKey, key: &str, at: u64) -> Result<Arc<Change>, Refused> {
        let mut inner = self.inner.lock();
        let change = inner.store.remove(self.clock.instant(), resource, key, at)?;
        let replaced = self.notify(&mut inner, slice::from_ref(&change));
        drop(inner);
        drop(replaced);
        Ok(change)
    }

    /// Compacts the log up to `revision`.
    pub fn compact(&self, revision: u64) {
        self.inner.lock().store.compact(revision);
    }

    /// Ends the feeds of a resource and drops its history. The resource then behaves like a new resource.
    ///
    /// Each feed first returns its unread changes. The old history stays in memory until all feeds have returned their
    /// unread changes, including the objects before each change and the initial objects of watches. All old histories
    /// together have an approximate size limit, above which the feeds of the oldest history end with
    /// [`FeedEnd::TooSlow`].
    pub fn renew(&self, resource: &ResourceKey) {
        let mut inner = self.inner.lock();
        let log = inner.store.forget_past(resource);
        let followed = inner.followers.remove(resource).unwrap_or_default();
        let (retired, end) = followed.retire(log);
        drop(inner);
        // Measure and drop logs only without a lock, because they can contain many objects. `end` and `evicted` can own
        // the last references to logs.
        if let Some(end) = end {
            let bytes = retired.bytes();
            let evicted = self.retired.lock().add(&end, bytes, self.max_backlog_bytes);
            retired::evict(evicted);
        }
    }

    /// Calls `question` with the current state of the store. All later changes of the resource are in the returned
    /// feed.
    pub fn follow<R>(
        &self,
        resource: &ResourceKey,
        scope: FeedScope,
        question: impl FnOnce(&mut Store) -> R,
    ) -> (R, Feed) {
        let mut inner = self.inner.lock();
        let answer = question(&mut inner.store);
        let after = inner.store.revision();
        let followed = inner.followers.entry(resource.clone()).or_default().follow(&scope, after);
        (answer, Feed::new(resource.clone(), scope, after, followed))
    }

    /// Returns a stream of all later changes to these resources, or to all resources if `of` is `None`.
    pub fn follow_all(&self, of: Option<&'static [&'static str]>) -> Changes {
        let changes = Changes::new(self.max_backlog_bytes);
        self.inner.lock().multi.push(MultiFollower { resources: of, sender: changes.sender() });
        changes
    }

    /// Returns the current revision, or `None` if `changes` contains unread changes.
    pub fn revision_if_all_read(&self, changes: &Changes) -> Option<u64> {
        let inner = self.inner.lock();
        changes.is_empty().then(|| inner.store.revision())
    }

    /// Returns the current revision, or `None` if `feed` contains unread changes.
    pub fn revision_if_read(&self, feed: &Feed) -> Option<u64> {
        let inner = self.inner.lock();
        feed.is_read(&inner).then(|| inner.store.revision())
    }

    /// Waits until the store has reached `revision`. Returns `false` if `timeout` elapses first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_for(&self, revision: u64, timeout: Duration) -> bool {
        let mut seen = self.revision.subscribe();
        let reached = seen.wait_for(|current| *current >= revision);
        tokio::time::timeout(timeout, reached).await.is_ok()
    }

    /// Publishes the state after an operation of the store, and then notifies followers of the changes. Therefore, a
    /// notified follower finds all changes of the operation.
    ///
    /// Returns the state before the operation. The caller must drop the returned state after releasing the lock,
    /// because the state can own the last references to replaced objects.
    fn notify(&self, inner: &mut Inner, changes: &[Arc<Change>]) -> Arc<Present> {
        let replaced = self.publish(inner);
        for change in changes {
            if let Some(followed) = inner.followers.get_mut(change.resource()) {
                followed.followers.notify(change, self.max_lag);
            }
            if let Some(mirror) = &mut inner.mirror {
                mirror.record_change(change);
            }
            inner.notify_multi(change);
            self.revision.send_replace(change.revision());
            record_commit(change.revision());
        }
        replaced
    }

    fn publish(&self, inner: &Inner) -> Arc<Present> {
        self.present.swap(Arc::new(inner.store.now().clone()))
    }
}

impl Inner {
    /// Removes all unique values of a draft if one of them is already in use by another object.
    fn with_free_claims(&self, resource: &ResourceKey, key: &str, expect: Expect, draft: Draft) -> Draft {
        let is_taken = matches!(self.store.check(resource, key, expect, &draft), Err(Refused::Taken));
        if is_taken { draft.without_claims() } else { draft }
    }

    fn notify_multi(&mut self, change: &Arc<Change>) {
        let is_unrelated =
            |follower: &MultiFollower| follower.resources.is_some_and(|of| !of.contains(&&**change.resource()));
        self.multi.retain(|follower| is_unrelated(follower) || follower.sender.send(change));
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;
    use crate::Order;

    const DRAFT: Drafting = |interner, _, object| Draft::new(interner, object, Order::Declared, Vec::new());

    fn object(number: usize) -> Json {
        json!({"metadata": {"name": number.to_string()}})
    }

    #[tokio::test]
    async fn unread_feed_keeps_no_change_alive() {
        let history = History { max_changes: 1, followed: 2, ..History::default() };
        let db = Db::new(1, history, DRAFT, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let ((), mut slow) = db.follow(&resource, FeedScope::All, |_| ());
        let put =
            |number: usize| db.put(&resource, &number.to_string(), Expect::Absent, object(number)).expect("absent");
        let first = Arc::downgrade(&put(0));
        let second = put(1).revision();
        assert_eq!(db.revision_if_read(&slow), None);
        put(2);
        assert!(first.upgrade().is_none(), "the change is dropped");
        assert_eq!(slow.next(&db).await.err(), Some(FeedEnd::TooSlow));
        // A feed with too many unread changes ends, unless it is still reading changes from a past revision.
        let ((), within) = db.follow(&resource, FeedScope::All, |_| ());
        put(3);
        let mut past = within.starting_after(second);
        for number in [2, 3] {
            let change = past.next(&db).await.expect("not compacted");
            assert_eq!(*change.key, *number.to_string());
        }
        assert_eq!(db.revision_if_read(&past), Some(db.revision()));
    }

    #[tokio::test]
    async fn initial_objects_are_kept_as_long_as_later_changes() {
        let history = History { max_changes: 2, followed: 2, ..History::default() };
        let db = Db::new(1, history, DRAFT, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let put =
            |number: usize| db.put(&resource, &number.to_string(), Expect::Absent, object(number)).expect("absent");
        let first = put(0).revision();
        let begin = |store: &mut Store| store.keep(&resource, store.revision(), &store.objects(&resource));
        let (begun, _feed) = db.follow(&resource, FeedScope::All, begin);
        let stored = Arc::downgrade(&db.get(&resource, "0").expect("the object exists"));
        db.remove(&resource, "0", first).expect("the object exists");
        put(1);
        assert!(begun.upgrade().is_some_and(|objects| objects.get("0").is_some() && objects.get("1").is_none()));
        put(2);
        assert!(begun.upgrade().is_none() && stored.upgrade().is_none(), "all references are dropped");
        // A read at a future revision returns the current state but does not cache it as a past state.
        let next = db.revision() + 1;
        for is_there in [false, true] {
            let past = db.past(&resource, next).expect("not compacted");
            assert_eq!(past.get("3").is_some(), is_there);
            db.put(&resource, if is_there { "4" } else { "3" }, Expect::Absent, object(3)).expect("absent");
        }
        // A feed can also follow a resource that was never written.
        let (begun, _feed) = db.follow(&"pods".into(), FeedScope::All, |store| {
            store.keep(&"pods".into(), store.revision(), &Objects::default())
        });
        assert!(begun.upgrade().is_some());
    }

    #[tokio::test]
    async fn scoped_feed_ignores_changes_outside_its_scope() {
        let history = History { max_changes: 4, followed: 2, ..History::default() };
        let db = Db::new(1, history, DRAFT, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let follow = |scope| db.follow(&resource, scope, |_| ()).1;
        let mut feeds = [FeedScope::Namespace("a".into()), FeedScope::Object("a/1".into())].map(follow);
        for number in 0..9 {
            db.put(&resource, &format!("b/{number}"), Expect::Absent, object(number)).expect("absent");
        }
        for feed in &feeds {
            assert!(!feed.has_more(), "no change in the scope");
            assert_eq!(db.revision_if_read(feed), Some(db.revision()));
        }
        db.put(&resource, "a/1", Expect::Absent, object(1)).expect("absent");
        db.put(&resource, "ab/1", Expect::Absent, object(1)).expect("absent");
        for feed in &mut feeds {
            assert_eq!(db.revision_if_read(feed), None);
            assert_eq!(&*feed.next(&db).await.expect("not compacted").key, "a/1");
            assert_eq!(db.revision_if_read(feed), Some(db.revision()));
        }
        // A feed that starts at a past revision skips changes outside its scope.
        let before = db.revision() - 2;
        let mut past = follow(FeedScope::Namespace("a".into())).starting_after(before);
        assert_eq!(&*past.next(&db).await.expect("not compacted").key, "a/1");
        assert_eq!(db.revision_if_read(&past), Some(db.revision()));
    }

    #[tokio::test]
    async fn field_feed_sees_gained_and_lost_values() {
        const NODE: Drafting = |interner, _, object| {
            let node = object.text("/node").to_owned();
            Draft::new(interner, object, Order::Declared, Vec::new()).selectable(vec![String::new(), node])
        };
        let db = Db::new(1, History { followed: 2, ..History::default() }, NODE, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("pods");
        let follow = |value: &str| db.follow(&resource, FeedScope::Field { at: 1, value: value.into() }, |_| ()).1;
        let mut feeds = ["", "x", "y"].map(follow);
        let put = |expect, node: &str| {
            db.put(&resource, "a/1", expect, json!({"node": node})).expect("as expected").revision()
        };
        let created = put(Expect::Absent, "");
        let bound = put(Expect::At(created), "x");
        let moved = put(Expect::At(bound), "y");
        let touched = put(Expect::At(moved), "y");
        let removed = db.remove(&resource, "a/1", touched).expect("the object exists").revision();
        for (feed, expected) in feeds.iter_mut().zip([vec![created, bound], vec![bound, moved], vec![touched, removed]])
        {
            // The third feed has more unread changes than the limit allows.
            if expected[0] == touched {
                assert_eq!(feed.next(&db).await.err(), Some(FeedEnd::TooSlow));
                continue;
            }
            for revision in expected {
                assert_eq!(feed.next(&db).await.expect("not compacted").revision(), revision);
            }
            assert_eq!(db.revision_if_read(feed), Some(db.revision()));
        }
        // A feed that starts at a past revision skips objects with another value of the selected field.
        let mut past = follow("y").starting_after(created);
        for revision in [moved, touched, removed] {
            assert_eq!(past.next(&db).await.expect("not compacted").revision(), revision);
        }
        assert_eq!(db.revision_if_read(&past), Some(db.revision()));
    }

    #[tokio::test]
    async fn feed_ends_when_its_resource_is_renewed() {
        let db = Db::new(1, History { followed: 8, ..History::default() }, DRAFT, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let ((), mut feed) = db.follow(&resource, FeedScope::All, |_| ());
        db.put(&"pods".into(), "a", Expect::Absent, object(1)).expect("absent");
        db.renew(&resource);
        db.put(&resource, "a", Expect::Absent, object(1)).expect("absent");
        assert_eq!(feed.next(&db).await.err(), Some(FeedEnd::Ended));
    }
}
