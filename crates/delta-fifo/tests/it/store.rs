//! The contract of stores, of each store there is.

use std::collections::BTreeSet;

use pintle_delta_fifo::{DeltaFifo, Indexer, MemoryStore, Store, StoreError};

use crate::support::{Thing, fifo, key_of, thing, things};

/// `objects_of` gives the newest state of an entry.
fn check_contract<S: Store<String, Thing>>(mut store: S, objects_of: fn(S::Entry) -> Option<Thing>) {
    let newest = |store: &S, name: &str| store.get_by_key(&name.into()).and_then(objects_of);
    let sorted = |store: &S| {
        let mut list = store.list();
        list.sort_by(|left, right| left.name.cmp(&right.name));
        list
    };
    store.add(thing("foo", 1)).unwrap();
    assert_eq!(store.get(&thing("foo", 0)).unwrap().and_then(objects_of), Some(thing("foo", 1)));
    store.update(thing("foo", 2)).unwrap();
    assert_eq!(newest(&store, "foo"), Some(thing("foo", 2)));
    assert!(store.get_by_key(&"bar".into()).is_none());

    store.add(thing("bar", 3)).unwrap();
    store.add(thing("baz", 4)).unwrap();
    assert_eq!(sorted(&store), things("bar3 baz4 foo2"));
    assert_eq!(store.list_keys().into_iter().collect::<BTreeSet<_>>(), ["bar", "baz", "foo"].map(str::to_owned).into());

    store.replace(things("foo5 qux6"), "0").unwrap();
    assert_eq!(newest(&store, "foo"), Some(thing("foo", 5)));
    assert_eq!(newest(&store, "qux"), Some(thing("qux", 6)));
    store.resync().unwrap();
    assert!(matches!(store.add(thing("", 1)), Err(StoreError::Key(_))));
    assert!(store.get(&thing("", 1)).is_err());
}

#[test]
fn a_memory_store_keeps_the_contract() {
    let store = || MemoryStore::new(key_of);
    check_contract(store(), Some);
    let mut store = store();
    store.add(thing("foo", 1)).unwrap();
    store.delete(thing("foo", 9)).unwrap();
    store.delete(thing("foo", 9)).unwrap();
    assert!(store.is_empty());
    store.replace(things("a1 b2"), "0").unwrap();
    store.replace(things("b3"), "0").unwrap();
    assert_eq!(store.list(), things("b3"));
}

#[test]
fn a_queue_keeps_the_contract() {
    check_contract(fifo(), |deltas| deltas.newest().object().cloned());
    let mut fifo: DeltaFifo<String, Thing> = fifo();
    fifo.add(thing("foo", 1)).unwrap();
    fifo.delete(thing("foo", 9)).unwrap();
    assert_eq!(fifo.list(), things("foo9"), "until it is popped, a deletion is the newest state");
}

#[test]
fn an_index_holds_keys_in_order_and_forgets_values_that_nobody_has() {
    let mut store = MemoryStore::new(key_of);
    assert!(store.add_index("parity", |thing: &Thing| vec![["even", "odd"][thing.value as usize % 2].to_owned()]));
    store.replace(things("c1 a3 b2"), "0").unwrap();
    assert_eq!(store.index_keys("parity", "odd").unwrap(), ["a", "c"]);
    assert_eq!(store.by_index("parity", "odd").unwrap(), things("a3 c1"));
    store.update(thing("b", 5)).unwrap();
    assert_eq!(store.index_values("parity").unwrap(), ["odd"]);
    assert_eq!(store.index_keys("parity", "even").unwrap(), Vec::<String>::new());
    assert!(store.by_index("none", "odd").is_none());
    assert!(!store.add_index("parity", |_| vec![]));
    assert_eq!(store.index_names().collect::<Vec<_>>(), ["parity"]);
}
