//! Those who read and follow while others write.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;

use pintle_json::{Json, json};

use super::*;
use crate::clock::Clock;
use crate::store::{Draft, Key, Order};

const WRITERS: u64 = 2;
const WRITES: u64 = 400;
const MADE: &str = "pods";
/// How many pods there are, written with each of them.
const COUNT: (&str, &str) = ("counts", "pods");

fn counted(pods: u64) -> Json {
    json!({"data": {"pods": pods}})
}

/// A store that knows of no pods, and its revision.
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

/// Creates pods. Who counts them beside another looks anew.
fn write(db: &Db, writer: u64) {
    for number in 0..WRITES {
        let key = format!("{writer}/{number}");
        let change = loop {
            let now = db.now();
            let (at, pods) = (now.get(COUNT.0, COUNT.1).expect("it is there").revision(), count(&now));
            let value = counted(pods.expect("a number") + 1);
            let charge = Charge { resource: COUNT.0.into(), key: COUNT.1.into(), at, value };
            match db.commit(&MADE.into(), &key, Expect::Absent, json!({"data": {}}), vec![charge], |_| true) {
                Ok(change) => break change,
                Err(refused) => assert!(matches!(refused, Refused::Moved), "{refused:?}"),
            }
        };
        // What is written is there for whoever wrote it.
        assert!(db.revision() >= change.revision());
        assert_eq!(db.get(MADE, &key).map(|stored| stored.revision()), Some(change.revision()));
    }
}

/// Looks again and again while others write, and once more when they have done.
fn beside_writers(db: &Db, mut look: impl FnMut()) {
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(db, writer))).collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            look();
        }
    });
    look();
}

#[test]
fn who_reads_waits_for_nobody_who_writes() {
    let (db, first) = empty();
    let db = Arc::new(db);
    let (told, read) = mpsc::channel();
    let locked = db.lock();
    let reader = db.clone();
    thread::spawn(move || {
        let all = reader.objects_of(COUNT.0, &Range::namespace(None)).left();
        let there = reader.get(COUNT.0, COUNT.1).is_some() && reader.weight(COUNT.0, COUNT.1) > 0;
        told.send((reader.revision(), reader.now().revision(), all, there))
    });
    let read = read.recv_timeout(Duration::from_secs(60));
    assert_eq!(read, Ok((first, first, 1, true)), "it waits for the lock");
    drop(locked);
}

#[test]
fn who_reads_sees_whole_steps_up_to_a_revision_that_never_falls() {
    let (db, first) = empty();
    let mut last = first;
    beside_writers(&db, || {
        let now = db.now();
        assert!(now.revision() >= last);
        last = now.revision();
        let pods = names(now.objects(MADE).run(&Range::namespace(None)));
        assert_eq!((first + 2 * pods.len() as u64, count(&now)), (last, Some(pods.len() as u64)));
        assert!(pods.iter().all(|(_, revision)| *revision <= last));
    });
    assert_eq!(last, first + 2 * WRITERS * WRITES);
}

#[test]
fn who_lists_and_follows_misses_nothing_and_hears_nothing_twice() {
    // So that they begin all along, and not where hardly anything is there yet.
    const APART: u64 = 30;
    let (db, _) = empty();
    let (mut begun, mut next) = (Vec::new(), 0);
    beside_writers(&db, || {
        if db.revision() >= next {
            next = db.revision() + APART;
            begun.push((db.now(), db.follow(&MADE.into(), FeedScope::All, |_| ()).1));
        }
    });
    let all = names(db.objects_of(MADE, &Range::namespace(None)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for (then, feed) in begun {
        let mut known = names(then.objects(MADE).run(&Range::namespace(None)));
        let mut feed = feed.starting_after(then.revision());
        while db.revision_if_read(&feed).is_none() {
            let change = runtime.block_on(feed.next(&db)).expect("it is kept");
            known.push((change.key.clone(), change.revision()));
        }
        known.sort();
        assert!(known == all, "from {} on", then.revision());
    }
}

/// Reads when it is woken, which is when it is told of something.
struct ReaderWhenTold {
    db: Arc<Db>,
    found: Mutex<Vec<u64>>,
}

impl Wake for ReaderWhenTold {
    fn wake(self: Arc<Self>) {
        let now = self.db.now();
        assert_eq!(count(&now), Some(1));
        self.found.lock().expect("nobody panicked").push(now.revision());
    }
}

#[test]
fn who_is_told_of_a_part_of_a_step_can_read_all_of_it() {
    let (db, at) = empty();
    let db = Arc::new(db);
    let reader = Arc::new(ReaderWhenTold { db: db.clone(), found: Mutex::default() });
    let mut counts = db.follow_all(Some(&[COUNT.0]));
    let ((), mut feed) = db.follow(&COUNT.0.into(), FeedScope::All, |_| ());
    let mut revision = db.revision.subscribe();
    let mut told = pin!(async { tokio::join!(counts.next(), feed.next(&db), revision.changed()) });
    let waker = Waker::from(reader.clone());
    assert!(told.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let charge = Charge { resource: COUNT.0.into(), key: COUNT.1.into(), at, value: counted(1) };
    let step = db.commit(&MADE.into(), "a", Expect::Absent, json!({}), vec![charge], |_| true).expect("as expected");
    let found = reader.found.lock().expect("nobody panicked");
    assert_eq!(**found, [step.revision(); 3]);
}
