//! A `DeltaFIFO` whose known objects are in an `Indexer`, as in an informer. A producer adds objects to the queue, and
//! a consumer updates the indexer.
//!
//! The last list omits an object of the indexer, so the queue delivers a deletion of this object.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::sync::{Arc, RwLock};

use pintle::delta_fifo::{
    DeletedObject, Delta, DeltaFifo, DeltaFifoConfig, Indexer, KeyError, MemoryStore, Popped, Store, StoreError,
};

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    name: &'static str,
    node: &'static str,
}

type Fifo = DeltaFifo<&'static str, Pod>;
type LocalStore = Arc<RwLock<MemoryStore<&'static str, Pod>>>;

fn key_func(pod: &Pod) -> Result<&'static str, KeyError> {
    Ok(pod.name)
}

fn pod(name: &'static str) -> Pod {
    Pod { name, node: "node-1" }
}

/// Applies the deltas of one key to the indexer, starting with the oldest delta. An informer updates its indexer in the
/// same way before it calls its handlers.
fn process(popped: Popped<&'static str, Pod>, store: &LocalStore) -> Result<(), StoreError> {
    let mut store = store.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    for delta in popped.deltas.iter() {
        println!("{}: {delta:?}", popped.key);
        match delta {
            Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) | Delta::Sync(pod) => {
                store.update(pod.clone())?
            }
            Delta::Deleted(DeletedObject::Observed(pod)) => store.delete(pod.clone())?,
            // A tombstone contains the key of the object and, if known, its last state.
            Delta::Deleted(DeletedObject::Tombstone(tombstone)) => drop(store.remove(&tombstone.key)),
        }
    }
    Ok(())
}

fn main() -> Result<(), StoreError> {
    let mut indexer = MemoryStore::new(key_func);
    indexer.add_index("node", |pod: &Pod| vec![pod.node.to_owned()]);
    let store: LocalStore = Arc::new(RwLock::new(indexer));
    let config = DeltaFifoConfig {
        known_objects: Some(Box::new(store.clone())),
        emit_replaced: true,
        ..DeltaFifoConfig::default()
    };
    let mut fifo: Fifo = DeltaFifo::new(key_func, config);

    // This is the first list. The queue has synced when all objects in the first list have been processed.
    fifo.replace(vec![pod("obj1"), pod("obj2"), pod("obj3")], "10")?;
    while let Some(popped) = fifo.pop() {
        process(popped, &store)?;
    }
    assert!(fifo.has_synced());

    // `pop` returns all pending changes of a key together, from `oldest` to `newest`.
    fifo.update(Pod { name: "obj2", node: "node-2" })?;
    fifo.delete(pod("obj2"))?;
    fifo.add(pod("obj4"))?;
    assert_eq!(fifo.get_by_key(&"obj2").map(|deltas| deltas.len()), Some(2));

    // This re-list omits obj1, which is in the indexer but not in the queue.
    fifo.replace(vec![pod("obj2"), pod("obj3"), pod("obj4")], "20")?;
    let deleted = fifo.get_by_key(&"obj1").expect("a deletion is queued").newest();
    assert!(
        matches!(deleted, Delta::Deleted(DeletedObject::Tombstone(tombstone)) if tombstone.object == Some(pod("obj1")))
    );
    while let Some(popped) = fifo.pop() {
        process(popped, &store)?;
    }

    let store = store.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut keys = store.index_keys("node", "node-1").expect("the index exists");
    keys.sort_unstable();
    assert_eq!(keys, ["obj2", "obj3", "obj4"]);
    Ok(())
}
