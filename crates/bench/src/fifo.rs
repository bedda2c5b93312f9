//! Works on the queues of keyed changes alone: those of client-go's queues in `go/cache`, with the same objects.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use pintle_delta_fifo::{
    DeltaFifo, DeltaFifoConfig, Item, KeyError, KeyListerGetter, MemoryStore, Queue, RealFifo, RealFifoConfig,
    SharedFifo, SharedFifoConfig, StoreError,
};
use pintle_informer::Cache;
use pintle_meta::{Object as _, ObjectKey};

use crate::meter::{Tally, measure};
use crate::store::{Pod, pods};
use crate::{Sample, answer};

type Object = Arc<Pod>;
type Known = Box<dyn KeyListerGetter<ObjectKey, Object> + Send + Sync>;

/// Does a work with these pods.
type Work = fn(Vec<Object>) -> Sample;

const PODS: usize = 1_000_000;

/// So many items are taken up in one step at most, as in client-go.
const BATCH: usize = 1000;

/// By the names that both sides and `cargo xtask bench` have for them.
const WORKS: &[(&str, Work)] = &[
    ("fifo", |pods| add_then_pop(&pods, &real_fifo(known()), RealFifo::add)),
    ("fifo-cycle", |pods| add_and_pop(&pods, &real_fifo(known()), RealFifo::add)),
    ("delta-fifo", |pods| add_then_pop(&pods, &delta_fifo(), DeltaFifo::add)),
    ("delta-fifo-cycle", |pods| add_and_pop(&pods, &delta_fifo(), DeltaFifo::add)),
    ("fifo-store", |pods| through(&pods, false)),
    ("fifo-store-update", |pods| through(&pods, true)),
];

/// Does the work that the command line names.
pub fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let quick = args.any(|arg| arg == "--quick");
    let work = WORKS.iter().find(|(work, _)| *work == name);
    let sample = work.map(|(_, work)| work(pods(if quick { PODS / 50 } else { PODS }, 0)));
    answer(sample, "cache_fifo WORK [--quick]", WORKS.iter().map(|(work, _)| *work))
}

/// As on the other side, a key is put together whenever it is asked for.
#[expect(clippy::unnecessary_wraps, reason = "the queues ask for it")]
fn key_of(pod: &Object) -> Result<ObjectKey, KeyError> {
    Ok(pod.key())
}

/// Known objects, of which there are none, as on the other side.
fn known() -> Option<Known> {
    Some(Box::new(MemoryStore::new(key_of)))
}

/// Without known objects it is as informers have it: a list stays in one piece, and the queue is free while a batch is worked on.
fn real_fifo(known_objects: Option<Known>) -> SharedFifo<RealFifo<ObjectKey, Object>> {
    shared(RealFifo::new(key_of, RealFifoConfig { known_objects, ..RealFifoConfig::default() }))
}

fn delta_fifo() -> SharedFifo<DeltaFifo<ObjectKey, Object>> {
    let config = DeltaFifoConfig { known_objects: known(), emit_replaced: true, ..DeltaFifoConfig::default() };
    shared(DeltaFifo::new(key_of, config))
}

/// Behind its lock, as client-go's queues always are: each call takes it, and wakes who waits.
fn shared<Q: Queue>(queue: Q) -> SharedFifo<Q> {
    SharedFifo::new(queue, SharedFifoConfig::default())
}

type Add<Q> = fn(&mut Q, Object) -> Result<(), StoreError>;

fn put<Q: Queue>(fifo: &SharedFifo<Q>, add: Add<Q>, pod: &Object) {
    add(&mut *fifo.lock(), pod.clone()).expect("each has a key");
}

/// Pops one, under the lock as client-go's `Pop` does, and does nothing with it.
fn pop<Q: Queue>(fifo: &SharedFifo<Q>) {
    fifo.process(Queue::pop, |_, popped| drop(popped)).wait().expect("nobody closes it");
}

/// All pods are added, and then popped one by one.
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

/// Each pod is added, and popped at once.
fn add_and_pop<Q: Queue>(pods: &[Object], fifo: &SharedFifo<Q>, add: Add<Q>) -> Sample {
    measure(|| {
        for pod in pods {
            put(fifo, add, pod);
            pop(fifo);
        }
        Tally::operations(pods.len())
    })
}

/// All pods are added to an atomic queue and popped in batches, each of which is put into an informer's store in one transaction, which
/// tells what was there. For an update it has them all already. Ours has its index by namespace, of which the other side's is free.
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
        // What is left of it when the batch is moved out says until when the batch is worked on.
        let taken = fifo.take(|fifo| fifo.pop_batch(BATCH)).wait().expect("nobody closes it");
        let items = taken.popped.items;
        popped += items.len();
        let changes = items.into_iter().map(|item| {
            let Item::One { key, delta } = item else { panic!("nobody put {:?} in", item.key()) };
            (key, delta.into_object())
        });
        for before in store.transaction(changes.collect(), "") {
            let before = before.expect("no index function fails");
            assert_eq!(before.is_some(), is_update, "the store tells what was there");
        }
    }
}
