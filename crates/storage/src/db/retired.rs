//! The logs of removed or replaced resources, which are kept until their feeds have read them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use super::followers::{FeedScope, Followers};
use crate::ChangeLog;

/// The end of a resource's log, which is empty until the resource is renewed. Only the feeds of the resource own the
/// `LogEnd`, so dropping the last feed also drops the retired log.
#[derive(Debug, Default)]
pub(super) struct LogEnd(ArcSwapOption<RetiredLog>);

impl LogEnd {
    pub(super) fn retired(&self) -> Option<Arc<RetiredLog>> {
        self.0.load_full()
    }

    /// Drops the retired log, so that its feeds end as too slow.
    fn evict(&self) {
        self.0.store(Some(Arc::new(RetiredLog { is_evicted: true, ..RetiredLog::default() })));
    }
}

/// The log of a resource that was removed or replaced, with the unread revisions of its followers.
#[derive(Debug, Default)]
pub(super) struct RetiredLog {
    pub(super) followers: Followers,
    pub(super) log: ChangeLog,
    /// `true` if the log was dropped because all retired logs together were too large.
    pub(super) is_evicted: bool,
}

impl RetiredLog {
    /// Returns the approximate size of the log in bytes. Computing the size can take a long time, because it visits all
    /// objects in the log.
    pub(super) fn bytes(&self) -> usize {
        self.log.retained_bytes() + self.followers.bytes()
    }
}

/// The followers of a resource, until the resource is renewed.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) followers: Followers,
    /// A weak reference, so that the log is kept only if the resource has feeds.
    end: Weak<LogEnd>,
}

impl Followed {
    /// Adds a follower of `scope`. Returns a receiver for the revision of each change after `now`, and the end of the
    /// log. Dropping the receiver removes the follower.
    pub(super) fn follow(&mut self, scope: &FeedScope, now: u64) -> (watch::Receiver<u64>, Arc<LogEnd>) {
        let end = self.end.upgrade().unwrap_or_default();
        self.end = Arc::downgrade(&end);
        (self.followers.follow(scope, now), end)
    }

    pub(super) fn retire(self, log: ChangeLog) -> (Arc<RetiredLog>, Option<Arc<LogEnd>>) {
        let Self { followers, end } = self;
        let retired = Arc::new(RetiredLog { followers, log, is_evicted: false });
        let end = end.upgrade();
        if let Some(end) = &end {
            end.0.store(Some(retired.clone()));
            retired.followers.wake();
        }
        (retired, end)
    }
}

/// The retired logs that a feed may still read, oldest first. Each log has its end and its size in bytes.
#[derive(Debug, Default)]
pub(super) struct RetiredLogs(VecDeque<(Weak<LogEnd>, usize)>);

impl RetiredLogs {
    /// Adds the end of a retired log with a size of `bytes`. If all retired logs together are larger than `max_bytes`,
    /// removes the oldest of them. Returns the ends of the removed logs. The caller must pass these ends to [`evict`]
    /// after it has released the lock of the `RetiredLogs`.
    pub(super) fn add(&mut self, end: &Arc<LogEnd>, bytes: usize, max_bytes: usize) -> Vec<Arc<LogEnd>> {
        self.0.retain(|(end, _)| end.strong_count() > 0);
        self.0.push_back((Arc::downgrade(end), bytes));
        let mut total: usize = self.0.iter().map(|(_, bytes)| bytes).sum();
        let mut removed = Vec::new();
        while total > max_bytes
            && let Some((end, bytes)) = self.0.pop_front()
        {
            total -= bytes;
            removed.extend(end.upgrade());
        }
        removed
    }
}

/// Drops the logs with these ends, so that their feeds end as too slow. Dropping a large log can take a long time.
pub(super) fn evict(ends: Vec<Arc<LogEnd>>) {
    ends.iter().for_each(|end| end.evict());
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};
    use std::time::Instant;

    use pintle_apimachinery::clock::Clock;
    use pintle_json::json;

    use super::{Followed, RetiredLogs, evict};
    use crate::{Change, ChangeLog, Db, Draft, Expect, Feed, FeedEnd, FeedScope, History, Objects, Order, Store};

    const WIDGETS: &str = "widgets";

    fn db(history: History) -> Db {
        let draft = |interner: &Arc<_>, _: &str, object: &_| Draft::new(interner, object, Order::Declared, Vec::new());
        Db::new(1, history, draft, Arc::new(Clock::new(None)))
    }

    fn put(db: &Db, key: &str, bytes: usize) -> Arc<Change> {
        let object = json!({"data": "x".repeat(bytes)});
        db.put(&WIDGETS.into(), key, Expect::Absent, object).expect("absent")
    }

    fn follow(db: &Db, scope: FeedScope) -> Feed {
        db.follow(&WIDGETS.into(), scope, |_| ()).1
    }

    /// Reads the revisions of all unread changes, and the reason for the end of the feed.
    async fn drain(db: &Db, feed: &mut Feed) -> (Vec<u64>, FeedEnd) {
        let mut revisions = Vec::new();
        loop {
            match feed.next(db).await {
                Ok(change) => revisions.push(change.revision()),
                Err(end) => return (revisions, end),
            }
        }
    }

    #[tokio::test]
    async fn feed_delivers_unread_changes_before_it_ends() {
        let db = db(History { followed: 100, ..History::default() });
        let first = db.revision();
        let namespace = || FeedScope::Namespace("a".into());
        let mut feeds = [FeedScope::All, namespace(), FeedScope::Object("a/70".into())].map(|scope| follow(&db, scope));
        // The feed needs several batches to read all changes.
        for number in 0..80 {
            put(&db, &format!("a/{number}"), 1);
        }
        let [all, gone] = ["a/70", "b/1"].map(|key| put(&db, &format!("{key}0"), 1).revision());
        db.remove(&WIDGETS.into(), "a/70", first + 71).expect("the object exists");
        let last = db.remove(&WIDGETS.into(), "b/10", gone).expect("the object exists").revision();
        let mut past = follow(&db, namespace()).starting_after(all - 1);
        db.renew(&WIDGETS.into());
        assert_eq!(feeds.each_ref().map(|feed| db.revision_if_read(feed)), [None; 3]);
        put(&db, "a/new", 1);
        let of_namespace: Vec<u64> = (first + 1..=all).chain([last - 1]).collect();
        let expected = [(first + 1..=last).collect(), of_namespace, vec![first + 71, last - 1]];
        for (feed, expected) in feeds.iter_mut().zip(expected) {
            assert!(feed.has_more());
            assert_eq!(drain(&db, feed).await, (expected, FeedEnd::Ended));
            assert!(feed.has_more(), "the end is ready");
        }
        assert_eq!(drain(&db, &mut past).await, (vec![all, last - 1], FeedEnd::Ended));
    }

    #[tokio::test]
    async fn last_feed_releases_the_retired_log() {
        let db = db(History { followed: 10, ..History::default() });
        let [first, second] = [FeedScope::All, FeedScope::Object("other".into())].map(|scope| follow(&db, scope));
        let change = Arc::downgrade(&put(&db, "a", 1));
        let removed = change.upgrade().expect("the log contains the change").revision();
        db.remove(&WIDGETS.into(), "a", removed).expect("the object exists");
        db.renew(&WIDGETS.into());
        drop(first);
        assert!(change.upgrade().is_some());
        drop(second);
        assert!(change.upgrade().is_none());
        // If a resource has no feeds, its renewal drops the log immediately.
        let change = Arc::downgrade(&put(&db, "b", 1));
        db.renew(&WIDGETS.into());
        assert!(change.upgrade().is_none());
    }

    #[tokio::test]
    async fn initial_objects_of_a_removed_resource_stay_available() {
        let db = db(History { followed: 10, ..History::default() });
        let resource = WIDGETS.into();
        let created = put(&db, "a", 1).revision();
        let keep = |store: &mut Store| store.keep(&resource, store.revision(), &store.objects(WIDGETS));
        let (objects, mut feed) = db.follow(&resource, FeedScope::All, keep);
        let removed = db.remove(&resource, "a", created).expect("the object exists").revision();
        db.renew(&resource);
        assert!(objects.upgrade().is_some_and(|objects| objects.get("a").is_some()));
        assert_eq!(drain(&db, &mut feed).await, (vec![removed], FeedEnd::Ended));
        drop(feed);
        assert!(objects.upgrade().is_none());
        // The log of a resource that still has objects is not kept, because its snapshot could be much larger than the
        // log.
        put(&db, "b", 1);
        let (objects, feed) = db.follow(&resource, FeedScope::All, keep);
        db.renew(&resource);
        assert!(objects.upgrade().is_none());
        assert_eq!(feed.reason_for_lost_objects(), FeedEnd::Ended);
    }

    #[tokio::test]
    async fn oldest_retired_log_is_evicted_above_the_limit() {
        let db = db(History { followed: 10, max_bytes: 1, ..History::default() });
        let mut feeds = Vec::new();
        for round in 0..3 {
            let mut feed = follow(&db, FeedScope::All);
            put(&db, &format!("a/{round}"), db.max_backlog_bytes / 5 * 2);
            // The second feed has read its change, but not the end of the log.
            if round == 1 {
                feed.next(&db).await.expect("a change");
            }
            db.renew(&WIDGETS.into());
            feeds.push(feed);
        }
        let mut ends = Vec::new();
        for feed in &mut feeds {
            let reason = feed.reason_for_lost_objects();
            let (changes, end) = drain(&db, feed).await;
            ends.push((changes.len(), reason == end, end));
        }
        assert_eq!(ends, [(0, true, FeedEnd::TooSlow), (0, true, FeedEnd::Ended), (1, true, FeedEnd::Ended)]);
    }

    #[tokio::test]
    async fn retired_log_limit_counts_previous_versions() {
        // The log contains only the update and the removal of each object.
        let db = db(History { max_changes: 2, followed: 2, max_bytes: 1 << 24, ..History::default() });
        let (mut feeds, mut previous) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let large = put(&db, "a", db.max_backlog_bytes / 5 * 2);
            feeds.push(follow(&db, FeedScope::All));
            let small = db.put(&WIDGETS.into(), "a", Expect::At(large.revision()), json!({})).expect("it exists");
            db.remove(&WIDGETS.into(), "a", small.revision()).expect("the object exists");
            db.renew(&WIDGETS.into());
            previous.push(Arc::downgrade(&large.new));
        }
        let previous: Vec<_> = previous.iter().map(|previous| previous.upgrade().is_some()).collect();
        assert_eq!(previous, [false, true, true]);
        let mut ends = Vec::new();
        for feed in &mut feeds {
            let (changes, end) = drain(&db, feed).await;
            ends.push((changes.len(), end));
        }
        assert_eq!(ends, [(0, FeedEnd::TooSlow), (2, FeedEnd::Ended), (2, FeedEnd::Ended)]);
    }

    #[tokio::test]
    async fn retired_log_limit_counts_snapshots_without_changes() {
        let db = db(History { followed: 10, max_bytes: 1, ..History::default() });
        let (now, resource) = (Instant::now(), WIDGETS.into());
        let large = json!({"data": "x".repeat(db.max_backlog_bytes / 5 * 2)});
        let mut watches = Vec::new();
        for _ in 0..3 {
            let (objects, feed) = db.follow(&resource, FeedScope::All, |store| {
                let draft = Draft::new(store.interner(), &large, Order::Declared, Vec::new());
                store.set(now, &resource, "a", store.revision() + 1, Some(draft));
                let objects = store.keep(&resource, store.revision(), &store.objects(WIDGETS));
                // The log does not contain this removal of an object.
                store.set(now, &resource, "a", store.revision(), None);
                objects
            });
            db.renew(&resource);
            watches.push((objects, feed));
        }
        let kept = |(objects, feed): &(Weak<Objects>, Feed)| (objects.strong_count(), feed.reason_for_lost_objects());
        let kept: Vec<_> = watches.iter().map(kept).collect();
        assert_eq!(kept, [(0, FeedEnd::TooSlow), (1, FeedEnd::Ended), (1, FeedEnd::Ended)]);
    }

    #[test]
    fn retired_log_size_includes_followers() {
        let (db, mut followed) = (db(History::default()), Followed::default());
        let scopes = [FeedScope::All, FeedScope::Namespace("n".repeat(10_000)), FeedScope::Object("o".repeat(20_000))];
        let receivers = scopes.map(|scope| followed.follow(&scope, 0));
        let change = put(&db, "a", 1);
        for _ in 0..1_000 {
            followed.followers.notify(&change, 500);
        }
        let (retired, _) = followed.retire(ChangeLog::default());
        assert!((34_000..35_000).contains(&retired.bytes()), "{}", retired.bytes());
        drop(receivers);
    }

    #[test]
    fn logs_above_the_limit_are_dropped_by_the_caller() {
        let mut logs = RetiredLogs::default();
        let [(old, end), (_, newer_end)] = [(); 2].map(|()| {
            let mut followed = Followed::default();
            let (_, end) = followed.follow(&FeedScope::All, 0);
            (Arc::downgrade(&followed.retire(ChangeLog::default()).0), end)
        });
        assert!(logs.add(&end, 1, 2).is_empty());
        let removed = logs.add(&newer_end, 2, 2);
        // The last feed ends while the log is removed.
        drop(end);
        assert_eq!((removed.len(), old.strong_count()), (1, 1));
        evict(removed);
        assert_eq!(old.strong_count(), 0);
        assert!(newer_end.retired().is_some_and(|newer| !newer.is_evicted));
    }

    #[tokio::test]
    async fn renewal_wakes_waiting_feeds() {
        let db = db(History::default());
        let names = [FeedScope::Namespace, FeedScope::Object].map(|scope| scope("a".into()));
        let field = FeedScope::Field { at: 0, value: String::new() };
        for scope in names.into_iter().chain([FeedScope::All, field]) {
            let mut feed = follow(&db, scope);
            let (next, ()) = tokio::join!(feed.next(&db), async { db.renew(&WIDGETS.into()) });
            assert_eq!(next.err(), Some(FeedEnd::Ended));
        }
    }
}
