//! client-go's tests of the base queue: rows Q1 to Q11 in `tests/ROWS.md`. Row Q12 is a benchmark, which is not
//! included.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Added, Fifo, Order, QueueConfig, Queued, ShutdownMode, Ticket, TryGetError, WorkQueue};

use crate::support::at;
use crate::watch::ends;

fn queue<K: Eq + Send + 'static>() -> WorkQueue<K, ManualClock> {
    WorkQueue::new(QueueConfig::new(ManualClock::new()))
}

fn q1(drain: bool) {
    let queue: WorkQueue<usize> = WorkQueue::default();
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        let consumers: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(item) = queue.blocking_get() {
                        assert_ne!(*item, usize::MAX, "the key was added after the shutdown");
                        taken.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                })
            })
            .collect();
        thread::scope(|producers| {
            for id in 0..50 {
                let queue = &queue;
                producers.spawn(move || {
                    for _ in 0..50 {
                        queue.add(id);
                        thread::yield_now();
                    }
                });
            }
        });
        let shutdown = queue.shut_down(ShutdownMode::FinishBacklog);
        if drain {
            assert!(shutdown.wait().complete);
        }
        assert_eq!(queue.add_with(usize::MAX, at(0)), Added::ShutDown);
        consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
    });
    assert_eq!(queue.len(), 0);
    let taken = taken.into_inner();
    assert!((50..=2500).contains(&taken), "each key was dequeued at least once and at most once per add: {taken}");
}

#[test]
fn q1_basic() {
    ends(|| q1(false));
}

#[test]
fn q1_basic_with_drain() {
    ends(|| q1(true));
}

fn q2(drain: bool) {
    let queue: WorkQueue<usize> = WorkQueue::default();
    let seen = Mutex::new(HashSet::new());
    let taken = AtomicUsize::new(0);
    for key in 0..50 {
        queue.add(key);
    }
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                while let Some(item) = queue.blocking_get() {
                    if seen.lock().unwrap().insert(*item) {
                        queue.add(*item);
                    }
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // Each key is processed twice, because its worker adds it again during the processing.
        while taken.load(Ordering::SeqCst) < 100 {
            thread::yield_now();
        }
        let shutdown = queue.shut_down(ShutdownMode::FinishBacklog);
        if drain {
            assert!(shutdown.wait().complete);
        }
    });
    assert_eq!((queue.len(), taken.into_inner()), (0, 100));
}

#[test]
fn q2_add_while_processing() {
    ends(|| q2(false));
}

#[test]
fn q2_add_while_processing_with_drain() {
    ends(|| q2(true));
}

#[test]
fn q3_len() {
    let queue = queue();
    queue.add("a");
    assert_eq!(queue.len(), 1);
    queue.add("b");
    assert_eq!(queue.len(), 2);
    queue.add("a");
    assert_eq!(queue.len(), 2);
}

#[test]
fn q4_reinsert() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    queue.add("foo");
    item.done();
    let item = queue.try_get().unwrap();
    assert_eq!(*item, "foo");
    item.done();
    assert_eq!(queue.len(), 0);
}

#[derive(Debug)]
struct Touched(Fifo, Arc<AtomicUsize>);

impl<K> Order<K> for Touched {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        self.0.push(key)
    }

    fn pop(&mut self) -> Option<Ticket> {
        Order::<K>::pop(&mut self.0)
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        self.0.remove(key, place);
    }

    fn touch(&mut self, _: Queued<'_, K>, place: u64, _: i32) -> u64 {
        self.1.fetch_add(1, Ordering::Relaxed);
        place
    }

    fn len(&self) -> usize {
        Order::<K>::len(&self.0)
    }
}

fn touched() -> (WorkQueue<&'static str, ManualClock>, Arc<AtomicUsize>) {
    let touches = Arc::default();
    let mut config = QueueConfig::new(ManualClock::new());
    config.order = Box::new(Touched(Fifo::default(), Arc::clone(&touches)));
    (WorkQueue::new(config), touches)
}

#[test]
fn q5_collapse() {
    let (queue, touches) = touched();
    queue.add("bar");
    queue.add("bar");
    let item = queue.try_get().unwrap();
    assert_eq!(*item, "bar");
    item.done();
    assert_eq!(queue.len(), 0);
    assert_eq!(touches.load(Ordering::Relaxed), 1);
}

#[test]
fn q6_collapse_while_processing() {
    let (queue, touches) = touched();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    queue.add("foo");
    queue.add("foo");
    {
        let mut second = pin!(queue.get());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut cx).is_pending(), "the first worker still has the key");
        item.done();
        let Poll::Ready(Some(item)) = second.as_mut().poll(&mut cx) else { panic!("the key is queued") };
        assert_eq!(*item, "foo");
    }
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty);
    assert_eq!((queue.len(), touches.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn q7_queue_drainage_using_shut_down_with_drain() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let (first, second) = (queue.try_get().unwrap(), queue.try_get().unwrap());
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(drain.as_mut().poll(&mut cx).is_pending());
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::ShutDown);
    first.done();
    assert!(drain.as_mut().poll(&mut cx).is_pending());
    second.done();
    let Poll::Ready(report) = drain.as_mut().poll(&mut cx) else { panic!("no key is in flight") };
    assert!(report.complete && report.in_flight.is_empty());
}

#[test]
fn q8_no_queue_drainage_using_shut_down() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let _held = (queue.try_get().unwrap(), queue.try_get().unwrap());
    drop(queue.shut_down(ShutdownMode::FinishBacklog));
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::ShutDown);
}

#[test]
fn q9_force_queue_shutdown() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let _held = (queue.try_get().unwrap(), queue.try_get().unwrap());
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(drain.as_mut().poll(&mut cx).is_pending());
    drop(queue.shut_down(ShutdownMode::Abandon));
    let Poll::Ready(mut report) = drain.as_mut().poll(&mut cx) else { panic!("Abandon does not wait for guards") };
    report.in_flight.sort_unstable();
    assert_eq!((report.mode, report.in_flight), (ShutdownMode::Abandon, vec!["bar", "foo"]));
}

#[test]
fn q10_queue_drainage_with_dirty_item() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    queue.add("foo");
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(drain.as_mut().poll(&mut cx).is_pending());
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::ShutDown);
    item.done();
    assert!(drain.as_mut().poll(&mut cx).is_pending(), "the dirty key is queued once more");
    let item = queue.try_get().unwrap();
    assert_eq!(*item, "foo");
    item.done();
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::ShutDown);
    assert!(drain.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn q11_garbage_collection() {
    let queue = queue();
    let key = Arc::new("leak me".to_owned());
    let weak = Arc::downgrade(&key);
    queue.add(key);
    queue.try_get().unwrap().done();
    assert_eq!(weak.strong_count(), 0);
    drop(queue);
}

/// In a large queue, records are freed in batches.
#[test]
fn q11_garbage_collection_in_a_large_queue() {
    let queue = queue();
    let key = Arc::new(0);
    let weak = Arc::downgrade(&key);
    queue.add(key);
    for other in 1..5000 {
        queue.add(Arc::new(other));
    }
    queue.try_get().unwrap().done();
    assert_eq!(weak.strong_count(), 0);
}

#[test]
fn add_all_keeps_order_and_deduplicates() {
    let queue: WorkQueue<u32, _> = WorkQueue::new(QueueConfig::new(ManualClock::new()));
    queue.add_all((0..1000).chain(0..1000));
    queue.add_all([]);
    assert_eq!(queue.len(), 1000);
    assert!(std::iter::from_fn(|| queue.try_get().ok().map(|item| *item)).eq(0..1000));
    drop(queue.shut_down(ShutdownMode::FinishBacklog));
    queue.add_all([1, 2]);
    assert_eq!(queue.shut_down(ShutdownMode::FinishBacklog).wait().refused, 2);
}

#[test]
fn add_all_iterates_without_the_lock() {
    ends(|| {
        let queue: WorkQueue<usize> = WorkQueue::default();
        queue.add_all((0..200).map(|_| queue.len()));
        assert_eq!(queue.len(), 4, "the length changes after each batch of 64 keys");
    });
}
