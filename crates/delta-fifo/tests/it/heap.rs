//! Tests of `Heap`: order, updates, deletions, adding many objects at once, and closing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pintle_delta_fifo::{Heap, SharedFifo, SharedFifoConfig, StoreError};

use crate::support::{Thing, key_of, thing, things};

fn heap(text: &str) -> Heap<String, Thing> {
    let mut heap = Heap::new(key_of, |left: &Thing, right: &Thing| left.value < right.value);
    heap.bulk_add(things(text)).unwrap();
    heap
}

fn pops(heap: &mut Heap<String, Thing>) -> Vec<Thing> {
    std::iter::from_fn(|| heap.pop()).collect()
}

#[test]
fn s12_least_item_comes_first_with_concurrent_producers() {
    let fifo = Arc::new(SharedFifo::new(heap(""), SharedFifoConfig::default()));
    let producers = [0, 1].map(|side| {
        let fifo = fifo.clone();
        thread::spawn(move || {
            for number in 0..250 {
                let value = (number * 7919 % 250) * 2 + side;
                fifo.lock().add(thing(&format!("t{side}-{number}-"), value)).unwrap();
            }
        })
    });
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    let values: Vec<u32> = (0..500).map(|_| fifo.take(Heap::pop).wait().unwrap().popped.value).collect();
    assert_eq!(values, (0..500).collect::<Vec<_>>());
}

#[test]
fn s12_update_moves_an_item() {
    let mut heap = heap("a10 b20 c30 d40");
    heap.add(thing("d", 1)).unwrap();
    heap.add(thing("a", 50)).unwrap();
    assert_eq!(heap.peek(), Some(&thing("d", 1)));
    assert_eq!(pops(&mut heap), things("d1 b20 c30 a50"));
}

#[test]
fn s12_delete_removes_any_item_or_returns_none() {
    for (gone, left) in [("a", "b20 c30 d40"), ("b", "a10 c30 d40"), ("d", "a10 b20 c30")] {
        let mut heap = heap("d40 a10 c30 b20");
        assert_eq!(heap.delete(&thing(gone, 0)).unwrap().map(|thing| thing.name).as_deref(), Some(gone));
        assert_eq!(heap.delete(&thing(gone, 0)).unwrap(), None);
        assert_eq!(pops(&mut heap), things(left));
    }
    assert!(heap("a1").delete(&thing("", 0)).is_err());
}

#[test]
fn s12_bulk_add_is_all_or_nothing() {
    let mut heap = heap("a10");
    assert!(matches!(heap.bulk_add(things("b20 1")), Err(StoreError::Key(_))));
    assert_eq!(heap.list(), things("a10"));
    heap.bulk_add(things("c5 b20 a30")).unwrap();
    assert_eq!(pops(&mut heap), things("c5 b20 a30"));
}

#[test]
fn s12_add_if_not_present_keeps_the_existing_item() {
    let mut heap = heap("a10");
    heap.add_if_not_present(thing("a", 1)).unwrap();
    heap.add_if_not_present(thing("b", 2)).unwrap();
    assert_eq!(
        (heap.get(&thing("a", 0)).unwrap(), heap.get_by_key(&"b".into())),
        (Some(&thing("a", 10)), Some(&thing("b", 2)))
    );
    assert_eq!(heap.get_by_key(&"c".into()), None);
    let mut keys = heap.list_keys();
    keys.sort();
    assert_eq!((keys, heap.len()), (vec!["a".to_owned(), "b".to_owned()], 2));
}

#[test]
fn s12_closed_heap_returns_items_and_rejects_new_ones() {
    let mut heap = heap("a10");
    heap.close();
    assert!(heap.is_closed());
    for refused in [heap.add(thing("b", 1)), heap.add_if_not_present(thing("a", 1)), heap.bulk_add(things("c1 d2"))] {
        assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    }
    let fifo = SharedFifo::new(heap, SharedFifoConfig::default());
    assert_eq!(fifo.take(Heap::pop).wait().unwrap().popped, thing("a", 10));
    assert!(fifo.take(Heap::pop).wait().is_err());
}

#[test]
fn panicking_comparison_leaves_the_heap_consistent() {
    let calls = Arc::new(AtomicUsize::new(usize::MAX));
    let less = {
        let calls = Arc::clone(&calls);
        move |left: &(u32, u32), right: &(u32, u32)| {
            assert_ne!(calls.fetch_sub(1, Ordering::Relaxed), 0, "no comparisons");
            left.1 < right.1
        }
    };
    let mut heap = Heap::new(|&(name, _): &(u32, u32)| Ok(name), less);
    for round in 0..200 {
        let fails = |heap: &mut Heap<u32, (u32, u32)>| {
            let number = round * 7919 % 101;
            match round % 4 {
                0 => heap.add((1000, number)).unwrap(),
                1 => heap.add((round % 40, number)).unwrap(),
                2 => _ = heap.delete(&(round % 40, 0)).unwrap(),
                _ => _ = heap.pop(),
            }
        };
        heap.bulk_add((0..40).map(|name| (name, name * 31 % 97)).collect()).unwrap();
        let mut before = heap.list();
        calls.store(round as usize % 6, Ordering::Relaxed);
        let panicked = catch_unwind(AssertUnwindSafe(|| fails(&mut heap))).is_err();
        calls.store(usize::MAX, Ordering::Relaxed);
        let mut after: Vec<_> = std::iter::from_fn(|| heap.pop()).collect();
        assert!(after.is_sorted_by_key(|object| object.1), "round {round}: {after:?}");
        if panicked {
            before.sort_unstable();
            after.sort_unstable();
            assert_eq!(before, after, "round {round}");
        }
    }
}
