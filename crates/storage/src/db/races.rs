//! Tests of readers and followers with concurrent writes.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;

use pintle_apimachinery::clock::Clock;
use pintle_json::{Json, json};

use super::*;
use crate::{Draft, Key, Order};

const WRITERS: u64 = 2;
const WRITES: u64 = 400;
const PODS: &str = "pods";
/// The object that stores the number of pods. Each commit that writes a pod also updates this object.
const COUNT: (&str, &str) = ("counts", "pods");

fn counted(pods: u64) -> Json {
    json!({"data": {"pods": pods}})
}

fn empty() -> (Db, u64) {
    let draft: Drafting = |interner, _, object| Draft::new(interner, object, Order::Declared, Vec::new());
    let history = History { followed: 10_000, ..History::default() };
    let db = Db::new(1, history, draft, Arc::new(Clock::new(None)));
    let first = db.put(&COUNT.0.into(), COUNT.1, Expect::Absent, counted(0)).expect("absent").revision();
    (db, first)
}

fn count(now: &Present) -> Option<u64> {
    now.get(COUNT.0, COUNT.1)?.decode()["data"]["pods"].as_u64()
}

fn names(pods: Run) -> Vec<(Key, u64)> {
    pods.map(|(key, stored)| (key, stored.revision())).collect()
}

/// Creates pods. Each commit creates one pod and updates the number of pods, and is retried after a conflict.
fn write(db: &Db, writer: u64) {
    for number in 0..WRITES {
        let key = format!("{writer}/{number}");
        let change = loop {
            let now = db.now();
            let (at, pods) = (now.get(COUNT.0, COUNT.1).expect("the object exists").revision(), count(&now));
            let value = counted(pods.expect("a number") + 1);
            let charge = Charge { resource: COUNT.0.into(), key: COUNT.1.into(), at, value };
            match db.commit(&PODS.into(), &key, Expect::Absent, json!({"data": {}}), vec![charge], |_| true) {
                Ok(change) => break change,
                Err(refused) => assert!(matches!(refused, Refused::Moved), "{refused:?}"),
            }
        };
        // A writer must be able to read its own writes immediately.
        assert!(db.revision() >= change.revision());
        assert_eq!(db.get(PODS, &key).map(|stored| stored.revision()), Some(change.revision()));
    }
}

fn while_writing(db: &Db, mut check: impl FnMut()) {
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(db, writer))).collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            check();
        }
    });
    check();
}

#[test]
fn reads_do_not_wait_for_the_lock() {
    let (db, first) = empty();
    let db = Arc::new(db);
    let (result, read) = mpsc::channel();
    let locked = db.inner.lock();
    let reader = db.clone();
    thread::spawn(move || {
        let all = reader.objects_of(COUNT.0, &Range::namespace(None)).left();
        let there = reader.get(COUNT.0, COUNT.1).is_some() && reader.weight(COUNT.0, COUNT.1) > 0;
        result.send((reader.revision(), reader.now().revision(), all, there))
    });
    let read = read.recv_timeout(Duration::from_secs(60));
    assert_eq!(read, Ok((first, first, 1, true)), "the read waited for the lock");
    drop(locked);
}

#[test]
fn reads_see_whole_steps_and_growing_revisions() {
    let (db, first) = empty();
    let mut last = first;
    while_writing(&db, || {
        let now = db.now();
        assert!(now.revision() >= last);
        last = now.revision();
        let pods = names(now.objects(PODS).run(&Range::namespace(None)));
        assert_eq!((first + 2 * pods.len() as u64, count(&now)), (last, Some(pods.len() as u64)));
        assert!(pods.iter().all(|(_, revision)| *revision <= last));
    });
    assert_eq!(last, first + 2 * WRITERS * WRITES);
}

#[test]
fn list_and_feed_deliver_each_change_once() {
    // Start a feed every `INTERVAL` revisions.
    const INTERVAL: u64 = 30;
    let (db, _) = empty();
    let (mut begun, mut next) = (Vec::new(), 0);
    while_writing(&db, || {
        if db.revision() >= next {
            next = db.revision() + INTERVAL;
            begun.push((db.now(), db.follow(&PODS.into(), FeedScope::All, |_| ()).1));
        }
    });
    let all = names(db.objects_of(PODS, &Range::namespace(None)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for (then, feed) in begun {
        let mut known = names(then.objects(PODS).run(&Range::namespace(None)));
        let mut feed = feed.starting_after(then.revision());
        while db.revision_if_read(&feed).is_none() {
            let change = runtime.block_on(feed.next(&db)).expect("not compacted");
            known.push((change.key.clone(), change.revision()));
        }
        known.sort();
        assert!(known == all, "from {} on", then.revision());
    }
}

struct ReadOnWake {
    db: Arc<Db>,
    found: Mutex<Vec<u64>>,
}

impl Wake for ReadOnWake {
    fn wake(self: Arc<Self>) {
        let now = self.db.now();
        assert_eq!(count(&now), Some(1));
        self.found.lock().push(now.revision());
    }
}

#[test]
fn notified_follower_can_read_the_whole_step() {
    let (db, at) = empty();
    let db = Arc::new(db);
    let reader = Arc::new(ReadOnWake { db: db.clone(), found: Mutex::default() });
    let mut counts = db.follow_all(Some(&[COUNT.0]));
    let ((), mut feed) = db.follow(&COUNT.0.into(), FeedScope::All, |_| ());
    let mut revision = db.revision.subscribe();
    let mut notified = pin!(async { tokio::join!(counts.next(), feed.next(&db), revision.changed()) });
    let waker = Waker::from(reader.clone());
    assert!(notified.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let charge = Charge { resource: COUNT.0.into(), key: COUNT.1.into(), at, value: counted(1) };
    let step = db.commit(&PODS.into(), "a", Expect::Absent, json!({}), vec![charge], |_| true).expect("as expected");
    let found = reader.found.lock();
    assert_eq!(**found, [step.revision(); 3]);
}
