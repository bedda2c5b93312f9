//! Test objects with a name and a number, and a short notation for their deltas.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pintle_delta_fifo::{
    BoxError, DeletedFinalStateUnknown, DeletedObject, Delta, DeltaFifo, DeltaFifoConfig, Deltas, KeyError, KeyGetter,
    KeyLister, Popped,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) name: String,
    pub(crate) value: u32,
}

pub(crate) fn thing(name: &str, value: u32) -> Thing {
    Thing { name: name.into(), value }
}

/// Parses objects, for example `things("foo5 bar6")`.
pub(crate) fn things(text: &str) -> Vec<Thing> {
    let parse = |word: &str| {
        let at = word.find(|letter: char| letter.is_ascii_digit()).unwrap_or(word.len());
        thing(&word[..at], word[at..].parse().unwrap_or_default())
    };
    text.split_whitespace().map(parse).collect()
}

pub(crate) fn key_of(thing: &Thing) -> Result<String, KeyError> {
    match thing.name.as_str() {
        "" => Err(KeyError::new("it has no name")),
        name => Ok(name.to_owned()),
    }
}

pub(crate) fn fifo() -> DeltaFifo<String, Thing> {
    DeltaFifo::new(key_of, DeltaFifoConfig::default())
}

pub(crate) fn fifo_with(known: &Known) -> DeltaFifo<String, Thing> {
    DeltaFifo::new(key_of, knowing(known))
}

pub(crate) fn knowing(known: &Known) -> DeltaFifoConfig<String, Thing> {
    DeltaFifoConfig { known_objects: Some(Box::new(known.clone())), ..DeltaFifoConfig::default() }
}

pub(crate) fn tombstone(name: &str, object: Option<Thing>) -> DeletedFinalStateUnknown<String, Thing> {
    DeletedFinalStateUnknown { key: name.into(), object }
}

#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) objects: Arc<Mutex<BTreeMap<String, Thing>>>,
    pub(crate) unreadable: bool,
}

impl Known {
    pub(crate) fn new(text: &str) -> Self {
        let objects = things(text).into_iter().map(|thing| (thing.name.clone(), thing)).collect();
        Self { objects: Arc::new(Mutex::new(objects)), unreadable: false }
    }

    pub(crate) fn apply(&self, popped: &Popped<String, Thing>) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        for delta in popped.deltas.iter() {
            match delta {
                Delta::Deleted(_) => _ = objects.remove(&popped.key),
                _ => objects.extend(delta.object().map(|object| (popped.key.clone(), object.clone()))),
            }
        }
    }
}

impl KeyLister<String> for Known {
    fn list_keys(&self) -> Vec<String> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl KeyGetter<String, Thing> for Known {
    fn get_by_key(&self, key: &String) -> Result<Option<Thing>, BoxError> {
        if self.unreadable {
            return Err("the disk is gone".into());
        }
        Ok(self.objects.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }
}

/// Describes a change: `A foo1` is an addition, `U` an update, `D` a deletion, `R` a replaced object, `S` a resync,
/// `D T(foo1)` a tombstone, and `D T(foo)` a tombstone without an object.
pub(crate) fn shorthand(delta: &Delta<String, Thing>) -> String {
    let text = |thing: &Thing| format!("{}{}", thing.name, thing.value);
    match delta {
        Delta::Added(object) => format!("A {}", text(object)),
        Delta::Updated(object) => format!("U {}", text(object)),
        Delta::Replaced(object) => format!("R {}", text(object)),
        Delta::Sync(object) => format!("S {}", text(object)),
        Delta::Deleted(DeletedObject::Observed(object)) => format!("D {}", text(object)),
        Delta::Deleted(DeletedObject::Tombstone(DeletedFinalStateUnknown { key, object })) => match object {
            Some(object) => format!("D T({})", text(object)),
            None => format!("D T({key})"),
        },
    }
}

pub(crate) fn shorthands(deltas: &Deltas<String, Thing>) -> String {
    deltas.iter().map(shorthand).collect::<Vec<_>>().join(", ")
}

/// Pops all keys and returns one string per key, such as `A foo1, D foo1`.
pub(crate) fn pops(fifo: &mut DeltaFifo<String, Thing>) -> Vec<String> {
    std::iter::from_fn(|| fifo.pop()).map(|popped| shorthands(&popped.deltas)).collect()
}
