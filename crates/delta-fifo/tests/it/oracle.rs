//! Applies random operations to a queue and to a simple model, and compares the results.

use std::collections::BTreeMap;

use pintle_delta_fifo::{
    Change, CoalescingFifo, DeletedObject, Delivery, Delta, DeltaFifo, DeltaFifoConfig, Deltas, Item, Popped, RealFifo,
    RealFifoConfig,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Known, Thing, fifo_with, key_of, knowing, shorthand, shorthands, thing, tombstone};

#[derive(Clone, Debug)]
enum Operation {
    Add(usize),
    Update(usize),
    Delete(usize),
    DeleteUnseen(usize),
    Replace(Vec<usize>),
    Resync,
    Pop,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let key = || 0..4_usize;
    let operation = prop_oneof![
        3 => key().prop_map(Operation::Add),
        3 => key().prop_map(Operation::Update),
        3 => key().prop_map(Operation::Delete),
        1 => key().prop_map(Operation::DeleteUnseen),
        2 => vec(key(), 0..5).prop_map(Operation::Replace),
        1 => Just(Operation::Resync),
        6 => Just(Operation::Pop),
    ];
    vec(operation, 0..60)
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    let ordered = (0..8_usize).prop_map(|bound| Delivery::Ordered { bound });
    prop_oneof![Just(Delivery::Coalesced), Just(Delivery::Newest), ordered]
}

fn name(key: usize) -> String {
    ["a", "b", "c", "d"][key].to_owned()
}

#[derive(Default)]
struct Model {
    queue: Vec<(String, Vec<Delta<String, Thing>>)>,
    initial: Option<usize>,
}

impl Model {
    fn find(&mut self, name: &str) -> Option<&mut Vec<Delta<String, Thing>>> {
        self.queue.iter_mut().find(|(key, _)| key == name).map(|(_, deltas)| deltas)
    }

    fn append(&mut self, name: &str, delta: Delta<String, Thing>) {
        let Some(deltas) = self.find(name) else { return self.queue.push((name.into(), vec![delta])) };
        deltas.push(delta);
        if let [.., Delta::Deleted(first), Delta::Deleted(_)] = &deltas[..] {
            let superfluous = if first.is_tombstone() { deltas.len() - 2 } else { deltas.len() - 1 };
            deltas.remove(superfluous);
        }
    }

    fn apply(&mut self, operation: &Operation, value: u32, known: &Known) {
        let knows = |name: &String| known.objects.lock().unwrap().get(name).cloned();
        let first = self.initial.is_none();
        match operation {
            Operation::Add(key) => self.append(&name(*key), Delta::Added(thing(&name(*key), value))),
            Operation::Update(key) => self.append(&name(*key), Delta::Updated(thing(&name(*key), value))),
            Operation::Delete(key) | Operation::DeleteUnseen(key) => {
                let name = name(*key);
                if self.find(&name).is_some() || knows(&name).is_some() {
                    let deleted = match operation {
                        Operation::Delete(_) => DeletedObject::Observed(thing(&name, value)),
                        _ => DeletedObject::Tombstone(tombstone(&name, None)),
                    };
                    self.append(&name, Delta::Deleted(deleted));
                }
            }
            Operation::Replace(keys) => {
                keys.iter().for_each(|key| self.append(&name(*key), Delta::Replaced(thing(&name(*key), value))));
                let mut count = 0;
                for key in 0..4 {
                    let name = name(key);
                    if keys.contains(&key) {
                        count += 1;
                        continue;
                    }
                    let queued = self.find(&name).map(|deltas| deltas.last().and_then(|delta| delta.object().cloned()));
                    if let Some(object) = queued.or_else(|| knows(&name).map(Some)) {
                        count += 1;
                        self.append(&name, Delta::Deleted(DeletedObject::Tombstone(tombstone(&name, object))));
                    }
                }
                self.initial.get_or_insert(count);
            }
            Operation::Resync => {
                let objects = known.objects.lock().unwrap().clone();
                for (name, object) in objects {
                    if self.find(&name).is_none() {
                        self.append(&name, Delta::Sync(object));
                    }
                }
            }
            Operation::Pop => {}
        }
        if first && !matches!(operation, Operation::Replace(_) | Operation::Resync | Operation::Pop) {
            self.initial = Some(0);
        }
    }
}

fn apply(fifo: &mut DeltaFifo<String, Thing>, operation: &Operation, value: u32) {
    match operation {
        Operation::Add(key) => fifo.add(thing(&name(*key), value)).unwrap(),
        Operation::Update(key) => fifo.update(thing(&name(*key), value)).unwrap(),
        Operation::Delete(key) => fifo.delete(thing(&name(*key), value)).unwrap(),
        Operation::DeleteUnseen(key) => fifo.delete_unseen(tombstone(&name(*key), None)),
        Operation::Replace(keys) => {
            fifo.replace(keys.iter().map(|key| thing(&name(*key), value)).collect(), "0").unwrap();
        }
        Operation::Resync => fifo.resync().unwrap(),
        Operation::Pop => {}
    }
}

/// Applies an operation to `truth`, which contains the producer's objects.
fn happen(truth: &mut BTreeMap<String, Thing>, operation: &Operation, value: u32) {
    match operation {
        Operation::Add(key) | Operation::Update(key) => _ = truth.insert(name(*key), thing(&name(*key), value)),
        Operation::Delete(key) | Operation::DeleteUnseen(key) => _ = truth.remove(&name(*key)),
        Operation::Replace(keys) => *truth = keys.iter().map(|key| (name(*key), thing(&name(*key), value))).collect(),
        Operation::Resync | Operation::Pop => {}
    }
}

proptest! {
    #[test]
    fn queue_matches_the_model(operations in operations()) {
        let known = Known::default();
        let config = DeltaFifoConfig { emit_replaced: true, ..knowing(&known) };
        let (mut fifo, mut model) = (DeltaFifo::new(key_of, config), Model::default());
        for (value, operation) in (0..).zip(&operations) {
            model.apply(operation, value, &known);
            apply(&mut fifo, operation, value);
            if let Operation::Pop = operation {
                let expected = (!model.queue.is_empty()).then(|| model.queue.remove(0));
                let popped = fifo.pop();
                if let (Some(popped), Some((key, deltas))) = (&popped, &expected) {
                    prop_assert_eq!(&popped.key, key);
                    prop_assert_eq!(&Vec::from(popped.deltas.clone()), deltas);
                    prop_assert_eq!(popped.is_in_initial_list, model.initial != Some(0));
                    known.apply(popped);
                    fifo.processed();
                    model.initial = model.initial.map(|left| left.saturating_sub(1));
                }
                prop_assert_eq!(popped.is_some(), expected.is_some());
            }
            // Sort the keys before comparing them, because the order of inferred deletions is unspecified.
            let mut left: Vec<_> = fifo.list_keys();
            let mut right: Vec<_> = model.queue.iter().map(|(key, _)| key.clone()).collect();
            left.sort();
            right.sort();
            prop_assert_eq!(left, right);
            for (key, deltas) in &model.queue {
                let expected: Vec<String> = deltas.iter().map(shorthand).collect();
                prop_assert_eq!(fifo.get_by_key(key).map(shorthands), Some(expected.join(", ")));
            }
            prop_assert_eq!(fifo.has_synced(), model.initial == Some(0));
            // Use the queue's order of keys in the model, because the order of inferred deletions is unspecified.
            let order = fifo.list_keys();
            model.queue.sort_by_key(|(key, _)| order.iter().position(|other| other == key));
        }
    }

    #[test]
    fn applying_all_deltas_yields_the_source_state(operations in operations()) {
        let known = Known::default();
        let (mut fifo, mut truth) = (fifo_with(&known), BTreeMap::new());
        for (value, operation) in (0..).zip(&operations) {
            happen(&mut truth, operation, value);
            apply(&mut fifo, operation, value);
            if let Operation::Pop = operation && let Some(popped) = fifo.pop() {
                known.apply(&popped);
            }
        }
        while let Some(popped) = fifo.pop() {
            known.apply(&popped);
        }
        prop_assert_eq!(&*known.objects.lock().unwrap(), &truth);
    }

    #[test]
    fn applying_all_items_yields_the_source_state(operations in operations(), most in 1..5_usize) {
        let known = Known::default();
        let config = RealFifoConfig { known_objects: Some(Box::new(known.clone())), ..RealFifoConfig::default() };
        let (mut fifo, mut truth) = (RealFifo::new(key_of, config), BTreeMap::new());
        let take = |fifo: &mut RealFifo<String, Thing>| {
            let Some(batch) = fifo.pop_batch(most) else { return Ok(false) };
            prop_assert!(batch.items.len() <= most);
            let mut keys: Vec<_> = batch.items.iter().filter_map(Item::key).collect();
            keys.sort();
            keys.dedup();
            prop_assert_eq!(keys.len(), batch.items.len(), "the keys of a batch are distinct");
            for item in batch.items {
                let Item::One { key, delta } = item else { panic!("{item:?} from a queue with known objects") };
                known.apply(&Popped { key, deltas: Deltas::new(delta), is_in_initial_list: batch.is_in_initial_list });
            }
            Ok(true)
        };
        for (value, operation) in (0..).zip(&operations) {
            happen(&mut truth, operation, value);
            match operation {
                Operation::Add(key) => fifo.add(thing(&name(*key), value)).unwrap(),
                Operation::Update(key) => fifo.update(thing(&name(*key), value)).unwrap(),
                Operation::Delete(key) => fifo.delete(thing(&name(*key), value)).unwrap(),
                Operation::DeleteUnseen(key) => fifo.delete_unseen(tombstone(&name(*key), None)),
                Operation::Replace(keys) => {
                    fifo.replace(keys.iter().map(|key| thing(&name(*key), value)).collect(), "0").unwrap();
                }
                Operation::Resync => fifo.resync(),
                Operation::Pop => _ = take(&mut fifo)?,
            }
        }
        while take(&mut fifo)? {}
        prop_assert_eq!(&*known.objects.lock().unwrap(), &truth);
        prop_assert!(fifo.has_synced() || truth.is_empty());
    }

    #[test]
    fn applying_all_listener_changes_yields_the_source_state(operations in operations(), delivery in deliveries()) {
        // Two states belong to the same object if their names and their values divided by 100 are equal.
        let mut fifo = CoalescingFifo::new(|old: &Thing, new: &Thing| old.value / 100 == new.value / 100, delivery);
        let (mut truth, mut known) = (BTreeMap::<String, Thing>::new(), BTreeMap::<String, Thing>::new());
        let mut lives = 0;
        let take = |fifo: &mut CoalescingFifo<String, Thing>, known: &mut BTreeMap<String, Thing>| {
            let Some((key, change)) = fifo.pop() else { return Ok(false) };
            match change {
                Change::Added { object, .. } => prop_assert_eq!(known.insert(key, object), None),
                Change::Updated { old, new } => {
                    let before = known.insert(key, new.clone());
                    let same = before.as_ref().is_some_and(|before| before.value / 100 == new.value / 100);
                    prop_assert!(same, "an update does not change the identity");
                    prop_assert_eq!(old, before.filter(|_| delivery != Delivery::Newest));
                }
                Change::Deleted { object, final_state_known } => {
                    let before = known.remove(&key);
                    let before = before.map(|before| before.value).ok_or_else(|| TestCaseError::fail("it is unknown"))?;
                    let is_next = [0, 1].contains(&object.value.wrapping_sub(before));
                    prop_assert!(is_next || delivery == Delivery::Newest, "the listener received all updates before");
                    let same = before / 100 == object.value / 100;
                    prop_assert!(same, "the deletion has the identity of the known object");
                    prop_assert_eq!(final_state_known, !object.value.is_multiple_of(2), "observed deletions stay observed");
                }
            }
            Ok(true)
        };
        for operation in &operations {
            match operation {
                Operation::Add(key) | Operation::Update(key) => {
                    let name = name(*key);
                    match truth.get(&name).cloned() {
                        Some(old) => {
                            let new = thing(&name, old.value + 2);
                            truth.insert(name.clone(), new.clone());
                            fifo.updated(name, old, new);
                        }
                        None => {
                            lives += 1;
                            let new = thing(&name, lives * 100);
                            truth.insert(name.clone(), new.clone());
                            fifo.added(name, new, false);
                        }
                    }
                }
                Operation::Delete(key) => {
                    if let Some(old) = truth.remove(&name(*key)) {
                        let last = thing(&old.name, old.value + 1);
                        fifo.deleted(name(*key), old, last, true);
                    }
                }
                Operation::DeleteUnseen(key) => {
                    if let Some(old) = truth.remove(&name(*key)) {
                        fifo.deleted(name(*key), old.clone(), old, false);
                    }
                }
                Operation::Replace(_) => {}
                Operation::Resync => truth.iter().for_each(|(key, object)| fifo.sync(key.clone(), object.clone())),
                Operation::Pop => _ = take(&mut fifo, &mut known)?,
            }
            let bound = if let Delivery::Ordered { bound } = delivery { bound } else { 0 };
            prop_assert!(fifo.len() <= bound + 4, "beyond the bound, at most one entry per key");
        }
        while take(&mut fifo, &mut known)? {}
        prop_assert_eq!(known, truth);
    }
}
