//! Tests of the `Store` contract, for each store.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use pintle_delta_fifo::{
    DeltaFifo, DeltaFifoConfig, ExpirationStore, Indexer, KeyListerGetter, LatestFifo, MemoryStore, Store, StoreError,
    Transaction, UndeltaStore,
};

use crate::support::{Thing, fifo, key_of, thing, things};

/// Checks the `Store` contract. `objects_of` returns the newest object of an entry.
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
fn s2_memory_store_keeps_the_contract() {
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
fn s2_queue_keeps_the_contract() {
    check_contract(fifo(), |deltas| deltas.newest().object().cloned());
    check_contract(LatestFifo::new(key_of), Some);
    let mut fifo: DeltaFifo<String, Thing> = fifo();
    fifo.add(thing("foo", 1)).unwrap();
    fifo.delete(thing("foo", 9)).unwrap();
    assert_eq!(fifo.list(), things("foo9"), "until it is popped, the deletion is the newest state");
}

#[test]
fn index_keeps_keys_sorted_and_drops_unused_values() {
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

#[test]
fn panicking_index_function_leaves_the_store_unchanged() {
    let mut store = MemoryStore::new(key_of);
    ["foo1", "bar2"].iter().for_each(|text| store.add(things(text).remove(0)).unwrap());
    let fails = |thing: &Thing| {
        assert_ne!(thing.value, 2, "wanted");
        vec!["one".to_owned()]
    };
    assert!(catch_unwind(AssertUnwindSafe(|| store.add_index("value", fails))).is_err());
    assert!(!store.has_index("value"));
    store.add_index("value", |thing: &Thing| vec![thing.value.to_string()]);
    store.update(thing("foo", 3)).unwrap();
    let keys = |value: &str| store.keys_by_index("value", value).unwrap().count();
    assert_eq!(["one", "1", "2", "3"].map(keys), [0, 0, 1, 1]);
}

#[test]
fn s2_transforming_store_keeps_contract_and_key() {
    let calls = Arc::new(Mutex::new(0));
    let counter = calls.clone();
    let mut plain = MemoryStore::new(key_of);
    plain.set_transformer(move |thing| {
        *counter.lock().unwrap() += 1;
        Ok(thing)
    });
    check_contract(plain, Some);
    assert_eq!(*calls.lock().unwrap(), 6, "objects without a key and deleted objects are not transformed");

    let mut store = MemoryStore::new(key_of);
    store.set_transformer(|object: Thing| match object.value {
        0 => Err("it is nothing".into()),
        value => Ok(thing("renamed", value + 100)),
    });
    store.add(thing("a", 1)).unwrap();
    assert_eq!(store.by_key(&"a".into()), Some(&thing("renamed", 101)));
    assert!(matches!(store.update(thing("a", 0)), Err(StoreError::Transform(_))));
    assert!(matches!(store.replace(things("b1 c0"), "0"), Err(StoreError::Transform(_))));
    assert_eq!(store.list(), things("renamed101"));
    store.replace(things("b1"), "0").unwrap();
    assert_eq!((store.list_keys(), store.list()), (vec!["b".to_owned()], things("renamed101")));
}

#[test]
fn s2_undelta_store_keeps_the_contract() {
    check_contract(UndeltaStore::new(MemoryStore::new(key_of), |_| ()), Some);
}

#[test]
fn s7_transaction_applies_valid_writes_and_reports_failures() {
    use Transaction::{Add, Delete, Update};
    let mut store = MemoryStore::new(key_of);
    store.transaction(vec![]).unwrap();
    store
        .transaction(vec![Add(thing("a", 1)), Add(thing("b", 1)), Update(thing("a", 2)), Delete(thing("b", 9))])
        .unwrap();
    assert_eq!(store.list(), things("a2"));

    let error = store.transaction(vec![Add(thing("", 1)), Delete(thing("", 1))]).unwrap_err();
    assert_eq!((&error.successful[..], error.total, error.causes.len()), (&[][..], 2, 2));

    let error = store.transaction(vec![Add(thing("b", 1)), Add(thing("", 1)), Delete(thing("a", 2))]).unwrap_err();
    assert_eq!((&error.successful[..], error.total), (&[0, 2][..], 3));
    assert!(matches!(&error.causes[..], [StoreError::Key(_)]), "{:?}", error.causes);
    assert_eq!(error.to_string(), "1 of 3 writes failed: cannot compute the key of an object: it has no name");
    assert_eq!(store.list(), things("b1"));
}

#[test]
fn popped_object_is_stored_under_the_queues_key() {
    let mut store = MemoryStore::new(|_: &Thing| panic!("the key function is not needed"));
    store.add_index("parity", |thing: &Thing| vec![["even", "odd"][thing.value as usize % 2].to_owned()]);
    assert_eq!(store.insert("a".to_owned(), thing("a", 1)).unwrap(), None);
    assert_eq!(store.insert("a".to_owned(), thing("a", 2)).unwrap(), Some(thing("a", 1)));
    assert_eq!(store.index_values("parity").unwrap(), ["even"]);
    assert_eq!((store.remove(&"a".to_owned()), store.remove(&"a".to_owned())), (Some(thing("a", 2)), None));
    assert!(store.index_values("parity").unwrap().is_empty());
}

#[test]
fn s11_object_expires_after_its_ttl() {
    let (ttl, now) = (Duration::from_secs(30), Instant::now());
    let just_after = now + ttl + Duration::from_nanos(1);
    let filled = |ttl| {
        let mut store = ExpirationStore::new(key_of, ttl);
        store.replace(things("a1 b2"), now).unwrap();
        store
    };

    let mut read = filled(ttl);
    assert_eq!(read.get_by_key(&"a".into(), now + ttl), Some(&thing("a", 1)));
    assert_eq!(read.get(&thing("a", 0), just_after).unwrap(), None);
    assert_eq!(read.list_keys(), ["b"], "an expired object stays until it is looked up");
    read.add(thing("a", 3), just_after).unwrap();
    assert_eq!(read.get_by_key(&"a".into(), just_after), Some(&thing("a", 3)));
    assert_eq!(read.list(just_after), things("a3"));
    assert_eq!(read.list_keys(), ["a"]);
    read.delete(&thing("a", 0)).unwrap();
    assert_eq!(read.get_by_key(&"a".into(), just_after), None);

    let mut renewed = filled(ttl);
    renewed.add(thing("a", 5), now + ttl).unwrap();
    assert_eq!(renewed.list(just_after), things("a5"));
    assert!(renewed.replace(things("c1 1"), just_after).is_err());
    assert!(renewed.get(&thing("", 1), now).is_err());
    assert_eq!(renewed.list(just_after), things("a5"));

    let mut forever = filled(Duration::ZERO);
    assert_eq!(forever.list(now + Duration::from_secs(1 << 30)).len(), 2);
}

#[test]
fn s13_full_list_is_pushed_only_after_changes() {
    let pushed = Arc::new(Mutex::new(Vec::new()));
    let log = pushed.clone();
    let mut store = UndeltaStore::new(MemoryStore::new(key_of), move |mut all: Vec<Thing>| {
        all.sort_by(|left, right| left.name.cmp(&right.name));
        log.lock().unwrap().push(all);
    });
    let pushed = || std::mem::take(&mut *pushed.lock().unwrap());
    store.add(thing("a", 1)).unwrap();
    store.add(thing("b", 2)).unwrap();
    assert_eq!(pushed(), [things("a1"), things("a1 b2")]);
    store.update(thing("a", 3)).unwrap();
    store.delete(thing("b", 2)).unwrap();
    assert_eq!(pushed(), [things("a3 b2"), things("a3")]);
    store.replace(things("c1 d1"), "0").unwrap();
    assert_eq!(pushed(), [things("c1 d1")]);

    store.list();
    store.list_keys();
    store.get_by_key(&"c".into());
    store.get(&thing("c", 0)).unwrap();
    store.resync().unwrap();
    assert!(store.add(thing("", 1)).is_err());
    assert!(store.transaction(vec![Transaction::Add(thing("", 1))]).is_err());
    assert_eq!(pushed(), Vec::<Vec<Thing>>::new());
    store.transaction(vec![Transaction::Add(thing("e", 1)), Transaction::Delete(thing("c", 1))]).unwrap();
    assert_eq!(pushed(), [things("d1 e1")]);
}

fn check_known_objects_behind_a_lock<L>(known: Arc<L>, add: fn(&L, Thing))
where
    L: KeyListerGetter<String, Thing> + Send + Sync + 'static,
{
    let config = DeltaFifoConfig { known_objects: Some(Box::new(Arc::clone(&known))), ..DeltaFifoConfig::default() };
    let mut fifo = DeltaFifo::new(key_of, config);
    fifo.replace(things("foo1 bar2"), "1").unwrap();
    while let Some(popped) = fifo.pop() {
        add(&known, popped.deltas.newest().object().cloned().unwrap());
    }
    fifo.replace(things("bar2"), "2").unwrap();
    let keys: Vec<_> = std::iter::from_fn(|| fifo.pop()).map(|popped| popped.key).collect();
    assert_eq!(keys, ["bar", "foo"], "the missed deletion of foo was detected");
}

#[test]
fn known_objects_can_use_a_mutex_or_rwlock() {
    let store = || MemoryStore::new(key_of);
    check_known_objects_behind_a_lock(Arc::new(Mutex::new(store())), |known, object| {
        known.lock().unwrap().add(object).unwrap();
    });
    check_known_objects_behind_a_lock(Arc::new(RwLock::new(store())), |known, object| {
        known.write().unwrap().add(object).unwrap();
    });
}
