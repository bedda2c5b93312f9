//! Tests of `LatestFifo`: the latest object of each key, lists, order, sync and closing.

use pintle_delta_fifo::{LatestFifo, StoreError};

use crate::support::{Thing, key_of, thing, things};

type Fifo = LatestFifo<String, Thing>;

fn fifo() -> Fifo {
    LatestFifo::new(key_of)
}

fn pops(fifo: &mut Fifo) -> Vec<Thing> {
    std::iter::from_fn(|| fifo.pop()).map(|latest| latest.object).collect()
}

#[test]
fn s1_each_key_is_popped_once_with_latest_object() {
    let mut fifo = fifo();
    fifo.add(thing("foo", 10)).unwrap();
    fifo.update(thing("foo", 15)).unwrap();
    assert_eq!(fifo.list(), things("foo15"));
    assert_eq!(pops(&mut fifo), things("foo15"));
    assert_eq!((fifo.list_keys(), fifo.get_by_key(&"foo".into())), (vec![], None));

    fifo.add(thing("foo", 10)).unwrap();
    fifo.replace(things("foo15"), "15").unwrap();
    assert_eq!(pops(&mut fifo), things("foo15"));
}

#[test]
fn s1_list_replaces_queued_objects_and_deletion_removes_them() {
    let mut fifo = fifo();
    fifo.add(thing("gone", 1)).unwrap();
    fifo.replace(things("b1 a1 c1 a2"), "1").unwrap();
    fifo.delete(thing("b", 9)).unwrap();
    fifo.delete(thing("none", 9)).unwrap();
    assert_eq!(pops(&mut fifo), things("a2 c1"));
    assert!(matches!(fifo.replace(things("a1 1"), "2"), Err(StoreError::Key(_))));
    assert!(fifo.is_empty());
}

#[test]
fn s1_keys_keep_their_position() {
    let mut fifo = fifo();
    for next in things("foo10 bar1 foo11 foo13 zab30") {
        fifo.add(next).unwrap();
    }
    assert_eq!(fifo.pop().unwrap().object, thing("foo", 13));
    fifo.add(thing("foo", 14)).unwrap();
    assert_eq!(pops(&mut fifo), things("bar1 zab30 foo14"));
}

#[test]
fn s1_popped_object_returns_unless_a_newer_one_exists() {
    let mut fifo = fifo();
    for next in things("a1 b1") {
        fifo.add(next).unwrap();
    }
    let popped = fifo.pop().unwrap().object;
    fifo.add_if_not_present(popped.clone()).unwrap();
    assert_eq!(pops(&mut fifo), things("b1 a1"));
    fifo.add(thing("a", 2)).unwrap();
    fifo.add_if_not_present(popped).unwrap();
    assert_eq!(pops(&mut fifo), things("a2"));
}

#[test]
fn s1_queue_has_synced_once_first_list_is_processed() {
    let check = |prepare: fn(&mut Fifo), pops: usize, expected: bool| {
        let mut fifo = fifo();
        prepare(&mut fifo);
        for _ in 0..pops {
            assert!(fifo.pop().unwrap().is_in_initial_list);
            assert!(!fifo.has_synced(), "the object is not processed yet");
        }
        fifo.processed();
        assert_eq!(fifo.has_synced(), expected);
    };
    check(|_| {}, 0, false);
    check(|fifo| fifo.add(thing("a", 1)).unwrap(), 0, true);
    check(|fifo| fifo.delete(thing("a", 1)).unwrap(), 0, true);
    check(|fifo| fifo.replace(vec![], "0").unwrap(), 0, true);
    check(|fifo| fifo.replace(things("a1 b2"), "0").unwrap(), 0, false);
    check(|fifo| fifo.replace(things("a1 b2"), "0").unwrap(), 1, false);
    check(|fifo| fifo.replace(things("a1 b2"), "0").unwrap(), 2, true);
    check(|fifo| fifo.replace(things("a1 a2"), "0").unwrap(), 1, true);
    let deleted = |fifo: &mut Fifo| {
        fifo.replace(things("a1 b2"), "0").unwrap();
        fifo.delete(thing("b", 2)).unwrap();
    };
    check(deleted, 0, false);
    check(deleted, 1, true);
    let replaced = |fifo: &mut Fifo| {
        fifo.replace(things("a1 b2 c3"), "0").unwrap();
        fifo.replace(things("d1 e2"), "1").unwrap();
    };
    check(replaced, 1, false);
    check(replaced, 2, true);
}

#[test]
fn s1_only_the_first_list_is_initial() {
    let mut fifo = fifo();
    fifo.replace(things("a1"), "0").unwrap();
    fifo.add(thing("b", 1)).unwrap();
    assert!(fifo.pop().unwrap().is_in_initial_list);
    assert!(!fifo.pop().unwrap().is_in_initial_list);
    fifo.replace(things("a2"), "1").unwrap();
    assert!(fifo.has_synced() && !fifo.pop().unwrap().is_in_initial_list);
}

#[test]
fn s1_closed_queue_returns_remaining_objects() {
    let mut fifo = fifo();
    fifo.add(thing("a", 1)).unwrap();
    fifo.close();
    assert!(fifo.is_closed());
    fifo.add(thing("b", 1)).unwrap();
    assert_eq!(pops(&mut fifo), things("a1 b1"));
}
