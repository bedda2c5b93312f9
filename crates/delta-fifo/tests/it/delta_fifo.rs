//! Tests of `DeltaFifo`: changes, lists, tombstones and sync.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pintle_delta_fifo::{
    BoxError, DeletedObject, Delta, DeltaFifo, DeltaFifoConfig, Deltas, KeyError, StoreError, ZeroLengthDeltas,
};

use crate::support::{Known, Thing, fifo, fifo_with, key_of, knowing, pops, shorthands, thing, things, tombstone};

type Fifo = DeltaFifo<String, Thing>;

#[test]
fn d2_replacement_after_a_deletion_is_delivered() {
    let mut fifo = fifo_with(&Known::new("foo1"));
    fifo.delete(thing("foo", 1)).unwrap();
    fifo.replace(things("foo2"), "0").unwrap();
    assert_eq!(pops(&mut fifo), ["D foo1, S foo2"]);
}

#[test]
fn d3_queued_object_missing_from_list_is_deleted() {
    for mut fifo in [fifo(), fifo_with(&Known::default())] {
        fifo.add(thing("x", 1)).unwrap();
        fifo.replace(vec![], "0").unwrap();
        assert_eq!(pops(&mut fifo), ["A x1, D T(x1)"]);
        assert!(fifo.is_empty());
    }
}

#[test]
fn d5_d6_d7_d8_repeated_deletions_merge() {
    let check = |steps: &[fn(&mut Fifo)], expected: &str| {
        let mut fifo = fifo();
        steps.iter().for_each(|step| step(&mut fifo));
        assert_eq!(pops(&mut fifo), [expected]);
    };
    let add: fn(&mut Fifo) = |fifo| fifo.add(thing("x", 1)).unwrap();
    let add_2: fn(&mut Fifo) = |fifo| fifo.add(thing("x", 2)).unwrap();
    let delete: fn(&mut Fifo) = |fifo| fifo.delete(thing("x", 1)).unwrap();
    let replace: fn(&mut Fifo) = |fifo| fifo.replace(things("x1"), "0").unwrap();
    let clear: fn(&mut Fifo) = |fifo| fifo.replace(vec![], "0").unwrap();

    check(&[add, delete, clear], "A x1, D x1");
    check(&[add, replace, replace, clear], "A x1, S x1, S x1, D T(x1)");
    check(&[add, clear, clear], "A x1, D T(x1)");
    check(&[add, clear, delete], "A x1, D x1");
    check(&[add, delete, delete], "A x1, D x1");
    check(&[add, delete, add_2, clear], "A x1, D x1, A x2, D T(x2)");
}

#[test]
fn d4_d21_replacement_is_delivered_as_replaced_when_configured() {
    let mut replaced = DeltaFifo::new(key_of, DeltaFifoConfig { emit_replaced: true, ..DeltaFifoConfig::default() });
    replaced.add(thing("x", 1)).unwrap();
    replaced.replace(things("x1"), "0").unwrap();
    replaced.replace(vec![], "0").unwrap();
    assert_eq!(pops(&mut replaced), ["A x1, R x1, D T(x1)"]);

    let mut known = DeltaFifo::new(key_of, DeltaFifoConfig { emit_replaced: true, ..knowing(&Known::new("foo5")) });
    known.replace(things("foo5"), "0").unwrap();
    assert_eq!(pops(&mut known), ["R foo5"]);
}

#[test]
fn d9_changes_of_one_key_are_popped_together() {
    let mut fifo = fifo();
    fifo.add(thing("foo", 10)).unwrap();
    fifo.update(thing("foo", 12)).unwrap();
    fifo.delete(thing("foo", 15)).unwrap();
    assert_eq!(fifo.list(), things("foo15"));
    assert_eq!(shorthands(fifo.get(&thing("foo", 0)).unwrap().unwrap()), "A foo10, U foo12, D foo15");
    assert_eq!(pops(&mut fifo), ["A foo10, U foo12, D foo15"]);
    assert_eq!((fifo.list(), fifo.list_keys(), fifo.get_by_key(&"foo".into())), (vec![], vec![], None));
}

#[test]
fn d10_objects_are_transformed_once_and_tombstones_never() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let transform = move |thing: Thing| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(Thing { value: thing.value + 100, ..thing })
    };
    let known = knowing(&Known::new("foo0 bar0"));
    let mut fifo = DeltaFifo::new(key_of, DeltaFifoConfig { transformer: Some(Box::new(transform)), ..known });
    fifo.add(thing("foo", 10)).unwrap();
    fifo.add(thing("bar", 11)).unwrap();
    fifo.update(thing("foo", 12)).unwrap();
    fifo.delete(thing("foo", 15)).unwrap();
    fifo.delete_unseen(tombstone("bar", Some(thing("bar", 11))));
    fifo.add(thing("bar", 16)).unwrap();
    fifo.replace(things("bar17"), "0").unwrap();
    fifo.delete_unseen(tombstone("bar", Some(thing("bar", 16))));
    let expected = ["A foo110, U foo112, D foo115", "A bar111, D T(bar11), A bar116, S bar117, D T(bar16)"];
    assert_eq!(pops(&mut fifo), expected);
    assert_eq!(calls.load(Ordering::Relaxed), 6);

    fifo.resync().unwrap();
    assert_eq!(pops(&mut fifo), ["S bar0", "S foo0"]);
    assert_eq!(calls.load(Ordering::Relaxed), 6, "known objects are not transformed again");
}

#[test]
fn key_is_computed_before_the_transformation() {
    let config = DeltaFifoConfig { transformer: Some(Box::new(|_| Ok(thing("renamed", 0)))), ..Default::default() };
    let mut fifo = DeltaFifo::new(key_of, config);
    fifo.add(thing("foo", 1)).unwrap();
    assert_eq!(fifo.list_keys(), ["foo"]);
    assert_eq!(fifo.list(), things("renamed0"));
}

#[test]
fn d11_d12_d16_deletion_of_unknown_key_is_ignored() {
    let mut unknown = fifo();
    unknown.delete(thing("baz", 20)).unwrap();
    assert!(unknown.is_empty());
    assert!(unknown.has_synced(), "an ignored change counts as a change");

    let mut known = fifo_with(&Known::new("foo0 bar0 baz0"));
    known.add(thing("foo", 10)).unwrap();
    known.update(thing("bar", 15)).unwrap();
    known.delete(thing("baz", 20)).unwrap();
    known.delete(thing("qux", 1)).unwrap();
    known.delete_unseen(tombstone("qux", None));
    assert_eq!(pops(&mut known), ["A foo10", "U bar15", "D baz20"]);

    let mut queued = fifo_with(&Known::default());
    queued.add(thing("foo", 5)).unwrap();
    queued.delete(thing("foo", 6)).unwrap();
    assert_eq!(pops(&mut queued), ["A foo5, D foo6"]);
}

#[test]
fn d13_replacement_joins_queued_changes() {
    let mut fifo = fifo();
    fifo.add(thing("foo", 10)).unwrap();
    fifo.replace(things("foo15"), "15").unwrap();
    assert_eq!(pops(&mut fifo), ["A foo10, S foo15"]);
}

#[test]
fn d14_d15_d22_resync_delivers_known_unqueued_objects() {
    let mut known = fifo_with(&Known::new("foo5"));
    known.resync().unwrap();
    assert_eq!(pops(&mut known), ["S foo5"]);

    known.delete(thing("foo", 10)).unwrap();
    known.resync().unwrap();
    assert_eq!(pops(&mut known), ["D foo10"]);

    known.update(thing("foo", 6)).unwrap();
    known.resync().unwrap();
    assert_eq!(pops(&mut known), ["U foo6"]);

    let mut unknown = fifo();
    unknown.add(thing("foo", 1)).unwrap();
    unknown.resync().unwrap();
    assert_eq!(pops(&mut unknown), ["A foo1"]);
}

#[test]
fn d17_d18_d19_d20_replacement_deletes_unlisted_objects() {
    let check = |steps: &[fn(&mut Fifo)], expected: &[&str]| {
        for (emit_replaced, kind) in [(false, "S"), (true, "R")] {
            let known = knowing(&Known::new("foo5 bar6 baz7"));
            let mut fifo = DeltaFifo::new(key_of, DeltaFifoConfig { emit_replaced, ..known });
            steps.iter().for_each(|step| step(&mut fifo));
            let expected: Vec<String> =
                expected.iter().map(|deltas| deltas.replace("S ", &format!("{kind} "))).collect();
            assert_eq!(pops(&mut fifo), expected);
        }
    };
    let list: fn(&mut Fifo) = |fifo| fifo.replace(things("foo5"), "0").unwrap();

    // The deletion of the known key `baz` was queued first, so the list adds no tombstone for `baz`.
    check(&[|fifo| fifo.delete(thing("baz", 10)).unwrap(), list], &["D baz10", "S foo5", "D T(bar6)"]);
    // A change of the known key `baz` was queued before the list. The tombstone contains the queued state, which is
    // newer than the known state.
    check(&[|fifo| fifo.add(thing("baz", 10)).unwrap(), list], &["A baz10, D T(baz10)", "S foo5", "D T(bar6)"]);
    check(
        &[|fifo| fifo.delete(thing("bar", 6)).unwrap(), |fifo| fifo.add(thing("bar", 100)).unwrap(), list],
        &["D bar6, A bar100, D T(bar100)", "S foo5", "D T(baz7)"],
    );
    check(
        &[|fifo| fifo.replace(things("bar100 foo5"), "0").unwrap(), list],
        &["S bar100, D T(bar100)", "S foo5, S foo5", "D T(baz7)"],
    );
}

#[test]
fn d28_list_deletes_an_object_known_only_to_queue() {
    let mut fifo = fifo_with(&Known::new("a1 b1 c1"));
    fifo.add(thing("b", 2)).unwrap();
    fifo.add(thing("c", 2)).unwrap();
    fifo.add(thing("d", 2)).unwrap();
    fifo.replace(things("b3 c3 d3"), "3").unwrap();
    assert_eq!(shorthands(fifo.get_by_key(&"a".into()).unwrap()), "D T(a1)");
    fifo.replace(things("b4 c4"), "4").unwrap();
    assert_eq!(pops(&mut fifo), ["A b2, S b3, S b4", "A c2, S c3, S c4", "A d2, S d3, D T(d3)", "D T(a1)"]);
}

#[test]
fn d23_initial_list_ends_with_its_last_key() {
    let mut fifo = fifo_with(&Known::new("foo0 bar0 baz0"));
    fifo.replace(things("foo1"), "0").unwrap();
    fifo.add(thing("late", 1)).unwrap();
    for _ in 0..3 {
        assert!(!fifo.has_synced());
        assert!(fifo.pop().unwrap().is_in_initial_list);
    }
    assert!(!fifo.has_synced(), "the last key is not processed yet");
    fifo.processed();
    assert!(fifo.has_synced());
    assert!(!fifo.pop().unwrap().is_in_initial_list);
}

#[test]
fn d24_keys_keep_their_position() {
    let mut fifo = fifo();
    for next in things("foo10 bar1 foo11 foo13 zab30") {
        fifo.add(next).unwrap();
    }
    let newest = |fifo: &mut Fifo| fifo.pop().unwrap().deltas.newest().object().unwrap().value;
    assert_eq!(newest(&mut fifo), 13);
    fifo.add(thing("foo", 14)).unwrap();
    assert_eq!([newest(&mut fifo), newest(&mut fifo), newest(&mut fifo)], [1, 30, 14]);
}

#[test]
fn d25_deltas_have_the_key_of_the_newest_delta() {
    let fifo = fifo();
    let added = Delta::Added(thing("a", 1));
    let unseen = Delta::Deleted(DeletedObject::Tombstone(tombstone("b", None)));
    assert_eq!(fifo.key_of(&thing("a", 1)).unwrap(), "a");
    assert_eq!(fifo.key_of_delta(&unseen).unwrap(), "b");
    assert_eq!(fifo.key_of_deltas(&Deltas::new(added.clone())).unwrap(), "a");
    assert_eq!(fifo.key_of_deltas(&Deltas::try_from(vec![added, unseen]).unwrap()).unwrap(), "b");
    assert_eq!(Deltas::<String, Thing>::try_from(vec![]), Err(ZeroLengthDeltas));
}

#[test]
fn d26_queue_has_synced_once_first_list_is_processed() {
    let check = |prepare: fn(&mut Fifo), pops: usize, expected: bool| {
        let mut fifo = fifo();
        prepare(&mut fifo);
        (0..pops).for_each(|_| _ = fifo.pop());
        assert!(pops == 0 || !fifo.has_synced(), "the last key is not processed yet");
        fifo.processed();
        assert_eq!(fifo.has_synced(), expected);
    };
    check(|_| {}, 0, false);
    check(|fifo| fifo.add(thing("a", 1)).unwrap(), 0, true);
    check(|fifo| fifo.replace(vec![], "0").unwrap(), 0, true);
    check(|fifo| fifo.replace(things("a1 b2"), "0").unwrap(), 0, false);
    check(|fifo| fifo.replace(things("a1 b2"), "0").unwrap(), 1, false);
    check(|fifo| fifo.replace(things("a1 b2"), "0").unwrap(), 2, true);
    check(|fifo| fifo.replace(things("a1 a2"), "0").unwrap(), 1, true);
}

#[test]
fn popped_deltas_return_unless_newer_ones_exist() {
    let mut fifo = fifo();
    fifo.add(thing("a", 1)).unwrap();
    fifo.add(thing("b", 1)).unwrap();
    let popped = fifo.pop().unwrap();
    fifo.add_if_not_present(popped.deltas.clone()).unwrap();
    fifo.add_if_not_present(popped.deltas).unwrap();
    assert_eq!(pops(&mut fifo), ["A b1", "A a1"]);

    fifo.add(thing("a", 1)).unwrap();
    let popped = fifo.pop().unwrap();
    fifo.update(thing("a", 2)).unwrap();
    fifo.add_if_not_present(popped.deltas).unwrap();
    assert_eq!(pops(&mut fifo), ["U a2"]);
}

#[test]
fn emptied_long_queue_releases_its_memory() {
    let mut fifo = fifo();
    for round in 0..3 {
        // An empty queue frees the memory of 5000 records, but it keeps the memory of 10 records.
        for length in [5000, 10] {
            (0..length).for_each(|number| fifo.add(thing(&format!("t{number}-"), round)).unwrap());
            for number in 0..length {
                assert_eq!(fifo.pop().unwrap().key, format!("t{number}-"));
            }
            assert!(fifo.pop().is_none());
        }
    }
}

#[test]
fn d29_failed_replacement_keeps_preceding_objects() {
    let transform = |thing: Thing| match thing.name.as_str() {
        "bad" => Err("it is bad".into()),
        _ => Ok(thing),
    };
    let config = DeltaFifoConfig { transformer: Some(Box::new(transform)), ..DeltaFifoConfig::default() };
    let mut fifo = DeltaFifo::new(key_of, config);
    let error = fifo.replace(things("a1 bad1 b1"), "0").unwrap_err();
    assert!(matches!(&error, StoreError::Transform(cause) if cause.to_string() == "it is bad"), "{error}");
    assert_eq!(fifo.list_keys(), ["a"]);
    assert!(!fifo.has_synced(), "a failed list does not count as the first list");

    fifo.replace(things("a2 b2"), "0").unwrap();
    assert!(fifo.pop().unwrap().is_in_initial_list);
    assert!(!fifo.has_synced());
    assert!(fifo.pop().unwrap().is_in_initial_list);
    fifo.processed();
    assert!(fifo.has_synced());
}

#[test]
fn object_without_a_key_is_rejected_without_side_effects() {
    let mut fifo = fifo();
    for refused in [fifo.delete(thing("", 1)), fifo.replace(things("1"), "0")] {
        assert!(matches!(refused, Err(StoreError::Key(_))), "{refused:?}");
    }
    assert!(fifo.is_empty() && !fifo.has_synced());

    assert!(fifo.add(thing("", 1)).is_err());
    assert!(fifo.is_empty() && fifo.has_synced(), "a rejected change counts as the first change");
}

#[test]
fn s10_key_error_returns_its_root_cause() {
    let bottom = key_of(&thing("", 1)).unwrap_err();
    let error = KeyError::new(KeyError::new(bottom));
    assert_eq!(error.root_cause().to_string(), "it has no name");
}

#[test]
fn d30_known_object_with_lookup_error_counts_as_present() {
    let failed = Arc::new(Mutex::new(Vec::new()));
    let unreadable = || {
        let (known, log) = (Known { unreadable: true, ..Known::new("foo1") }, failed.clone());
        let record = move |key: &String, _: &BoxError| log.lock().unwrap().push(key.clone());
        DeltaFifo::new(key_of, DeltaFifoConfig { on_lookup_error: Some(Box::new(record)), ..knowing(&known) })
    };
    let mut deleted = unreadable();
    deleted.delete(thing("foo", 2)).unwrap();
    assert_eq!(pops(&mut deleted), ["D foo2"]);

    let mut replaced = unreadable();
    replaced.replace(vec![], "0").unwrap();
    assert_eq!(pops(&mut replaced), ["D T(foo)"]);

    let mut resynced = unreadable();
    resynced.resync().unwrap();
    assert!(resynced.is_empty());
    assert_eq!(*failed.lock().unwrap(), ["foo", "foo", "foo"]);
}

#[test]
fn closed_delta_fifo_returns_remaining_changes() {
    let mut fifo = fifo();
    fifo.add(thing("a", 1)).unwrap();
    fifo.close();
    assert!(fifo.is_closed());
    fifo.add(thing("b", 1)).unwrap();
    assert_eq!(pops(&mut fifo), ["A a1", "A b1"]);
}
