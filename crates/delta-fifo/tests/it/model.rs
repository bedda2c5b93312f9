//! Applies random operations to a queue and to a plain list, and compares the results.

use pintle_delta_fifo::{DeletedObject, Delta, Heap, Item, LatestFifo, RealFifo, RealFifoConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Known, Thing, key_of, shorthand, thing, tombstone};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Operation {
    Add(&'static str),
    Delete(&'static str),
    Replace(Vec<&'static str>),
    Resync,
    Pop(usize),
    Processed,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let name = || (0..NAMES.len()).prop_map(|name| NAMES[name]);
    let operation = prop_oneof![
        5 => name().prop_map(Operation::Add),
        3 => name().prop_map(Operation::Delete),
        1 => vec(name(), 0..5).prop_map(Operation::Replace),
        1 => Just(Operation::Resync),
        4 => (1..4_usize).prop_map(Operation::Pop),
        1 => Just(Operation::Processed),
    ];
    vec(operation, 0..80)
}

#[derive(Default)]
struct Initial {
    left: Option<usize>,
    in_process: usize,
}

impl Initial {
    fn processed(&mut self) {
        let done = std::mem::take(&mut self.in_process);
        self.left = self.left.map(|left| left.saturating_sub(done));
    }
}

fn check_real_fifo(operations: &[Operation]) -> Result<(), TestCaseError> {
    let known = Known::new("a90 c90");
    let config = RealFifoConfig { known_objects: Some(Box::new(known.clone())), ..RealFifoConfig::default() };
    let mut fifo = RealFifo::new(key_of, config);
    let (mut model, mut initial) = (Vec::<(&str, Delta<String, Thing>)>::new(), Initial::default());
    let knows = |name: &str| known.objects.lock().unwrap().get(name).cloned();
    for (value, operation) in (0..).zip(operations) {
        match operation {
            Operation::Add(name) => {
                fifo.add(thing(name, value)).unwrap();
                model.push((name, Delta::Added(thing(name, value))));
                initial.left.get_or_insert(0);
            }
            Operation::Delete(name) => {
                fifo.delete(thing(name, value)).unwrap();
                model.push((name, Delta::Deleted(DeletedObject::Observed(thing(name, value)))));
                initial.left.get_or_insert(0);
            }
            Operation::Replace(names) => {
                fifo.replace(names.iter().map(|name| thing(name, value)).collect(), "0").unwrap();
                let mut queued: Vec<&str> = Vec::new();
                model.iter().for_each(|(name, _)| {
                    if !queued.contains(name) {
                        queued.push(name)
                    }
                });
                let only_known = NAMES.iter().filter(|name| !queued.contains(name) && knows(name).is_some());
                let gone: Vec<(&str, Option<Thing>)> = queued
                    .iter()
                    .chain(only_known)
                    .filter(|name| !names.contains(name))
                    .filter_map(|name| match model.iter().rfind(|(other, _)| other == name) {
                        Some((_, Delta::Deleted(_))) => None,
                        Some((_, delta)) => Some((*name, delta.object().cloned())),
                        None => Some((*name, knows(name))),
                    })
                    .collect();
                for (name, object) in gone {
                    model.push((name, Delta::Deleted(DeletedObject::Tombstone(tombstone(name, object)))));
                }
                model.extend(names.iter().map(|name| (*name, Delta::Replaced(thing(name, value)))));
                initial.left.get_or_insert(model.len());
            }
            Operation::Resync => {
                fifo.resync();
                for name in NAMES {
                    if let Some(object) = knows(name)
                        && model.iter().all(|(other, _)| *other != name)
                    {
                        model.push((name, Delta::Sync(object)));
                    }
                }
            }
            Operation::Pop(most) => {
                initial.processed();
                let room = initial.left.filter(|left| *left > 0).map_or(*most, |left| left.min(*most));
                let names: Vec<&str> = model.iter().map(|(name, _)| *name).take(room).collect();
                let apart = (0..names.len()).find(|at| names[..*at].contains(&names[*at])).unwrap_or(names.len());
                let expected: Vec<String> = model.drain(..apart).map(|(_, delta)| shorthand(&delta)).collect();
                let batch = fifo.pop_batch(*most);
                let is_initial = batch.as_ref().map(|batch| batch.is_in_initial_list);
                prop_assert_eq!(is_initial, (apart > 0).then_some(initial.left != Some(0)));
                let items = batch.into_iter().flat_map(|batch| batch.items).map(|item| match item {
                    Item::One { delta, .. } => shorthand(&delta),
                    other => format!("{other:?}"),
                });
                prop_assert_eq!(items.collect::<Vec<_>>(), expected);
                initial.in_process = apart;
            }
            Operation::Processed => {
                fifo.processed();
                initial.processed();
            }
        }
        prop_assert_eq!((fifo.len(), fifo.has_synced()), (model.len(), initial.left == Some(0)));
    }
    Ok(())
}

fn check_latest_fifo(operations: &[Operation]) -> Result<(), TestCaseError> {
    let mut fifo = LatestFifo::new(key_of);
    let (mut model, mut populated, mut in_process) = (Vec::<(Thing, bool)>::new(), false, false);
    for (value, operation) in (0..).zip(operations) {
        let is_synced = populated && !in_process && model.iter().all(|(_, is_initial)| !is_initial);
        match operation {
            Operation::Add(name) => {
                fifo.update(thing(name, value)).unwrap();
                match model.iter_mut().find(|(object, _)| object.name == *name) {
                    Some((object, _)) => object.value = value,
                    None => model.push((thing(name, value), false)),
                }
                populated = true;
            }
            Operation::Delete(name) => {
                fifo.delete(thing(name, value)).unwrap();
                model.retain(|(object, _)| object.name != *name);
                populated = true;
            }
            Operation::Replace(names) => {
                fifo.replace(names.iter().map(|name| thing(name, value)).collect(), "0").unwrap();
                model.clear();
                for name in names {
                    if model.iter().all(|(object, _)| object.name != *name) {
                        model.push((thing(name, value), !is_synced));
                    }
                }
                populated = true;
            }
            Operation::Resync => {}
            Operation::Pop(_) => {
                let is_synced = populated && model.iter().all(|(_, is_initial)| !is_initial);
                let expected = (!model.is_empty()).then(|| model.remove(0));
                let popped = fifo.pop();
                let is_in_initial_list = popped.as_ref().map(|latest| latest.is_in_initial_list);
                prop_assert_eq!(is_in_initial_list, expected.as_ref().map(|_| !is_synced));
                in_process = expected.as_ref().is_some_and(|(_, is_initial)| *is_initial);
                prop_assert_eq!(popped.map(|latest| latest.object), expected.map(|(object, _)| object));
            }
            Operation::Processed => {
                fifo.processed();
                in_process = false;
            }
        }
        let is_synced = populated && !in_process && model.iter().all(|(_, is_initial)| !is_initial);
        prop_assert_eq!(fifo.has_synced(), is_synced);
        prop_assert_eq!(fifo.list(), model.iter().map(|(object, _)| object.clone()).collect::<Vec<_>>());
    }
    Ok(())
}

proptest! {
    #[test]
    fn real_fifo_matches_the_model(operations in operations()) {
        check_real_fifo(&operations)?;
    }

    #[test]
    fn latest_fifo_matches_the_model(operations in operations()) {
        check_latest_fifo(&operations)?;
    }

    #[test]
    fn heap_matches_a_sorted_list(operations in vec((0..4_u8, 0..12_u32, 0..1000_u32), 0..100)) {
        let mut heap = Heap::new(key_of, |left: &Thing, right: &Thing| left.value < right.value);
        let mut model = Vec::<Thing>::new();
        for (kind, name, value) in operations {
            // All values differ, which makes the heap's order unambiguous.
            let object = thing(&format!("n{name}-"), value * 12 + name);
            let at = model.iter().position(|other| other.name == object.name);
            match kind {
                0 | 1 => {
                    heap.add(object.clone()).unwrap();
                    at.map(|at| model.remove(at));
                    model.push(object);
                }
                2 => prop_assert_eq!(heap.delete(&object).unwrap(), at.map(|at| model.remove(at))),
                _ => {
                    model.sort_by_key(|object| object.value);
                    prop_assert_eq!(heap.pop(), (!model.is_empty()).then(|| model.remove(0)));
                }
            }
            model.sort_by_key(|object| object.value);
            prop_assert_eq!((heap.len(), heap.peek()), (model.len(), model.first()));
        }
    }
}
