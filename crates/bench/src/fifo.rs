//! Works on the queues of keyed changes alone: those of client-go's queues in `go/cache`, with the same objects.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use pintle_delta_fifo::{
    DeltaFifo, DeltaFifoConfig, Item, KeyError, KeyListerGetter, MemoryStore, RealFifo, RealFifoConfig, StoreError,
};
use pintle_meta::ObjectKey;

use crate::meter::{Tally, measure};
use crate::{Sample, answer};

/// As much of a pod as the works need.
struct Pod {
    namespace: String,
    name: String,
    /// It has a version and a node so that it is as large as the other side's.
    _version: String,
    _node: String,
}

type Object = Arc<Pod>;
type Known = Box<dyn KeyListerGetter<ObjectKey, Object> + Send + Sync>;

/// Does a work with these pods.
type Work = fn(Vec<Object>) -> Sample;

const PODS: usize = 1_000_000;

/// So many items are taken up in one step at most, as in client-go.
const BATCH: usize = 1000;

/// By the names that both sides and `cargo xtask bench` have for them.
const WORKS: &[(&str, Work)] = &[
    ("fifo", |pods| add_then_pop(pods, real_fifo(), RealFifo::add, |fifo| fifo.pop().is_some())),
    ("fifo-cycle", |pods| add_and_pop(pods, real_fifo(), RealFifo::add, |fifo| fifo.pop().is_some())),
    ("delta-fifo", |pods| add_then_pop(pods, delta_fifo(), DeltaFifo::add, |fifo| fifo.pop().is_some())),
    ("delta-fifo-cycle", |pods| add_and_pop(pods, delta_fifo(), DeltaFifo::add, |fifo| fifo.pop().is_some())),
    ("fifo-store", |pods| through(pods, false)),
    ("fifo-store-update", |pods| through(pods, true)),
];

/// Does the work that the command line names.
pub fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let quick = args.any(|arg| arg == "--quick");
    let work = WORKS.iter().find(|(work, _)| *work == name);
    let sample = work.map(|(_, work)| work(pods(if quick { PODS / 50 } else { PODS })));
    answer(sample, "cache_fifo WORK [--quick]", WORKS.iter().map(|(work, _)| *work))
}

fn pods(count: usize) -> Vec<Object> {
    let pod = |at: usize| Pod {
        namespace: format!("namespace-{}", at % 200),
        name: format!("pod-name-{at:08}"),
        _version: (1_000_000 + at).to_string(),
        _node: format!("node-{}", (at * 7919) % 1000),
    };
    (0..count).map(|at| Arc::new(pod(at))).collect()
}

/// As on the other side, a key is put together whenever it is asked for.
#[expect(clippy::unnecessary_wraps, reason = "the queues ask for it")]
fn key_of(pod: &Object) -> Result<ObjectKey, KeyError> {
    Ok(ObjectKey::new(&pod.namespace, &pod.name))
}

/// Known objects, of which there are none, as on the other side.
fn known() -> Option<Known> {
    Some(Box::new(MemoryStore::new(key_of)))
}

fn real_fifo() -> RealFifo<ObjectKey, Object> {
    RealFifo::new(key_of, RealFifoConfig { known_objects: known(), ..RealFifoConfig::default() })
}

fn delta_fifo() -> DeltaFifo<ObjectKey, Object> {
    DeltaFifo::new(
        key_of,
        DeltaFifoConfig { known_objects: known(), emit_replaced: true, ..DeltaFifoConfig::default() },
    )
}

/// All pods are added, and then popped one by one.
fn add_then_pop<Q, E: std::fmt::Debug>(
    pods: Vec<Object>,
    mut fifo: Q,
    add: fn(&mut Q, Object) -> Result<(), E>,
    pop: fn(&mut Q) -> bool,
) -> Sample {
    let count = pods.len();
    let mut adding = 0.0;
    let mut popping = 0.0;
    let sample = measure(|| {
        let begun = Instant::now();
        for pod in &pods {
            add(&mut fifo, pod.clone()).expect("each has a key");
        }
        adding = begun.elapsed().as_nanos() as f64;
        let begun = Instant::now();
        while pop(&mut fifo) {}
        popping = begun.elapsed().as_nanos() as f64;
        Tally::operations(count)
    });
    let each = |took: f64| took / count as f64;
    sample.with("adding, ns/object", each(adding)).with("popping, ns/object", each(popping))
}

/// Each pod is added, and popped at once.
fn add_and_pop<Q, E: std::fmt::Debug>(
    pods: Vec<Object>,
    mut fifo: Q,
    add: fn(&mut Q, Object) -> Result<(), E>,
    pop: fn(&mut Q) -> bool,
) -> Sample {
    measure(|| {
        for pod in &pods {
            add(&mut fifo, pod.clone()).expect("each has a key");
            assert!(pop(&mut fifo));
        }
        Tally::operations(pods.len())
    })
}

/// All pods are added to an atomic queue and popped in batches, each of which is put into the store in one go, under the keys that the
/// queue knows. What the store had is told, as who tells handlers needs it. For an update it has them all already.
fn through(pods: Vec<Object>, is_update: bool) -> Sample {
    let mut store = MemoryStore::new(key_of);
    let mut fifo = RealFifo::new(key_of, RealFifoConfig::default());
    if is_update {
        pass(&mut fifo, &mut store, &pods, RealFifo::add, false);
    }
    let add = if is_update { RealFifo::update } else { RealFifo::add };
    let sample = measure(|| {
        pass(&mut fifo, &mut store, &pods, add, is_update);
        Tally::operations(pods.len())
    });
    assert_eq!(store.len(), pods.len());
    sample
}

fn pass(
    fifo: &mut RealFifo<ObjectKey, Object>,
    store: &mut MemoryStore<ObjectKey, Object>,
    pods: &[Object],
    add: fn(&mut RealFifo<ObjectKey, Object>, Object) -> Result<(), StoreError>,
    is_update: bool,
) {
    for pod in pods {
        add(fifo, pod.clone()).expect("each has a key");
    }
    while let Some(batch) = fifo.pop_batch(BATCH) {
        for item in batch.items {
            let Item::One { key, delta } = item else { panic!("nobody put {:?} in", item.key()) };
            let object = delta.into_object().expect("nothing is deleted");
            let old = store.insert(key, object).expect("nothing is refused");
            assert_eq!(old.is_some(), is_update, "the store tells what was there");
        }
    }
}
