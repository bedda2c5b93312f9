//! Compares the store with a model that keeps every past state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use pintle_meta::ObjectKey;
use proptest::prelude::*;
use proptest::sample::Index;

use super::shard::Shard;
use super::{NAMESPACES, Pages, Pin, Store, Write};
use crate::catch_drop::CatchDrop;

const WORDS: u32 = 1;

struct Counted {
    text: String,
    alive: Arc<AtomicIsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

type Value = CatchDrop<Counted>;

impl super::Value for Value {
    fn warm(&self) -> bool {
        Arc::strong_count(self) > 0
    }
}

/// The value of each key in the model, as a list of words.
type State = BTreeMap<ObjectKey, String>;

/// A random step of the test. Keys are `a/0` to `c/5`, or `0` to `5` without a namespace. Values consist of some of
/// the words `x y z u v`.
#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(ObjectKey, Option<String>)>),
    Replace(Vec<(ObjectKey, String)>),
    Pin,
    Clone(Index),
    Unpin(Index),
    List,
    DropList(Index),
}

fn key() -> impl Strategy<Value = ObjectKey> {
    (0..4usize, 0..6u32).prop_map(|(namespace, name)| ObjectKey::new(["", "a", "b", "c"][namespace], &name.to_string()))
}

fn words() -> impl Strategy<Value = String> {
    prop::sample::subsequence(vec!["x", "y", "z", "u", "v"], 0..5).prop_map(|words| words.join(" "))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((key(), prop::option::weighted(0.7, words())), 0..6).prop_map(Step::Write),
        1 => prop::collection::btree_map(key(), words(), 0..12).prop_map(|all| Step::Replace(all.into_iter().collect())),
        3 => Just(Step::Pin),
        1 => any::<Index>().prop_map(Step::Clone),
        3 => any::<Index>().prop_map(Step::Unpin),
        2 => Just(Step::List),
        2 => any::<Index>().prop_map(Step::DropList),
    ]
}

struct Model {
    store: Arc<Store<Value>>,
    alive: Arc<AtomicIsize>,
    state: State,
    pins: Vec<(Pin<Value>, State)>,
    lists: Vec<(Pages<Value>, State)>,
}

impl Model {
    fn write(&self, key: ObjectKey, words: Option<&str>) -> Write<Value> {
        let values = words.into_iter().flat_map(str::split_whitespace).map(|word| (WORDS, word.to_owned())).collect();
        let value = words.map(|text| {
            self.alive.fetch_add(1, Ordering::Relaxed);
            Arc::new(Counted { text: text.into(), alive: self.alive.clone() }).into()
        });
        Write { key, value, values }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Write(changes) => {
                let writes = changes.iter().map(|(key, words)| self.write(key.clone(), words.as_deref()));
                let before = self.store.writer().write_all(writes.collect(), |_| {});
                for ((key, words), before) in changes.into_iter().zip(before) {
                    let known = match words {
                        Some(words) => self.state.insert(key, words),
                        None => self.state.remove(&key),
                    };
                    prop_assert_eq!(before.map(|value| value.text.clone()), known);
                }
            }
            Step::Replace(all) => {
                let writes = all.iter().map(|(key, words)| match self.store.get(key) {
                    Some(known) if known.text == *words => {
                        Write { key: key.clone(), value: Some(known), values: vec![] }
                    }
                    _ => self.write(key.clone(), Some(words)),
                });
                let replaced = self.store.writer().replace(
                    writes.collect(),
                    |_| true,
                    |one, other| Arc::ptr_eq(one, other),
                    |_| {},
                );
                let known = std::mem::replace(&mut self.state, all.iter().cloned().collect());
                let deleted: BTreeSet<_> = replaced.deleted.into_iter().map(|(key, _)| key).collect();
                let gone = known.keys().filter(|key| !self.state.contains_key(*key));
                prop_assert_eq!(deleted, gone.cloned().collect());
                for ((key, _), before) in all.iter().zip(replaced.before) {
                    prop_assert_eq!(before.map(|value| value.text.clone()), known.get(key).cloned());
                }
            }
            Step::Pin => self.pins.push((self.store.pin(|_| ()).0, self.state.clone())),
            Step::Clone(_) | Step::Unpin(_) if self.pins.is_empty() => {}
            Step::Clone(which) => {
                let (pin, state) = &self.pins[which.index(self.pins.len())];
                self.pins.push((pin.clone(), state.clone()));
            }
            Step::Unpin(which) => drop(self.pins.swap_remove(which.index(self.pins.len()))),
            Step::List => self.lists.push((self.store.pin(|_| ()).0.pages(), self.state.clone())),
            Step::DropList(_) if self.lists.is_empty() => {}
            Step::DropList(which) => drop(self.lists.swap_remove(which.index(self.lists.len()))),
        }
        Ok(())
    }

    /// Checks that each pin and each list contains the state in which it was created. The method also checks that no
    /// other values are in memory, except in the pages of the lists.
    fn check(&self) -> Result<(), TestCaseError> {
        let now = (self.store.pin(|_| ()).0, self.state.clone());
        for (pin, state) in self.pins.iter().chain([&now]) {
            check_pin(pin, state)?;
        }
        for (list, state) in &self.lists {
            check_list(list, state)?;
        }
        for (pin, state) in &self.pins {
            let shown = now.0.differences(pin).into_iter().map(|(key, old, new)| {
                let text = |value: Option<Value>| value.map(|value| value.text.clone());
                (key, (text(old), text(new)))
            });
            let shown: BTreeMap<_, _> = shown.filter(|(_, (old, new))| old != new).collect();
            let keys: BTreeSet<_> = state.keys().chain(self.state.keys()).cloned().collect();
            let expected = keys.into_iter().map(|key| {
                let both = (state.get(&key).cloned(), self.state.get(&key).cloned());
                (key, both)
            });
            prop_assert_eq!(shown, expected.filter(|(_, (old, new))| old != new).collect());
        }
        let mut shown: BTreeSet<*const Counted> = BTreeSet::new();
        for (pin, _) in self.pins.iter().chain([&now]) {
            pin.visit(|value| _ = shown.insert(Arc::as_ptr(value)));
        }
        self.lists.iter().for_each(|(list, _)| list.each_version(|value| _ = shown.insert(Arc::as_ptr(value))));
        prop_assert_eq!(self.alive.load(Ordering::Relaxed), shown.len() as isize, "number of values in memory");
        Ok(())
    }
}

fn check_pin(pin: &Pin<Value>, state: &State) -> Result<(), TestCaseError> {
    let mut seen = State::new();
    pin.visit_keys(|key, stamp, value| {
        assert!(stamp <= pin.stamp());
        assert!(seen.insert(key.clone(), value.text.clone()).is_none(), "{key} comes twice");
    });
    prop_assert_eq!(&seen, state);
    prop_assert_eq!(pin.len(), state.len());
    for (key, words) in state {
        prop_assert_eq!(pin.get(key).map(|value| value.text.clone()), Some(words.clone()));
    }
    prop_assert!(pin.get(&ObjectKey::new("a", "none")).is_none());
    check_index(pin, WORDS, state, |_, words| words.split_whitespace().map(str::to_owned).collect())?;
    check_index(pin, NAMESPACES, state, |key, _| key.namespace().map(str::to_owned).into_iter().collect())
}

fn check_list(list: &Pages<Value>, state: &State) -> Result<(), TestCaseError> {
    let (mut slot, mut seen) = (0, Vec::new());
    while let Some(value) = list.next(&mut slot) {
        prop_assert!(list.at(slot - 1).is_some_and(|at| Arc::ptr_eq(at, value)));
        seen.push(value.text.clone());
    }
    seen.sort_unstable();
    let mut expected: Vec<String> = state.values().cloned().collect();
    expected.sort_unstable();
    prop_assert_eq!((list.len(), seen), (state.len(), expected));
    Ok(())
}

fn check_index(
    pin: &Pin<Value>,
    index: u32,
    state: &State,
    values: impl Fn(&ObjectKey, &str) -> Vec<String>,
) -> Result<(), TestCaseError> {
    let mut expected: BTreeMap<String, BTreeSet<ObjectKey>> = BTreeMap::new();
    for (key, words) in state {
        for value in values(key, words) {
            expected.entry(value).or_default().insert(key.clone());
        }
    }
    prop_assert_eq!(pin.values_of(index), expected.keys().cloned().collect::<Vec<_>>());
    for (value, keys) in expected {
        let found = pin.of_term(index, &value, |key, _| key.cloned());
        prop_assert_eq!(found.len(), keys.len(), "each once");
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), keys);
    }
    prop_assert!(pin.of_term(index, "none", |_, _| Some(())).is_empty());
    Ok(())
}

fn sum(store: &Store<Value>, count: impl Fn(&Shard<Value>) -> usize) -> usize {
    store.shards.iter().map(|shard| count(&shard.read())).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pinned_states_are_kept_and_others_freed(
        shards in 1usize..5,
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let (store, alive) = (Arc::new(Store::new(shards)), Arc::default());
        let mut model = Model { store, alive, state: State::new(), pins: Vec::new(), lists: Vec::new() };
        for step in steps {
            model.take(step)?;
            model.check()?;
        }
        model.pins.clear();
        model.lists.clear();
        model.check()?;
        // After the last pin is dropped, the store contains no pins and no superseded versions.
        prop_assert!(model.store.now.lock().is_unpinned());
        prop_assert_eq!(sum(&model.store, Shard::versions), model.state.len());
        model.take(Step::Replace(Vec::new()))?;
        prop_assert_eq!(sum(&model.store, Shard::versions), 0);
        prop_assert_eq!(sum(&model.store, |shard| shard.terms.len()), 0);
        prop_assert_eq!(sum(&model.store, Shard::pages), 0);
    }
}

/// Records that get an index value after a pin is created must not hide an older record with this value from the pin.
#[test]
fn old_index_values_are_found_among_many_later_ones() {
    let store = Arc::new(Store::new(1));
    let alive: Arc<AtomicIsize> = Arc::default();
    let mut model = Model { store: store.clone(), alive, state: State::new(), pins: Vec::new(), lists: Vec::new() };
    let all = |names: std::ops::Range<u32>, words: &str| -> Step {
        Step::Write(names.map(|name| (ObjectKey::new("a", &name.to_string()), Some(words.to_owned()))).collect())
    };
    model.take(all(0..1000, "z")).unwrap();
    model.take(Step::Pin).unwrap();
    model.take(all(999..1000, "x")).unwrap();
    model.take(Step::Pin).unwrap();
    model.take(all(0..999, "x y")).unwrap();
    model.check().unwrap();
    let values: Vec<_> = model.pins.iter().map(|(pin, _)| pin.values_of(WORDS).concat()).collect();
    assert_eq!(values, ["z", "xz"]);
}

/// Prints the longest critical sections of a shard with 250,000 objects. In a store with four shards and a million
/// objects, each shard has 250,000 objects.
#[test]
#[ignore = "needs a release build; `cargo xtask ci --only pauses` runs it"]
#[expect(clippy::print_stdout, reason = "the printed times are the result")]
fn longest_section_of_a_large_shard() {
    const OBJECTS: u32 = 250_000;
    // Repeat each step with new stores and use the shortest time, to ignore other load on the machine.
    let mut quickest = vec![std::time::Duration::MAX; 4 * OBJECTS as usize];
    for _ in 0..5 {
        let store = Arc::new(Store::new(1));
        let mut times = quickest.iter_mut();
        let mut timed = |step: &mut dyn FnMut()| {
            let began = std::time::Instant::now();
            step();
            let took = began.elapsed();
            times.next().into_iter().for_each(|quickest| *quickest = took.min(*quickest));
        };
        let alive: Arc<AtomicIsize> = Arc::default();
        let write = |name: u32, words: Option<&str>| {
            let value: Option<Value> =
                words.map(|text| Arc::new(Counted { text: text.into(), alive: alive.clone() }).into());
            let values = words.into_iter().map(|word| (WORDS, word.to_owned())).collect();
            Write { key: ObjectKey::new("a", &name.to_string()), value, values }
        };
        let mut pin = None;
        for round in ["x", "y", "z"] {
            for name in 0..OBJECTS {
                let mut next = Some(write(name, Some(&format!("{round}{name}"))));
                timed(&mut || next.take().into_iter().for_each(|next| drop(store.writer().write(next, |_| {}))));
            }
            // A pin during the second round makes the store keep all previous versions.
            pin = if pin.is_none() { Some(store.pin(|_| ()).0) } else { None };
        }
        for name in 0..OBJECTS {
            let mut next = Some(write(name, None));
            timed(&mut || next.take().into_iter().for_each(|next| drop(store.writer().write(next, |_| {}))));
        }
        drop(pin);
    }
    for (what, times) in ["put in", "kept", "superseded", "deleted"].iter().zip(quickest.chunks(OBJECTS as usize)) {
        let mut slowest: Vec<_> = times.to_vec();
        slowest.sort_unstable_by(|one, other| other.cmp(one));
        println!("{what}: {:?}", &slowest[..5]);
        assert!(slowest[0] < std::time::Duration::from_millis(1), "readers wait for {:?}", slowest[0]);
    }
}
