//! Works on the cache of an informer alone: those of client-go's indexer in `go/cache`, with the same keys.

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

use crate::meter::{Tally, measure};
use crate::{Sample, answer};

/// As much of a pod as the works need.
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

/// How large it is done.
struct Setting {
    quick: bool,
}

/// Does a work once.
type Work = fn(&Setting) -> Sample;

/// By the names that both sides and `cargo xtask bench` have for them.
const WORKS: &[(&str, Work)] = &[
    ("store-add", add),
    ("store-get", |how| get(how, |_| true)),
    ("store-get-read", |how| get(how, |pod| !pod.node.is_empty())),
    ("store-by-index", by_index),
    ("store-list", list),
    ("store-for-each", |how| for_each(how, |pod| black_box(pod).is_some())),
    ("store-for-each-read", |how| for_each(how, |pod| pod.is_some_and(|pod| !pod.node.is_empty()))),
    ("store-snapshot", snapshot),
    ("store-update-same", |how| update(how, 0)),
    ("store-update-node", |how| update(how, 501)),
    ("store-2r1w", |how| mixed(how, 2, false)),
    ("store-write", |how| mixed(how, 0, false)),
    ("store-write-beside-snapshots", beside_snapshots),
];

/// Does the work that the command line names.
pub fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let how = Setting { quick: args.any(|arg| arg == "--quick") };
    let work = WORKS.iter().find(|(work, _)| *work == name);
    answer(work.map(|(_, work)| work(&how)), "cache_micro WORK [--quick]", WORKS.iter().map(|(work, _)| *work))
}

impl Setting {
    fn pods(&self) -> usize {
        if self.quick { PODS / 50 } else { PODS }
    }
}

/// The pods of client-go's work; `shift` moves each to another node.
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

/// With the indices by namespace and by node.
fn indexer() -> Cache<Pod> {
    let cache = Cache::new();
    cache.add_index("node", |pod: &Pod| vec![pod.node.clone()]).expect("it is the first of that name");
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

/// 100 k pods are put in, one by one.
fn add(how: &Setting) -> Sample {
    let pods = pods(how.pods(), 0);
    let cache = indexer();
    measure(|| {
        pods.iter().for_each(|pod| put(&cache, pod));
        Tally::operations(pods.len())
    })
}

/// Each is got by its key, in a random order, ten times; it is read or not.
fn get(how: &Setting, look: impl Fn(&Pod) -> bool) -> Sample {
    let pods = pods(how.pods(), 0);
    let keys: Vec<ObjectKey> = pods.iter().map(|pod| pod.key()).collect();
    let (cache, order) = (filled(&pods), shuffled(pods.len()));
    measure(|| {
        for at in (0..10).flat_map(|_| &order) {
            assert!(black_box(cache.get(&keys[*at])).is_some_and(|pod| look(&pod)));
        }
        Tally::operations(10 * order.len())
    })
}

/// The pods of each node, 100 of them, twenty times.
fn by_index(how: &Setting) -> Sample {
    let cache = filled(&pods(how.pods(), 0));
    let nodes: Vec<String> = (0..NODES).map(node).collect();
    measure(|| {
        let mut total = 0;
        for node in (0..20).flat_map(|_| &nodes) {
            total += cache.by_index("node", node).expect("there is that index").len();
        }
        assert_eq!(total, 20 * how.pods());
        Tally::operations(20 * NODES)
    })
}

/// All pods as a `Vec`, twenty times.
fn list(how: &Setting) -> Sample {
    let cache = filled(&pods(how.pods(), 0));
    measure(|| {
        let total: usize = (0..20).map(|_| black_box(cache.list()).len()).sum();
        assert_eq!(total, 20 * how.pods());
        Tally::operations(20)
    })
}

/// All pods of a snapshot are shown, twenty times; they are read or not.
fn for_each(how: &Setting, look: impl Fn(Option<&Arc<Pod>>) -> bool) -> Sample {
    let cache = filled(&pods(how.pods(), 0));
    measure(|| {
        let mut total = 0;
        for _ in 0..20 {
            cache.snapshot().for_each(|pod| total += usize::from(look(Some(pod))));
        }
        assert_eq!(total, 20 * how.pods());
        Tally::operations(20)
    })
}

/// Snapshots are taken of all pods, and dropped.
fn snapshot(how: &Setting) -> Sample {
    let cache = filled(&pods(how.pods(), 0));
    measure(|| {
        for _ in 0..how.pods() {
            assert_eq!(black_box(cache.snapshot()).len(), how.pods());
        }
        Tally::operations(how.pods())
    })
}

/// Each pod is put in anew, in a random order: on the same node, or on another.
fn update(how: &Setting, shift: usize) -> Sample {
    let cache = filled(&pods(how.pods(), 0));
    let (next, order) = (pods(how.pods(), shift), shuffled(how.pods()));
    measure(|| {
        order.iter().for_each(|at| put(&cache, &next[*at]));
        Tally::operations(order.len())
    })
}

/// One writer alone, and then beside one who looks at all of a snapshot again and again.
fn beside_snapshots(how: &Setting) -> Sample {
    let (alone, beside) = (mixed(how, 0, false), mixed(how, 0, true));
    let share = beside.figures["writes/s"] / alone.figures["writes/s"];
    beside.with("of the rate without", share)
}

/// For three seconds one thread puts pods in, on another node each time, while others read by key, or look at all of a snapshot.
fn mixed(how: &Setting, readers: u64, snapshots: bool) -> Sample {
    let all = pods(how.pods(), 0);
    let keys: Vec<ObjectKey> = all.iter().map(|pod| pod.key()).collect();
    let (cache, order) = (filled(&all), shuffled(how.pods()));
    let sets: [_; 2] = array::from_fn(|set| pods(how.pods(), set * 501));
    let stop = AtomicBool::new(false);
    let time = Duration::from_secs(if how.quick { 1 } else { 3 });
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
