//! Workloads on the FIFO queues, without an informer. `go/cache` runs the same workloads with the same objects on
//! client-go's queues.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use pintle_delta_fifo::{
    DeltaFifo, DeltaFifoConfig, Item, KeyError, KeyListerGetter, MemoryStore, Queue, RealFifo, RealFifoConfig,
    SharedFifo, SharedFifoConfig, StoreError,
};
use pintle_informer::Cache;
use pintle_meta::{Object as _, ObjectKey};

use crate::answer;
use crate::meter::{Sample, Tally, measure};
use crate::store::{Pod, pods};

type Object = Arc<Pod>;
type Known = Box<dyn KeyListerGetter<ObjectKey, Object> + Send + Sync>;

type Work = fn(Vec<Object>) -> Sample;

const PODS: usize = 1_000_000;

/// The maximum number of items in a batch, as in client-go.
const BATCH: usize = 1000;

const WORKS: &[(&str, Work)] = &[
    ("fifo", |pods| add_then_pop(&pods, &real_fifo(known()), RealFifo::add)),
    ("fifo-cycle", |pods| add_and_pop(&pods, &real_fifo(known()), RealFifo::add)),
    ("delta-fifo", |pods| add_then_pop(&pods, &delta_fifo(), DeltaFifo::add)),
    ("delta-fifo-cycle", |pods| add_and_pop(&pods, &delta_fifo(), DeltaFifo::add)),
    ("fifo-store", |pods| through(&pods, false)),
    ("fifo-store-update", |pods| through(&pods, true)),
];

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    answer::main("cache_fifo WORK [--quick]", WORKS, |work, setting| Some(work(pods(setting.size(PODS), 0))))
}

/// Returns the key of a pod. Creates the key on each call, like client-go.
#[expect(clippy::unnecessary_wraps, reason = "the queues require this signature")]
fn key_of(pod: &Object) -> Result<ObjectKey, KeyError> {
    Ok(pod.key())
}

/// Returns an empty set of known objects, as in the client-go workload.
fn known() -> Option<Known> {
    Some(Box::new(MemoryStore::new(key_of)))
}

/// Creates a queue. Without `known_objects`, it behaves like an informer's queue. The queue delivers a list as one
/// item, and releases its lock while the consumer processes a batch.
fn real_fifo(known_objects: Option<Known>) -> SharedFifo<RealFifo<ObjectKey, Object>> {
    shared(RealFifo::new(key_of, RealFifoConfig { known_objects, ..RealFifoConfig::default() }))
}

fn delta_fifo() -> SharedFifo<DeltaFifo<ObjectKey, Object>> {
    let config = DeltaFifoConfig { known_objects: known(), emit_replaced: true, ..DeltaFifoConfig::default() };
    shared(DeltaFifo::new(key_of, config))
}

/// Creates a queue with a lock around it, as in client-go. Each call takes the lock and wakes the waiting threads.
fn shared<Q: Queue>(queue: Q) -> SharedFifo<Q> {
    SharedFifo::new(queue, SharedFifoConfig::default())
}

type Add<Q> = fn(&mut Q, Object) -> Result<(), StoreError>;

fn put<Q: Queue>(fifo: &SharedFifo<Q>, add: Add<Q>, pod: &Object) {
    add(&mut *fifo.lock(), pod.clone()).expect("each pod has a key");
}

/// Pops and drops an item. As in client-go's `Pop`, the handler runs under the lock.
fn pop<Q: Queue>(fifo: &SharedFifo<Q>) {
    fifo.process(Queue::pop, |_, popped| drop(popped)).wait().expect("the queue stays open");
}

fn add_then_pop<Q: Queue>(pods: &[Object], fifo: &SharedFifo<Q>, add: Add<Q>) -> Sample {
    let mut adding = 0.0;
    let mut popping = 0.0;
    let sample = measure(|| {
        let begun = Instant::now();
        pods.iter().for_each(|pod| put(fifo, add, pod));
        adding = begun.elapsed().as_nanos() as f64;
        let begun = Instant::now();
        pods.iter().for_each(|_| pop(fifo));
        popping = begun.elapsed().as_nanos() as f64;
        Tally::operations(pods.len())
    });
    assert!(fifo.lock().is_empty());
    let each = |took: f64| took / pods.len() as f64;
    sample.with("adding, ns/object", each(adding)).with("popping, ns/object", each(popping))
}

fn add_and_pop<Q: Queue>(pods: &[Object], fifo: &SharedFifo<Q>, add: Add<Q>) -> Sample {
    measure(|| {
        for pod in pods {
            put(fifo, add, pod);
            pop(fifo);
        }
        Tally::operations(pods.len())
    })
}

/// Adds all pods to an atomic queue and pops them in batches. Writes each batch to an informer's store, in a
/// transaction that returns the previous objects. If `is_update` is true, the store already contains all pods. Unlike
/// client-go's store, Pintle's store has an index by namespace.
fn through(pods: &[Object], is_update: bool) -> Sample {
    let (store, fifo) = (Cache::new(), real_fifo(None));
    if is_update {
        pass(&fifo, &store, pods, RealFifo::add, false);
    }
    let add = if is_update { RealFifo::update } else { RealFifo::add };
    let sample = measure(|| {
        pass(&fifo, &store, pods, add, is_update);
        Tally::operations(pods.len())
    });
    assert_eq!(store.len(), pods.len());
    sample
}

fn pass(
    fifo: &SharedFifo<RealFifo<ObjectKey, Object>>,
    store: &Cache<Pod>,
    pods: &[Object],
    add: Add<RealFifo<ObjectKey, Object>>,
    is_update: bool,
) {
    pods.iter().for_each(|pod| put(fifo, add, pod));
    let mut popped = 0;
    while popped < pods.len() {
        // The batch is in progress until the guard in `taken` is dropped.
        let taken = fifo.take(|fifo| fifo.pop_batch(BATCH)).wait().expect("the queue stays open");
        let items = taken.popped.items;
        popped += items.len();
        let changes = items.into_iter().map(|item| {
            let Item::One { key, delta } = item else { panic!("unexpected item {:?}", item.key()) };
            (key, delta.into_object())
        });
        for before in store.transaction(changes.collect(), "") {
            let before = before.expect("the index functions do not fail");
            assert_eq!(before.is_some(), is_update, "the store returns the previous object");
        }
    }
}
