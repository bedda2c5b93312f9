//! Workloads on the informer's cache, without an informer. `go/cache` runs the same workloads with the same keys on
//! client-go's indexer.

use std::array;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pintle_informer::Cache;
use pintle_meta::{Metadata, Object, ObjectKey, ObjectMeta};

use crate::answer::{self, Setting};
use crate::meter::{Sample, Tally, measure};

pub(crate) struct Pod {
    metadata: ObjectMeta,
    node: String,
}

impl Object for Pod {
    fn metadata(&self) -> &dyn Metadata {
        &self.metadata
    }
}

const PODS: usize = 100_000;
const NODES: usize = 1000;

type Work = fn(&Setting) -> Sample;

const WORKS: &[(&str, Work)] = &[
    ("store-add", add),
    ("store-get", |setting| get(setting, |_| true)),
    ("store-get-read", |setting| get(setting, |pod| !pod.node.is_empty())),
    ("store-by-index", by_index),
    ("store-list", list),
    ("store-for-each", |setting| for_each(setting, |pod| black_box(pod).is_some())),
    ("store-for-each-read", |setting| for_each(setting, |pod| pod.is_some_and(|pod| !pod.node.is_empty()))),
    ("store-snapshot", snapshot),
    ("store-update-same", |setting| update(setting, 0)),
    ("store-update-node", |setting| update(setting, 501)),
    ("store-2r1w", |setting| mixed(setting, 2, false)),
    ("store-write", |setting| mixed(setting, 0, false)),
    ("store-write-during-snapshots", beside_snapshots),
];

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    answer::main("cache_micro WORK [--quick]", WORKS, |work, setting| Some(work(setting)))
}

/// Creates the same pods as the client-go workload. `shift` changes the nodes to which the pods are assigned.
pub(crate) fn pods(count: usize, shift: usize) -> Vec<Arc<Pod>> {
    let pod = |at: usize| {
        let mut metadata = ObjectMeta::new(format!("namespace-{}", at % 200), format!("pod-name-{at:08}"));
        metadata.resource_version = (1_000_000 + at).to_string();
        Arc::new(Pod { metadata, node: node(at * 7919 + shift) })
    };
    (0..count).map(pod).collect()
}

fn node(at: usize) -> String {
    format!("node-{}", at % NODES)
}

fn indexer() -> Cache<Pod> {
    let cache = Cache::new();
    cache.add_index("node", |pod: &Pod| vec![pod.node.clone()]).expect("no other index has this name");
    cache
}

fn filled(pods: &[Arc<Pod>]) -> Cache<Pod> {
    let cache = indexer();
    pods.iter().for_each(|pod| put(&cache, pod));
    cache
}

fn put(cache: &Cache<Pod>, pod: &Arc<Pod>) {
    cache.upsert(pod.clone()).expect("the index function does not fail");
}

fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    Rng::with_seed(1).shuffle(&mut order);
    order
}

fn add(setting: &Setting) -> Sample {
    let pods = pods(setting.size(PODS), 0);
    let cache = indexer();
    measure(|| {
        pods.iter().for_each(|pod| put(&cache, pod));
        Tally::operations(pods.len())
    })
}

/// Gets each pod ten times by its key, in random order, and passes it to `look`.
fn get(setting: &Setting, look: impl Fn(&Pod) -> bool) -> Sample {
    let pods = pods(setting.size(PODS), 0);
    let keys: Vec<ObjectKey> = pods.iter().map(|pod| pod.key()).collect();
    let (cache, order) = (filled(&pods), shuffled(pods.len()));
    measure(|| {
        for at in (0..10).flat_map(|_| &order) {
            assert!(black_box(cache.get(&keys[*at])).is_some_and(|pod| look(&pod)));
        }
        Tally::operations(10 * order.len())
    })
}

/// Reads the 100 pods of each node by index twenty times.
fn by_index(setting: &Setting) -> Sample {
    let cache = filled(&pods(setting.size(PODS), 0));
    let nodes: Vec<String> = (0..NODES).map(node).collect();
    measure(|| {
        let mut total = 0;
        for node in (0..20).flat_map(|_| &nodes) {
            total += cache.by_index("node", node).expect("the index exists").len();
        }
        assert_eq!(total, 20 * setting.size(PODS));
        Tally::operations(20 * NODES)
    })
}

fn list(setting: &Setting) -> Sample {
    let cache = filled(&pods(setting.size(PODS), 0));
    measure(|| {
        let total: usize = (0..20).map(|_| black_box(cache.list()).len()).sum();
        assert_eq!(total, 20 * setting.size(PODS));
        Tally::operations(20)
    })
}

/// Iterates over a snapshot twenty times, and passes each pod to `look`.
fn for_each(setting: &Setting, look: impl Fn(Option<&Arc<Pod>>) -> bool) -> Sample {
    let cache = filled(&pods(setting.size(PODS), 0));
    measure(|| {
        let mut total = 0;
        for _ in 0..20 {
            cache.snapshot().for_each(|pod| total += usize::from(look(Some(pod))));
        }
        assert_eq!(total, 20 * setting.size(PODS));
        Tally::operations(20)
    })
}

fn snapshot(setting: &Setting) -> Sample {
    let cache = filled(&pods(setting.size(PODS), 0));
    measure(|| {
        for _ in 0..setting.size(PODS) {
            assert_eq!(black_box(cache.snapshot()).len(), setting.size(PODS));
        }
        Tally::operations(setting.size(PODS))
    })
}

/// Replaces each pod, in random order. The new pod may be on a different node.
fn update(setting: &Setting, shift: usize) -> Sample {
    let cache = filled(&pods(setting.size(PODS), 0));
    let (next, order) = (pods(setting.size(PODS), shift), shuffled(setting.size(PODS)));
    measure(|| {
        order.iter().for_each(|at| put(&cache, &next[*at]));
        Tally::operations(order.len())
    })
}

/// Measures a writer alone, and then while another thread repeatedly iterates over a snapshot.
fn beside_snapshots(setting: &Setting) -> Sample {
    let (alone, mixed_run) = (mixed(setting, 0, false), mixed(setting, 0, true));
    let share = mixed_run.figures["writes/s"] / alone.figures["writes/s"];
    mixed_run.with("of the rate without", share)
}

/// For three seconds, one thread moves pods to other nodes. Meanwhile, other threads get pods by key or iterate over a
/// snapshot.
fn mixed(setting: &Setting, readers: u64, snapshots: bool) -> Sample {
    let all = pods(setting.size(PODS), 0);
    let keys: Vec<ObjectKey> = all.iter().map(|pod| pod.key()).collect();
    let (cache, order) = (filled(&all), shuffled(setting.size(PODS)));
    let sets: [_; 2] = array::from_fn(|set| pods(setting.size(PODS), set * 501));
    let stop = AtomicBool::new(false);
    let time = Duration::from_secs(if setting.quick { 1 } else { 3 });
    let mut counts = (0, 0, 0);
    let start = Instant::now();
    let sample = measure(|| {
        thread::scope(|scope| {
            let readers: Vec<_> = (0..readers)
                .map(|seed| {
                    let (cache, keys, stop) = (&cache, &keys, &stop);
                    scope.spawn(move || {
                        let (mut rng, mut reads) = (Rng::with_seed(seed), 0);
                        while !stop.load(Ordering::Relaxed) {
                            for _ in 0..64 {
                                black_box(cache.get(&keys[rng.usize(..keys.len())]));
                            }
                            reads += 64;
                        }
                        reads
                    })
                })
                .collect();
            let scanner = snapshots.then(|| {
                scope.spawn(|| {
                    let mut scans = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let mut seen = 0;
                        cache.snapshot().for_each(|pod| seen += black_box(pod).node.len().min(1));
                        assert_eq!(seen, keys.len());
                        scans += 1;
                    }
                    scans
                })
            });
            let writer = scope.spawn(|| {
                let mut writes = 0;
                let mut turns = (0..2).cycle().flat_map(|set| order.iter().map(move |at| (set, *at)));
                while !stop.load(Ordering::Relaxed) {
                    for (set, at) in turns.by_ref().take(64) {
                        put(&cache, &sets[set][at]);
                    }
                    writes += 64;
                }
                writes
            });
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            let joined = "no thread panics";
            counts.0 = readers.into_iter().map(|reader| reader.join().expect(joined)).sum();
            counts.1 = writer.join().expect(joined);
            counts.2 = scanner.map_or(0, |scanner| scanner.join().expect(joined));
        });
        Tally::operations(counts.0 + counts.1)
    });
    let seconds = start.elapsed().as_secs_f64();
    sample
        .with("reads/s", counts.0 as f64 / seconds)
        .with("writes/s", counts.1 as f64 / seconds)
        .with("scans/s", f64::from(counts.2) / seconds)
}
