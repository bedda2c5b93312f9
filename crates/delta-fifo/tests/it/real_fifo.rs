//! Tests of `RealFifo`: order, lists, batches and sync.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pintle_delta_fifo::{BoxError, Item, RealFifo, RealFifoConfig, StoreError};

use crate::support::{Known, Thing, key_of, shorthand, thing, things, tombstone};

type Fifo = RealFifo<String, Thing>;

fn knowing(known: &Known) -> RealFifoConfig<String, Thing> {
    RealFifoConfig { known_objects: Some(Box::new(known.clone())), ..RealFifoConfig::default() }
}

fn fifo_with(known: &Known) -> Fifo {
    RealFifo::new(key_of, knowing(known))
}

fn atomic() -> Fifo {
    RealFifo::new(key_of, RealFifoConfig::default())
}

fn text(item: &Item<String, Thing>) -> String {
    match item {
        Item::One { delta, .. } => shorthand(delta),
        Item::ReplacedAll { objects, resource_version } => {
            let names: Vec<String> = objects.iter().map(|thing| format!("{}{}", thing.name, thing.value)).collect();
            format!("all [{}] at {resource_version}", names.join(" "))
        }
        Item::SyncAll => "sync all".into(),
        Item::Bookmark { resource_version } => format!("bookmark {resource_version}"),
    }
}

fn pops(fifo: &mut Fifo) -> Vec<String> {
    std::iter::from_fn(|| fifo.pop()).map(|popped| text(&popped.item)).collect()
}

/// Pops all batches and returns one string per batch, in which a `!` marks a batch from the initial list.
fn batches(fifo: &mut Fifo, most: usize) -> Vec<String> {
    let batches = std::iter::from_fn(|| fifo.pop_batch(most));
    let describe = |batch: pintle_delta_fifo::Batch<String, Thing>| {
        let items: Vec<String> = batch.items.iter().map(text).collect();
        format!("{}{}", items.join(", "), if batch.is_in_initial_list { "!" } else { "" })
    };
    batches.map(describe).collect()
}

#[test]
fn r1_replacement_after_a_deletion_is_delivered() {
    let mut fifo = fifo_with(&Known::new("foo1"));
    fifo.delete(thing("foo", 1)).unwrap();
    fifo.replace(things("foo2"), "0").unwrap();
    assert_eq!(pops(&mut fifo), ["D foo1", "R foo2"]);
}

#[test]
fn r3_r9_each_change_is_delivered_separately_in_order() {
    let mut fifo = fifo_with(&Known::default());
    for next in things("foo10 bar1 foo11 foo13 zab30") {
        fifo.add(next).unwrap();
    }
    assert_eq!(text(&fifo.pop().unwrap().item), "A foo10");
    fifo.add(thing("foo", 14)).unwrap();
    assert_eq!(pops(&mut fifo), ["A bar1", "A foo11", "A foo13", "A zab30", "A foo14"]);

    fifo.add(thing("foo", 10)).unwrap();
    fifo.update(thing("foo", 12)).unwrap();
    fifo.delete(thing("foo", 15)).unwrap();
    assert_eq!(fifo.len(), 3);
    assert_eq!(pops(&mut fifo), ["A foo10", "U foo12", "D foo15"]);
    assert!(fifo.is_empty() && fifo.pop().is_none());
}

#[test]
fn r5_deletion_of_an_unknown_key_is_delivered() {
    let mut fifo = fifo_with(&Known::default());
    fifo.add(thing("foo", 10)).unwrap();
    fifo.update(thing("bar", 15)).unwrap();
    fifo.add(thing("qux", 17)).unwrap();
    fifo.delete(thing("qux", 18)).unwrap();
    fifo.delete(thing("baz", 20)).unwrap();
    fifo.delete_unseen(tombstone("qux", None));
    assert_eq!(pops(&mut fifo), ["A foo10", "U bar15", "A qux17", "D qux18", "D baz20", "D T(qux)"]);
}

#[test]
fn r6_r7_replacement_delivers_deletions_before_listed_objects() {
    let check = |steps: &[fn(&mut Fifo)], expected: &[&str]| {
        let mut fifo = fifo_with(&Known::new("foo5 bar6 baz7"));
        steps.iter().for_each(|step| step(&mut fifo));
        assert_eq!(pops(&mut fifo), expected);
    };
    let list: fn(&mut Fifo) = |fifo| fifo.replace(things("foo5"), "0").unwrap();
    check(&[|fifo| fifo.delete(thing("baz", 10)).unwrap(), list], &["D baz10", "D T(bar6)", "R foo5"]);
    check(&[|fifo| fifo.add(thing("baz", 10)).unwrap(), list], &["A baz10", "D T(baz10)", "D T(bar6)", "R foo5"]);
    check(
        &[|fifo| fifo.delete(thing("bar", 6)).unwrap(), |fifo| fifo.add(thing("bar", 100)).unwrap(), list],
        &["D bar6", "A bar100", "D T(bar100)", "D T(baz7)", "R foo5"],
    );
    check(
        &[|fifo| fifo.replace(things("bar100 foo5"), "0").unwrap(), list],
        &["D T(baz7)", "R bar100", "R foo5", "D T(bar100)", "R foo5"],
    );
}

#[test]
fn r2_queued_object_missing_from_list_is_deleted_once() {
    let check = |steps: &[fn(&mut Fifo)], expected: &[&str]| {
        let mut fifo = fifo_with(&Known::default());
        steps.iter().for_each(|step| step(&mut fifo));
        assert_eq!(pops(&mut fifo), expected);
    };
    let add: fn(&mut Fifo) = |fifo| fifo.add(thing("x", 1)).unwrap();
    let add_2: fn(&mut Fifo) = |fifo| fifo.add(thing("x", 2)).unwrap();
    let delete: fn(&mut Fifo) = |fifo| fifo.delete(thing("x", 1)).unwrap();
    let replace: fn(&mut Fifo) = |fifo| fifo.replace(things("x1"), "0").unwrap();
    let clear: fn(&mut Fifo) = |fifo| fifo.replace(vec![], "0").unwrap();
    check(&[add, clear], &["A x1", "D T(x1)"]);
    check(&[add, delete, clear], &["A x1", "D x1"]);
    check(&[add, replace, replace, clear], &["A x1", "R x1", "R x1", "D T(x1)"]);
    check(&[add, clear, clear], &["A x1", "D T(x1)"]);
    check(&[add, delete, add_2, clear], &["A x1", "D x1", "A x2", "D T(x2)"]);
}

#[test]
fn r4_objects_are_transformed_once_and_tombstones_never() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let transform = move |object: Thing| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(thing(&object.name, object.value + 100))
    };
    let known = knowing(&Known::new("foo0"));
    let mut fifo = RealFifo::new(key_of, RealFifoConfig { transformer: Some(Box::new(transform)), ..known });
    fifo.add(thing("foo", 10)).unwrap();
    fifo.add(thing("bar", 11)).unwrap();
    fifo.update(thing("foo", 12)).unwrap();
    fifo.delete(thing("foo", 15)).unwrap();
    fifo.delete_unseen(tombstone("bar", Some(thing("bar", 11))));
    fifo.add(thing("bar", 16)).unwrap();
    fifo.delete_unseen(tombstone("bar", Some(thing("bar", 16))));
    let events = ["A foo110", "A bar111", "U foo112", "D foo115", "D T(bar11)", "A bar116", "D T(bar16)"];
    assert_eq!(pops(&mut fifo), events);
    assert_eq!(calls.load(Ordering::Relaxed), 5);

    fifo.resync();
    fifo.add(thing("bar", 1)).unwrap();
    fifo.replace(things("foo2"), "0").unwrap();
    assert_eq!(pops(&mut fifo), ["S foo0", "A bar101", "D T(bar101)", "R foo102"]);
    assert_eq!(calls.load(Ordering::Relaxed), 7, "known objects are not transformed again");
}

#[test]
fn r1_resync_delivers_known_unqueued_objects() {
    let check = |known: &str, steps: fn(&mut Fifo), expected: &[&str]| {
        let mut fifo = fifo_with(&Known::new(known));
        steps(&mut fifo);
        fifo.resync();
        assert_eq!(pops(&mut fifo), expected);
    };
    check("foo5", |_| {}, &["S foo5"]);
    check("foo5", |fifo| fifo.delete(thing("foo", 10)).unwrap(), &["D foo10"]);
    check("bar1 foo5", |fifo| fifo.update(thing("foo", 6)).unwrap(), &["U foo6", "S bar1"]);
    let come_and_gone: fn(&mut Fifo) = |fifo| {
        fifo.add(thing("foo", 5)).unwrap();
        fifo.delete(thing("foo", 6)).unwrap();
    };
    check("", come_and_gone, &["A foo5", "D foo6"]);
}

#[test]
fn r8_initial_list_ends_with_its_last_processed_item() {
    let mut fifo = fifo_with(&Known::new("bar0 baz0 foo0"));
    fifo.replace(things("foo1"), "0").unwrap();
    fifo.add(thing("late", 1)).unwrap();
    let expected = [("D T(bar0)", true), ("D T(baz0)", true), ("R foo1", true), ("A late1", false)];
    for (item, is_initial) in expected {
        let popped = fifo.pop().unwrap();
        assert_eq!((text(&popped.item).as_str(), popped.is_in_initial_list), (item, is_initial));
        assert_eq!(fifo.has_synced(), !is_initial, "{item} is not processed yet");
    }

    let mut last = fifo_with(&Known::default());
    last.replace(things("a1"), "0").unwrap();
    last.pop().unwrap();
    assert!(!last.has_synced());
    last.processed();
    assert!(last.has_synced());
}

#[test]
fn r10_queue_has_synced_once_first_list_is_processed() {
    let check = |mut fifo: Fifo, prepare: fn(&mut Fifo), pops: usize, expected: bool| {
        prepare(&mut fifo);
        (0..pops).for_each(|_| _ = fifo.pop());
        fifo.processed();
        assert_eq!(fifo.has_synced(), expected);
    };
    let plain = || fifo_with(&Known::default());
    check(plain(), |_| {}, 0, false);
    check(plain(), |fifo| fifo.add(thing("a", 1)).unwrap(), 0, true);
    check(plain(), |fifo| fifo.replace(vec![], "0").unwrap(), 0, true);
    check(plain(), |fifo| fifo.replace(things("a1 b1"), "0").unwrap(), 1, false);
    check(plain(), |fifo| fifo.replace(things("a1 b1"), "0").unwrap(), 2, true);
    check(plain(), |fifo| fifo.replace(things("a1 a2"), "0").unwrap(), 1, false);
    check(plain(), |fifo| fifo.replace(things("a1 a2"), "0").unwrap(), 2, true);
    check(atomic(), |fifo| fifo.replace(vec![], "0").unwrap(), 0, false);
    check(atomic(), |fifo| fifo.replace(vec![], "0").unwrap(), 1, true);
}

#[test]
fn r11_r14_r15_atomic_queue_delivers_whole_lists() {
    let mut fifo = atomic();
    fifo.add(thing("x", 1)).unwrap();
    fifo.bookmark("12");
    fifo.replace(things("a1 b2"), "123").unwrap();
    fifo.replace(vec![], "124").unwrap();
    fifo.resync();
    assert_eq!(pops(&mut fifo), ["A x1", "bookmark 12", "all [a1 b2] at 123", "all [] at 124", "sync all"]);

    let mut plain = fifo_with(&Known::default());
    plain.bookmark("12");
    plain.replace(vec![], "13").unwrap();
    plain.replace(vec![], "14").unwrap();
    assert!(plain.is_empty());
}

#[test]
fn r14_lists_of_an_atomic_queue_keep_their_order() {
    let check = |steps: fn(&mut Fifo), expected: &[&str]| {
        let mut fifo = atomic();
        steps(&mut fifo);
        assert_eq!(pops(&mut fifo), expected);
    };
    check(|fifo| fifo.replace(vec![], "123").unwrap(), &["all [] at 123"]);
    let three: fn(&mut Fifo) = |fifo| ["1", "2", "3"].into_iter().for_each(|at| fifo.replace(vec![], at).unwrap());
    check(three, &["all [] at 1", "all [] at 2", "all [] at 3"]);
    let bookmarked: fn(&mut Fifo) = |fifo| {
        fifo.bookmark("12");
        fifo.replace(things("a1"), "13").unwrap();
    };
    check(bookmarked, &["bookmark 12", "all [a1] at 13"]);
    check(|fifo| fifo.resync(), &["sync all"]);
}

#[test]
fn r12_batch_contains_distinct_keys() {
    let prepared = |initial: &str, updates: &str| {
        let mut fifo = fifo_with(&Known::default());
        fifo.replace(things(initial), "0").unwrap();
        things(updates).into_iter().for_each(|update| fifo.update(update).unwrap());
        fifo
    };
    let check = |initial: &str, updates: &str, most: usize, expected: &[&str]| {
        assert_eq!(batches(&mut prepared(initial, updates), most), expected);
    };
    check("a1 b1 c1", "", 1000, &["R a1, R b1, R c1!"]);
    check("a1 b1", "a2 b2", 2, &["R a1, R b1!", "U a2, U b2"]);
    check("a1", "a2 a3", 1000, &["R a1!", "U a2", "U a3"]);
    check("a1 b1", "b2 c2", 1000, &["R a1, R b1!", "U b2, U c2"]);
    check("a1 b1 c1", "b2", 1000, &["R a1, R b1, R c1!", "U b2"]);
    check("a1 b1 c1", "", 2, &["R a1, R b1!", "R c1!"]);
    check("", "a1 b1 c1", 2, &["U a1, U b1", "U c1"]);
    check("a1 b1 c1", "d1", 2, &["R a1, R b1!", "R c1!", "U d1"]);
    check("a1 b1", "", 0, &["R a1!", "R b1!"]);
}

#[test]
fn whole_list_items_form_their_own_batch() {
    let mut fifo = atomic();
    fifo.replace(things("a1"), "5").unwrap();
    fifo.add(thing("b", 1)).unwrap();
    fifo.add(thing("c", 1)).unwrap();
    fifo.bookmark("6");
    fifo.resync();
    fifo.add(thing("d", 1)).unwrap();
    let expected = ["all [a1] at 5!", "A b1, A c1", "bookmark 6", "sync all", "A d1"];
    assert_eq!(batches(&mut fifo, 1000), expected);
}

#[test]
fn list_with_a_bad_object_is_rejected() {
    let transform = |object: Thing| match object.name.as_str() {
        "bad" => Err("it is bad".into()),
        _ => Ok(object),
    };
    let config = RealFifoConfig { transformer: Some(Box::new(transform)), ..RealFifoConfig::default() };
    let mut refused = RealFifo::new(key_of, config);
    assert!(matches!(refused.replace(things("a1 bad1"), "0"), Err(StoreError::Transform(_))));
    assert!(refused.is_empty() && !refused.has_synced());

    let mut keyless = fifo_with(&Known::new("x1"));
    assert!(matches!(keyless.replace(things("a1 1"), "0"), Err(StoreError::Key(_))));
    assert!(keyless.is_empty() && !keyless.has_synced());
}

#[test]
fn known_object_with_lookup_error_counts_as_present() {
    let failed = Arc::new(Mutex::new(Vec::new()));
    let log = failed.clone();
    let known = Known { unreadable: true, ..Known::new("foo1") };
    let record = move |key: &String, _: &BoxError| log.lock().unwrap().push(key.clone());
    let mut fifo = RealFifo::new(key_of, RealFifoConfig { on_lookup_error: Some(Box::new(record)), ..knowing(&known) });
    fifo.resync();
    fifo.replace(vec![], "0").unwrap();
    fifo.close();
    assert!(fifo.is_closed());
    assert_eq!(pops(&mut fifo), ["D T(foo)"]);
    assert_eq!(*failed.lock().unwrap(), ["foo", "foo"]);
}
