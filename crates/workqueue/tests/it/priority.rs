//! controller-runtime's tests of the priority queue: rows C1 to C26 in tests/ROWS.md. Row C27 is in metrics.rs, and the
//! benchmarks of row C28 are in shapes.rs.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use pintle_workqueue::ratelimit::{Clock, ManualClock, StdClock};
use pintle_workqueue::{
    AddOptions, DelayPolicy, MetricsStyle, Priority, QueueConfig, ShutdownMode, TryGetError, WorkItem, WorkQueue,
};

use crate::recorder::Recorder;
use crate::support::at;
use crate::watch::{Wakes, ends};

type Queue = WorkQueue<&'static str, ManualClock>;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn config<K: 'static, C>(clock: C, metrics: &Recorder) -> QueueConfig<K, C> {
    QueueConfig {
        order: Box::new(Priority::strict()),
        pending_retry: DelayPolicy::Absorb,
        pending_reminder: DelayPolicy::Absorb,
        metrics: Some(Arc::new(metrics.clone())),
        metrics_style: MetricsStyle::ControllerRuntime,
        ..QueueConfig::new(clock)
    }
}

fn queue() -> (Queue, ManualClock, Recorder) {
    let (clock, metrics) = (ManualClock::new(), Recorder::default());
    (WorkQueue::new(config(clock.clone(), &metrics)), clock, metrics)
}

fn after(after: Duration) -> AddOptions {
    AddOptions { after: Some(after), ..AddOptions::default() }
}

fn take(queue: &Queue) -> Option<(&'static str, i32)> {
    queue.try_get().ok().map(|item| (*item, item.priority()))
}

fn wakes() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::new(Wakes::default());
    (Arc::clone(&wakes), Waker::from(wakes))
}

fn poll<F: Future>(future: &mut Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

#[test]
fn c1a_returns_an_item() {
    let (queue, _, metrics) = queue();
    queue.add("foo");
    assert_eq!(take(&queue), Some(("foo", 0)));
    assert_eq!(metrics.counts(), (1, 0, vec![(0, 0)]));
}

#[test]
fn c1b_returns_items_in_order() {
    let (queue, _, metrics) = queue();
    queue.add("foo");
    queue.add("bar");
    assert_eq!([take(&queue), take(&queue)], [Some(("foo", 0)), Some(("bar", 0))]);
    assert_eq!(metrics.counts(), (2, 0, vec![(0, 0)]));
}

#[test]
fn c2_does_not_return_an_item_that_is_held() {
    let (queue, _, metrics) = queue();
    queue.add("foo");
    let _foo = queue.try_get().unwrap();
    queue.add("foo");
    queue.add("bar");
    assert_eq!(*queue.try_get().unwrap(), "bar");
    assert_eq!(metrics.counts(), (3, 0, vec![(0, 1)]));
}

/// As in client-go, and unlike in controller-runtime, a key that is added while in flight gets its position when its
/// guard is dropped.
#[test]
fn c3_returns_an_item_once_it_is_free() {
    let (queue, _, metrics) = queue();
    queue.add("foo");
    let foo = queue.try_get().unwrap();
    queue.add("foo");
    queue.add("bar");
    let _bar = queue.try_get().unwrap();
    queue.add("baz");
    foo.done();
    assert_eq!([take(&queue), take(&queue)], [Some(("baz", 0)), Some(("foo", 0))]);
    assert_eq!(metrics.counts(), (4, 0, vec![(0, 0)]));
}

#[test]
fn c4_de_duplicates() {
    let (queue, _, metrics) = queue();
    queue.add("foo");
    queue.add("foo");
    assert_eq!((queue.len(), queue.counts().in_flight, metrics.counts().0), (1, 0, 1));
}

/// As in client-go, `len` counts only keys that can be dequeued. controller-runtime also counts dirty in-flight keys.
#[test]
fn c5_enqueues_an_item_that_is_held() {
    let (queue, _, metrics) = queue();
    queue.add_with("foo", at(1));
    let foo = queue.try_get().unwrap();
    queue.add("foo");
    assert_eq!((queue.len(), queue.counts().dirty_in_flight), (0, 1));
    foo.done();
    assert_eq!(take(&queue), Some(("foo", 0)), "the key has the priority of the new add");
    assert_eq!(metrics.counts(), (2, 0, vec![(0, 0), (1, 0)]));
}

#[test]
fn c6a_retains_the_highest_priority() {
    let (queue, _, metrics) = queue();
    queue.add_with("foo", at(1));
    queue.add_with("foo", at(2));
    assert_eq!((take(&queue), queue.len()), (Some(("foo", 2)), 0));
    assert_eq!(metrics.counts(), (1, 0, vec![(1, 0), (2, 0)]));
}

#[test]
fn c6b_never_decreases_a_priority() {
    let (queue, _, metrics) = queue();
    queue.add_with("foo", at(2));
    queue.add_with("foo", at(1));
    assert_eq!((take(&queue), queue.len()), (Some(("foo", 2)), 0));
    assert_eq!(metrics.counts(), (1, 0, vec![(2, 0)]));
}

#[test]
fn c7_goes_to_the_front_when_raised() {
    let (queue, _, metrics) = queue();
    for key in ["foo", "bar", "baz"] {
        queue.add(key);
    }
    queue.add_with("baz", at(1));
    assert_eq!((take(&queue), queue.len()), (Some(("baz", 1)), 2));
    assert_eq!(metrics.counts(), (3, 0, vec![(0, 2), (1, 0)]));
}

#[test]
fn c8_retains_the_earliest_time() {
    let (queue, clock, metrics) = queue();
    queue.add("foo");
    queue.add_with("foo", after(HOUR));
    assert_eq!((take(&queue), queue.len(), metrics.counts().0), (Some(("foo", 0)), 0, 1));
    clock.advance(2 * HOUR);
    assert_eq!(take(&queue), None);
}

#[test]
fn c9_delayed_item_is_not_in_len() {
    let (queue, _, metrics) = queue();
    queue.add_with("foo", after(MS));
    queue.add_with("bar", after(MS));
    queue.add("baz");
    queue.add("qux");
    assert_eq!((queue.len(), metrics.counts().2), (2, vec![(0, 2)]));
}

#[test]
fn c10_get_after_shutdown() {
    let (queue, _, _) = queue();
    queue.add("foo");
    drop(queue.shut_down(ShutdownMode::FinishInFlight));
    queue.add_with("bar", after(HOUR));
    for _ in 0..2 {
        assert_eq!(queue.try_get().unwrap_err(), TryGetError::ShutDown);
        assert!(queue.blocking_get().is_none());
    }
}

fn dice(seed: &mut u64, sides: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % sides
}

#[test]
fn c11_returns_many_items() {
    ends(|| {
        for round in 0..20 {
            let queue: WorkQueue<u64> = WorkQueue::new(config(StdClock, &Recorder::default()));
            thread::scope(|scope| {
                for _ in 0..100 {
                    scope.spawn(|| (0..10).for_each(|_| drop(queue.blocking_get().unwrap())));
                }
                let mut seed = round;
                for key in 0..1000 {
                    let after = Some(Duration::from_micros(dice(&mut seed, 2000)));
                    let priority = dice(&mut seed, 10) as i32;
                    queue.add_with(key, AddOptions { after, priority, ..AddOptions::default() });
                }
            });
            assert_eq!((queue.len(), queue.counts().delayed), (0, 0));
        }
    });
}

#[test]
fn c12_metrics_of_after_then_without() {
    let (queue, _, metrics) = queue();
    queue.add_with("foo", after(HOUR));
    assert_eq!(metrics.counts(), (0, 1, vec![]));
    queue.add("foo");
    assert_eq!(metrics.counts(), (1, 1, vec![(0, 1)]));
    take(&queue);
    assert_eq!(metrics.counts(), (1, 1, vec![(0, 0)]));
}

#[test]
fn c13_metrics_of_after_then_a_higher_priority_now() {
    let (queue, _, metrics) = queue();
    queue.add_with("foo", after(HOUR));
    assert_eq!(metrics.counts().2, []);
    queue.add_with("foo", at(1));
    assert_eq!(metrics.counts().2, [(1, 1)]);
    assert_eq!(take(&queue), Some(("foo", 1)));
    assert_eq!(metrics.counts().2, [(1, 0)]);
}

#[test]
fn c14_first_in_first_out_on_raise() {
    let (queue, _, _) = queue();
    queue.add("foo");
    queue.add_with("bar", at(1));
    queue.add_with("foo", at(1));
    assert_eq!([take(&queue), take(&queue)], [Some(("bar", 1)), Some(("foo", 1))]);
}

/// One of 10 writers, each of which adds 50 keys 1000 times with random priorities, half of the time with a delay.
fn c15_writer(seed: u64, mut add: impl FnMut(u64, AddOptions)) {
    let mut seed = seed;
    for _ in 0..1000 {
        let (key, priority) = (dice(&mut seed, 50), dice(&mut seed, 10) as i32);
        let after = (dice(&mut seed, 2) == 0).then(|| Duration::from_micros(dice(&mut seed, 1000)));
        add(key, AddOptions { after, priority, ..AddOptions::default() });
    }
}

/// Waits until all delays have ended, because a shutdown drops the keys of pending delays.
fn c15_end(queue: &WorkQueue<u64>) {
    while queue.counts().delayed > 0 {
        thread::yield_now();
    }
    // A consumer that adds a key while it is in flight gets this key again, even after all other consumers have ended.
    drop(queue.shut_down(ShutdownMode::FinishBacklog));
}

/// Checks the priorities of dequeued keys. The test holds a lock during each add and dequeue, which gives these calls a
/// defined order.
#[test]
fn c15_fuzz_priority_queue() {
    ends(|| {
        let metrics = Recorder::default();
        let queue: WorkQueue<u64> = WorkQueue::new(config(StdClock, &metrics));
        // The highest priority of all adds of a key since it was last dequeued.
        let highest = Mutex::new(HashMap::<u64, i32>::new());
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    loop {
                        let mut highest = highest.lock().unwrap();
                        let item = match queue.try_get() {
                            Ok(item) => item,
                            Err(TryGetError::Empty) => {
                                drop(highest);
                                thread::yield_now();
                                continue;
                            }
                            Err(error) => {
                                assert_eq!(error, TryGetError::ShutDown);
                                return;
                            }
                        };
                        assert_eq!(highest.remove(&*item), Some(item.priority()));
                        drop(highest);
                        thread::yield_now();
                    }
                });
            }
            thread::scope(|writers| {
                for seed in 0..10 {
                    let (queue, highest) = (&queue, &highest);
                    writers.spawn(move || {
                        c15_writer(seed, |key, options| {
                            let mut highest = highest.lock().unwrap();
                            queue.add_with(key, options);
                            let entry = highest.entry(key).or_insert(options.priority);
                            *entry = options.priority.max(*entry);
                        });
                    });
                }
            });
            c15_end(&queue);
        });
        assert_eq!((queue.len(), metrics.lowest_depth()), (0, 0), "no depth was ever negative");
    });
}

#[derive(Default)]
struct Racing {
    is_held: AtomicBool,
    highest: AtomicI32,
    /// The number of adds of the key that have started so far. `seen` is the value of `added` when the key was last
    /// dequeued.
    added: AtomicU32,
    seen: AtomicU32,
}

#[test]
fn c15_fuzz_priority_queue_with_races() {
    ends(|| {
        let metrics = Recorder::default();
        let queue: WorkQueue<u64> = WorkQueue::new(config(StdClock, &metrics));
        let keys: Vec<Racing> = (0..50).map(|_| Racing::default()).collect();
        thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    while let Some(item) = queue.blocking_get() {
                        let key = &keys[*item as usize];
                        assert!(!key.is_held.swap(true, Ordering::SeqCst), "{} is in flight twice", *item);
                        assert!((0..=key.highest.load(Ordering::SeqCst)).contains(&item.priority()), "{item:?}");
                        key.seen.store(key.added.load(Ordering::SeqCst), Ordering::SeqCst);
                        thread::yield_now();
                        key.is_held.store(false, Ordering::SeqCst);
                    }
                });
            }
            thread::scope(|writers| {
                for seed in 0..10 {
                    let (queue, keys) = (&queue, &keys);
                    writers.spawn(move || {
                        c15_writer(seed, |key, options| {
                            keys[key as usize].highest.fetch_max(options.priority, Ordering::SeqCst);
                            keys[key as usize].added.fetch_add(1, Ordering::SeqCst);
                            queue.add_with(key, options);
                        });
                    });
                }
            });
            c15_end(&queue);
        });
        for (number, key) in keys.into_iter().enumerate() {
            assert_eq!(key.seen.into_inner(), key.added.into_inner(), "{number} was dequeued after each of its adds");
        }
        assert_eq!((queue.len(), metrics.lowest_depth()), (0, 0), "no depth was ever negative");
    });
}

#[test]
fn c16_high_priority_items_come_first_many_times() {
    let (clock, metrics) = (ManualClock::new(), Recorder::default());
    let queue: WorkQueue<(i32, u32), _> = WorkQueue::new(config(clock.clone(), &metrics));
    for after in [None, Some(Duration::ZERO), Some(SECOND)] {
        let before = metrics.counts().1;
        for number in 0..1000 {
            for priority in [10, 5, 0, -5, -10] {
                // Advance the clock, so that no two delays end at the same time.
                clock.advance(Duration::from_nanos(1));
                queue.add_with((priority, number), AddOptions { after, priority, ..AddOptions::default() });
            }
        }
        assert_eq!(metrics.counts().1 - before, if after == Some(SECOND) { 5000 } else { 0 });
        clock.advance(SECOND);
        for priority in [10, 5, 0, -5, -10] {
            for number in 0..1000 {
                let item = queue.try_get().unwrap();
                assert_eq!((*item, item.priority()), ((priority, number), priority));
            }
        }
        assert!(queue.is_empty());
    }
}

#[test]
fn c17_returns_only_after_after_has_passed() {
    let ((queue, clock, metrics), (wakes, waker)) = (queue(), wakes());
    let mut get = pin!(queue.get());
    assert!(poll(&mut get, &waker).is_pending());
    queue.add_with("foo", after(SECOND));
    assert_eq!(wakes.count(), 0);
    assert_eq!(clock.next_deadline(), Some(clock.now() + SECOND));
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(wakes.count(), 0);
    assert!(poll(&mut get, &waker).is_pending());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(wakes.count(), 1);
    let Poll::Ready(Some(item)) = poll(&mut get, &waker) else { panic!("the delay has ended") };
    assert_eq!((*item, metrics.counts().1), ("foo", 1));
}

#[test]
fn c18_high_priority_item_comes_first_once_ready() {
    let (queue, clock, metrics) = queue();
    queue.add_with("low", at(-100));
    queue.add_with("high", after(SECOND));
    clock.advance(SECOND);
    assert_eq!(take(&queue), Some(("high", 0)));
    assert_eq!(metrics.counts().2, [(-100, 1), (0, 0)]);
}

#[test]
fn c19_returns_an_item_as_soon_as_possible() {
    let ((queue, _, _), (wakes, waker)) = (queue(), wakes());
    let mut get = pin!(queue.get());
    assert!(poll(&mut get, &waker).is_pending());
    queue.add("foo");
    assert_eq!(wakes.count(), 1);
    let Poll::Ready(Some(item)) = poll(&mut get, &waker) else { panic!("a key is queued") };
    assert_eq!(*item, "foo");
}

#[test]
fn c20_an_add_without_after_overtakes_the_waiting_one() {
    let ((queue, clock, metrics), (wakes, waker)) = (queue(), wakes());
    let mut get = pin!(queue.get());
    queue.add_with("foo", after(60 * SECOND));
    assert!(poll(&mut get, &waker).is_pending());
    queue.add("foo");
    assert_eq!(wakes.count(), 1);
    let Poll::Ready(Some(item)) = poll(&mut get, &waker) else { panic!("a key is queued") };
    assert_eq!((*item, metrics.counts().0), ("foo", 1));
    item.done();
    clock.advance(60 * SECOND);
    assert_eq!(take(&queue), None);
}

#[test]
fn c21_several_items_with_after() {
    let (queue, clock, _) = queue();
    queue.add_with("foo", after(SECOND));
    queue.add_with("bar", after(200 * MS));
    clock.advance(SECOND);
    assert_eq!([take(&queue), take(&queue)], [Some(("bar", 0)), Some(("foo", 0))]);
}

#[test]
fn c22_get_is_unblocked_by_shutdown() {
    for mode in [ShutdownMode::FinishBacklog, ShutdownMode::FinishInFlight, ShutdownMode::Abandon] {
        let (queue, _, _) = queue();
        let all = [(); 3].map(|()| wakes());
        let mut gets = [(); 3].map(|()| Box::pin(queue.get()));
        for (get, (_, waker)) in gets.iter_mut().zip(&all) {
            assert!(poll(&mut get.as_mut(), waker).is_pending());
        }
        drop(queue.shut_down(mode));
        assert_eq!(all.each_ref().map(|(wakes, _)| wakes.count()), [1; 3], "{mode:?}: all waiters are woken");
        for (get, (_, waker)) in gets.iter_mut().zip(&all) {
            assert!(matches!(poll(&mut get.as_mut(), waker), Poll::Ready(None)));
        }
    }
}

#[test]
fn c23_is_in_len_and_metrics_once_ready() {
    let (queue, clock, metrics) = queue();
    for _ in 0..2 {
        queue.add_with("a", after(500 * MS));
        queue.add_with("b", after(500 * MS));
        queue.add("c");
        queue.add("d");
        assert_eq!((queue.len(), metrics.counts().2), (2, vec![(0, 2)]));
        clock.advance(SECOND);
        assert_eq!((queue.len(), metrics.counts().2), (4, vec![(0, 4)]));
        while take(&queue).is_some() {}
        assert_eq!((queue.len(), metrics.counts().2), (0, vec![(0, 0)]));
    }
}

#[test]
fn c24_metrics_after_the_delay_has_ended() {
    let (queue, clock, metrics) = queue();
    queue.add_with("foo", after(50 * MS));
    clock.advance(60 * MS);
    assert_eq!((queue.len(), metrics.counts().2), (1, vec![(0, 1)]));
    queue.add("foo");
    assert_eq!((queue.len(), metrics.counts().2), (1, vec![(0, 1)]));
    take(&queue);
    assert_eq!((queue.len(), metrics.counts().2), (0, vec![(0, 0)]));
}

#[test]
fn c25_rate_limited_items_do_not_affect_each_other() {
    let (queue, clock, metrics) = queue();
    let rate_limited = AddOptions { rate_limited: true, ..AddOptions::default() };
    for _ in 0..7 {
        queue.add_with("bar", rate_limited);
        queue.cancel(&"bar");
    }
    let before = metrics.counts().1;
    queue.add_with("foo", rate_limited);
    queue.add_with("bar", rate_limited);
    let mut delays: Vec<_> = queue.snapshot().into_iter().map(|s| (s.key, s.delay.unwrap().1 - clock.now())).collect();
    delays.sort_unstable();
    assert_eq!(delays, [("bar", 640 * MS), ("foo", 5 * MS)]);
    clock.advance(SECOND);
    assert_eq!((queue.len(), metrics.counts().0, metrics.counts().1 - before), (2, 2, 2));
}

#[test]
fn c26_no_deadlock_on_shutdown() {
    ends(|| {
        for _ in 0..50 {
            let queue: WorkQueue<u64> = WorkQueue::new(config(StdClock, &Recorder::default()));
            thread::scope(|scope| {
                for worker in 0..20 {
                    let queue = &queue;
                    scope.spawn(move || {
                        loop {
                            queue.add(worker);
                            if queue.blocking_get().is_none() {
                                return;
                            }
                        }
                    });
                }
                thread::yield_now();
                drop(queue.shut_down(ShutdownMode::FinishInFlight));
            });
        }
    });
}

#[test]
fn shorter_of_delay_and_limiter_applies() {
    let (queue, clock, _) = queue();
    queue.add_with("foo", AddOptions { after: Some(2 * MS), rate_limited: true, ..AddOptions::default() });
    queue.add_with("bar", AddOptions { after: Some(SECOND), rate_limited: true, ..AddOptions::default() });
    clock.advance(5 * MS);
    assert_eq!([take(&queue), take(&queue)], [Some(("foo", 0)), Some(("bar", 0))]);
}

#[test]
fn a_retry_keeps_the_priority() {
    let (queue, clock, _) = queue();
    queue.add_with("foo", at(7));
    let item: WorkItem<_, _> = queue.try_get().unwrap();
    item.retry();
    clock.advance(5 * MS);
    assert_eq!(take(&queue), Some(("foo", 7)));
}
