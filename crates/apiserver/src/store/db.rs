//! The store behind a lock and what is there beside it, with a clock and the watchers' wake-ups.

mod backlog;
mod feed;
mod mirror;
#[cfg(test)]
mod races;
mod restore;

use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use backlog::Teller;
pub(crate) use backlog::{Changes, Lagged};
use feed::Followers;
pub(crate) use feed::{Feed, FeedScope, Over};
use mirror::Mirror;
pub(crate) use mirror::{Shown, WrittenHere};
use pintle_json::Json;
use tokio::sync::watch;

use crate::audit;
use crate::clock::Clock;
use crate::store::{
    Change, Compacted, Draft, Expect, History, Interner, Objects, Present, Range, Refused, ResourceKey, Run, Store,
    Stored,
};

/// However little the log keeps, who follows several resources is not to look at everything anew with each change.
const LEAST_BACKLOG: usize = 16 << 20;

/// What an object becomes with a write of another that it is charged for.
pub(crate) struct Charge {
    pub(crate) resource: ResourceKey,
    pub(crate) key: String,
    /// The revision of the object that was looked at.
    pub(crate) at: u64,
    pub(crate) value: Json,
}

/// Makes of an object what is written of it under that resource: the bytes are made under no lock.
pub(crate) type Drafting = fn(interner: &Arc<Interner>, resource: &str, object: &Json) -> Draft;

/// The store, shared. The lock is held for single steps of the engine and never across an await; who asks for what is there now takes
/// none.
#[derive(Debug)]
pub(crate) struct Db {
    inner: Mutex<Inner>,
    /// What the last step left, put there before anybody is told of the step and before the lock is given back.
    present: ArcSwap<Present>,
    revision: watch::Sender<u64>,
    clock: Arc<Clock>,
    draft: Drafting,
    interner: Arc<Interner>,
    /// How many changes who follows a resource may lag behind.
    longest_lag: usize,
    /// How many bytes of changes who follows several may lag behind, about: as many as the log keeps anyway.
    longest_backlog: usize,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    /// Who follows what of each resource.
    followers: HashMap<ResourceKey, Followers>,
    /// Who follows several resources.
    all: Vec<All>,
    /// What of another cluster is shown, where the store is laid over one.
    mirror: Option<Mirror>,
}

/// One that follows several resources. None: all.
#[derive(Debug)]
struct All {
    of: Option<&'static [&'static str]>,
    news: Teller,
}

impl Db {
    pub(crate) fn new(first: u64, history: History, draft: Drafting, clock: Arc<Clock>) -> Self {
        let (longest_lag, longest_backlog) = (history.followed, history.max_bytes.max(LEAST_BACKLOG));
        let store = Store::new(first, history);
        let interner = store.interner().clone();
        let revision = watch::Sender::new(store.revision());
        let present = ArcSwap::from_pointee(store.now().clone());
        let inner = Inner { store, followers: HashMap::new(), all: Vec::new(), mirror: None };
        Self { inner: Mutex::new(inner), present, revision, clock, draft, interner, longest_lag, longest_backlog }
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.present.load().revision()
    }

    /// The object of that key, as it is now.
    pub(crate) fn get(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        self.present.load().get(resource, key).cloned()
    }

    /// How many bytes that object takes, if it is there.
    pub(crate) fn weight(&self, resource: &str, key: &str) -> usize {
        self.present.load().get(resource, key).map_or(0, |stored| stored.weight())
    }

    /// The objects of a range as they are now, in the order of their keys. What is written meanwhile is not among them.
    pub(crate) fn objects_of(&self, resource: &str, range: &Range) -> Run {
        self.present.load().objects(resource).run(range)
    }

    /// What is there now, for who asks more than one thing about one moment: all that was written up to its revision, and no more.
    pub(crate) fn now(&self) -> Arc<Present> {
        self.present.load_full()
    }

    /// The objects of a resource as `revision` left them. They are kept for a while, for those who read them page by page.
    pub(crate) fn past(&self, resource: &ResourceKey, revision: u64) -> Result<Objects, Compacted> {
        let (past, revision) = self.read(|store| {
            // What is yet to come is shown as it is now, and is not known.
            let revision = revision.min(store.revision());
            store.past(resource, revision).map(|past| (past, revision))
        })?;
        // However many changes are to be undone, it is done under no lock.
        let objects = past.objects();
        self.keep(resource, revision, &objects);
        Ok(objects)
    }

    /// Keeps the objects of a resource as they were at a revision, for one who will come back to them.
    pub(crate) fn keep(&self, resource: &ResourceKey, revision: u64, objects: &Objects) {
        self.lock().store.keep(resource, revision, objects);
    }

    /// Asks the store what [`now`](Self::now) does not tell: of the past, of what is claimed, and whether anybody keeps the lock.
    pub(crate) fn read<R>(&self, question: impl FnOnce(&Store) -> R) -> R {
        question(&self.lock().store)
    }

    /// What is written of an object under that resource. It takes no lock of the store.
    pub(crate) fn draft(&self, resource: &str, object: &Json) -> Draft {
        (self.draft)(&self.interner, resource, object)
    }

    /// Writes an object, if what is there is as expected, and tells the watchers.
    pub(crate) fn put(
        &self,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        value: Json,
    ) -> Result<Arc<Change>, Refused> {
        let draft = self.draft(resource, &value);
        drop(value);
        let mut inner = self.lock();
        let change = inner.store.put(self.clock.instant(), resource, key, expect, draft)?;
        let before = self.tell(&mut inner, slice::from_ref(&change));
        drop(inner);
        drop(before);
        Ok(change)
    }

    /// The same with an object that is on its way out, as that revision left it: it is no hindrance that another has what it claims.
    pub(crate) fn put_leaving(
        &self,
        resource: &ResourceKey,
        key: &str,
        at: u64,
        value: Json,
    ) -> Result<Arc<Change>, Refused> {
        let draft = self.draft(resource, &value);
        drop(value);
        let mut inner = self.lock();
        let draft = inner.with_free_claims(resource, key, Expect::At(at), draft);
        let change = inner.store.put(self.clock.instant(), resource, key, Expect::At(at), draft)?;
        let before = self.tell(&mut inner, slice::from_ref(&change));
        drop(inner);
        drop(before);
        Ok(change)
    }

    /// Writes an object and what is charged for it, in one step: all of it, or nothing. `holds` says whether what else was looked at
    /// is still so.
    pub(crate) fn commit(
        &self,
        resource: &ResourceKey,
        key: &str,
        expect: Expect,
        value: Json,
        charges: Vec<Charge>,
        holds: impl FnOnce(&Present) -> bool,
    ) -> Result<Arc<Change>, Refused> {
        let draft = self.draft(resource, &value);
        drop(value);
        let drafted = |Charge { resource, key, at, value }| {
            let draft = self.draft(&resource, &value);
            (resource, key, at, draft)
        };
        let charges: Vec<_> = charges.into_iter().map(drafted).collect();
        let mut inner = self.lock();
        let now = self.clock.instant();
        inner.store.check(resource, key, expect, &draft)?;
        let mut checked =
            charges.iter().map(|(resource, key, at, draft)| inner.store.check(resource, key, Expect::At(*at), draft));
        if !holds(inner.store.now()) || !checked.all(|checked| checked.is_ok()) {
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
        let before = self.tell(&mut inner, &changes);
        drop(inner);
        drop(before);
        change
    }

    /// Removes an object, if it is as that revision left it, and tells the watchers.
    pub(crate) fn remove(&self, resource: &ResourceKey, key: &str, at: u64) -> Result<Arc<Change>, Refused> {
        let mut inner = self.lock();
        let change = inner.store.remove(self.clock.instant(), resource, key, at)?;
        let before = self.tell(&mut inner, slice::from_ref(&change));
        drop(inner);
        drop(before);
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
        inner.followers.remove(resource);
    }

    /// Asks the store something and follows what changes of the resource from that very moment on.
    pub(crate) fn follow<R>(
        &self,
        resource: &ResourceKey,
        scope: FeedScope,
        question: impl FnOnce(&mut Store) -> R,
    ) -> (R, Feed) {
        let mut inner = self.lock();
        let answer = question(&mut inner.store);
        let after = inner.store.revision();
        let news = inner.followers.entry(resource.clone()).or_default().follow(&scope, after);
        (answer, Feed::new(resource.clone(), scope, after, news))
    }

    /// Follows the changes of these resources. None: of all.
    pub(crate) fn follow_all(&self, of: Option<&'static [&'static str]>) -> Changes {
        let changes = Changes::new(self.longest_backlog);
        self.lock().all.push(All { of, news: changes.teller() });
        changes
    }

    /// The current revision, if all changes up to it have been taken from `changes`.
    pub(crate) fn revision_if_all_read(&self, changes: &Changes) -> Option<u64> {
        let inner = self.lock();
        changes.is_empty().then(|| inner.store.revision())
    }

    /// The current revision, if all changes up to it have been taken from `feed`.
    pub(crate) fn revision_if_read(&self, feed: &Feed) -> Option<u64> {
        let inner = self.lock();
        feed.is_read(&inner).then(|| inner.store.revision())
    }

    /// Waits until the store has come to that revision; false if it has not in time. Dropping it has no effect.
    pub(crate) async fn wait_for(&self, revision: u64, patience: Duration) -> bool {
        let mut seen = self.revision.subscribe();
        let reached = seen.wait_for(|current| *current >= revision);
        tokio::time::timeout(patience, reached).await.is_ok()
    }

    /// Shows those who read what a step has left, and then tells those who follow of its changes: nobody is to look for what he was
    /// told of and not find it, nor to see a part of a step.
    ///
    /// Answers what was shown before, which is best dropped under no lock: it may have been the last to hold what the step has replaced.
    fn tell(&self, inner: &mut Inner, changes: &[Arc<Change>]) -> Arc<Present> {
        let before = self.show_now(inner);
        for change in changes {
            if let Some(followers) = inner.followers.get_mut(change.resource()) {
                followers.tell(change, self.longest_lag);
            }
            if let Some(mirror) = &mut inner.mirror {
                mirror.note(change);
            }
            inner.tell_all(change);
            self.revision.send_replace(change.revision());
            audit::record_commit(change.revision());
        }
        before
    }

    fn show_now(&self, inner: &Inner) -> Arc<Present> {
        self.present.swap(Arc::new(inner.store.now().clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic inside the engine leaves no half-made step behind: each step changes its table last.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The draft without its claims, if another has one of them: what is there is there, whoever else claims the same.
    fn with_free_claims(&self, resource: &ResourceKey, key: &str, expect: Expect, draft: Draft) -> Draft {
        let is_taken = matches!(self.store.check(resource, key, expect, &draft), Err(Refused::Taken));
        if is_taken { draft.without_claims() } else { draft }
    }

    /// Tells those who follow several resources.
    fn tell_all(&mut self, change: &Arc<Change>) {
        let is_about_others = |all: &All| all.of.is_some_and(|of| !of.contains(&&**change.resource()));
        self.all.retain(|all| is_about_others(all) || all.news.tell(change));
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
    use pintle_json::json;

    use super::*;
    use crate::store::Order;

    const DRAFT: Drafting = |interner, _, object| Draft::new(interner, object, Order::Declared, Vec::new());

    fn object(number: usize) -> Json {
        json!({"metadata": {"name": number.to_string()}})
    }

    #[tokio::test]
    async fn a_feed_that_is_not_read_keeps_no_change_alive() {
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
        assert!(first.upgrade().is_none(), "nobody keeps it");
        assert_eq!(slow.next(&db).await.err(), Some(Over::TooSlow));
        // Who is within the lag that is let pass reads on, and one that begins in the past may have more before it.
        let ((), within) = db.follow(&resource, FeedScope::All, |_| ());
        put(3);
        let mut past = within.starting_after(second);
        for number in [2, 3] {
            let change = past.next(&db).await.expect("it is kept");
            assert_eq!(*change.key, *number.to_string());
        }
        assert_eq!(db.revision_if_read(&past), Some(db.revision()));
    }

    #[tokio::test]
    async fn what_was_there_when_somebody_began_is_kept_for_as_long_as_all_changes_since() {
        let history = History { max_changes: 2, followed: 2, ..History::default() };
        let db = Db::new(1, history, DRAFT, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let put =
            |number: usize| db.put(&resource, &number.to_string(), Expect::Absent, object(number)).expect("absent");
        let first = put(0).revision();
        let begin = |store: &mut Store| store.keep(&resource, store.revision(), &store.objects(&resource));
        let (begun, _feed) = db.follow(&resource, FeedScope::All, begin);
        let stored = Arc::downgrade(&db.get(&resource, "0").expect("it is there"));
        db.remove(&resource, "0", first).expect("it is there");
        put(1);
        assert!(begun.upgrade().is_some_and(|objects| objects.get("0").is_some() && objects.get("1").is_none()));
        put(2);
        assert!(begun.upgrade().is_none() && stored.upgrade().is_none(), "nobody keeps it");
        // What is yet to come is not what it will have been.
        let next = db.revision() + 1;
        for is_there in [false, true] {
            let past = db.past(&resource, next).expect("it is kept");
            assert_eq!(past.get("3").is_some(), is_there);
            db.put(&resource, if is_there { "4" } else { "3" }, Expect::Absent, object(3)).expect("absent");
        }
        // Nothing need have been written of what is begun.
        let (begun, _feed) = db.follow(&"pods".into(), FeedScope::All, |store| {
            store.keep(&"pods".into(), store.revision(), &Objects::default())
        });
        assert!(begun.upgrade().is_some());
    }

    #[tokio::test]
    async fn who_follows_a_part_is_told_of_that_alone_and_lags_behind_nothing_else() {
        let history = History { max_changes: 4, followed: 2, ..History::default() };
        let db = Db::new(1, history, DRAFT, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let follow = |scope| db.follow(&resource, scope, |_| ()).1;
        let mut feeds = [FeedScope::Namespace("a".into()), FeedScope::Object("a/1".into())].map(follow);
        for number in 0..9 {
            db.put(&resource, &format!("b/{number}"), Expect::Absent, object(number)).expect("absent");
        }
        for feed in &feeds {
            assert!(!feed.has_more(), "nothing that it follows has changed");
            assert_eq!(db.revision_if_read(feed), Some(db.revision()));
        }
        db.put(&resource, "a/1", Expect::Absent, object(1)).expect("absent");
        db.put(&resource, "ab/1", Expect::Absent, object(1)).expect("absent");
        for feed in &mut feeds {
            assert_eq!(db.revision_if_read(feed), None);
            assert_eq!(&*feed.next(&db).await.expect("it is kept").key, "a/1");
            assert_eq!(db.revision_if_read(feed), Some(db.revision()));
        }
        // From the past on, what others wrote is passed over.
        let before = db.revision() - 2;
        let mut past = follow(FeedScope::Namespace("a".into())).starting_after(before);
        assert_eq!(&*past.next(&db).await.expect("it is kept").key, "a/1");
        assert_eq!(db.revision_if_read(&past), Some(db.revision()));
    }

    #[tokio::test]
    async fn who_follows_a_field_is_told_of_what_comes_to_have_its_value_and_of_what_ceases_to() {
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
        let removed = db.remove(&resource, "a/1", touched).expect("it is there").revision();
        for (feed, expected) in feeds.iter_mut().zip([vec![created, bound], vec![bound, moved], vec![touched, removed]])
        {
            // Of the third, more has been told than it may lag behind.
            if expected[0] == touched {
                assert_eq!(feed.next(&db).await.err(), Some(Over::TooSlow));
                continue;
            }
            for revision in expected {
                assert_eq!(feed.next(&db).await.expect("it is kept").revision(), revision);
            }
            assert_eq!(db.revision_if_read(feed), Some(db.revision()));
        }
        // From the past on, what others have is passed over.
        let mut past = follow("y").starting_after(created);
        for revision in [moved, touched, removed] {
            assert_eq!(past.next(&db).await.expect("it is kept").revision(), revision);
        }
        assert_eq!(db.revision_if_read(&past), Some(db.revision()));
    }

    #[tokio::test]
    async fn a_feed_of_a_resource_that_is_made_anew_ends() {
        let db = Db::new(1, History { followed: 8, ..History::default() }, DRAFT, Arc::new(Clock::new(None)));
        let resource = ResourceKey::from("configmaps");
        let ((), mut feed) = db.follow(&resource, FeedScope::All, |_| ());
        db.put(&"pods".into(), "a", Expect::Absent, object(1)).expect("absent");
        db.renew(&resource);
        db.put(&resource, "a", Expect::Absent, object(1)).expect("absent");
        assert_eq!(feed.next(&db).await.err(), Some(Over::Ended));
    }
}
