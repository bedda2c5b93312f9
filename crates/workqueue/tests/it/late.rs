//! Tests of adds and dropped guards that find the lock contended and are pushed to the inbox. Operations in the inbox
//! are applied later, but callers cannot observe the delay.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pintle_metrics::{InMemoryProvider, Provider};
use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Added, DelayKind, DelayPolicy, Fifo, Order, Priority, QueueConfig, ShutdownMode, WorkQueue};

use crate::gate::{Gate, GatedLimiter, Opener, gate, gated};
use crate::support::at;
use crate::watch::Wakes;

type Queue = WorkQueue<&'static str, ManualClock>;

const SECOND: Duration = Duration::from_secs(1);

fn queue(order: Box<dyn Order<&'static str>>, metrics: Option<Arc<dyn Provider>>) -> (Queue, ManualClock, Gate) {
    let clock = ManualClock::new();
    let (order, gate) = gated(order, |key| *key == "gate");
    let config =
        QueueConfig { order, metrics, pending_reminder: DelayPolicy::Absorb, ..QueueConfig::new(clock.clone()) };
    (WorkQueue::new(config), clock, gate)
}

fn take(queue: &Queue) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.try_get().ok()).map(|item| *item).collect()
}

/// While the queue is locked, the test adds a key with a pending delay and marks another key as done, so both calls go
/// to the inbox. Every later call observes both calls: the first key is queued without a delay, and no key is in
/// flight.
#[test]
fn late_add_is_not_observable() {
    for look in LOOKS {
        for timed in [false, true] {
            let metrics = timed.then(|| Arc::new(InMemoryProvider::new()) as Arc<dyn Provider>);
            let (queue, _clock, gate) = queue(Box::new(Fifo::default()), metrics);
            queue.add("held");
            let held = queue.try_get().unwrap();
            queue.add_after("a", SECOND);
            gate.hold(&queue, "gate", || {
                queue.add("a");
                held.done();
            });
            look(&queue);
        }
    }
}

const LOOKS: &[fn(&Queue)] = &[
    |queue| assert_eq!(queue.len(), 2),
    |queue| assert!(!queue.is_empty()),
    |queue| {
        let counts = queue.counts();
        assert_eq!((counts.queued, counts.in_flight, counts.delayed, counts.idle), (2, 0, 0, 0));
    },
    |queue| {
        let mut states: Vec<_> = queue.snapshot().into_iter().map(|state| (state.key, state.dirty)).collect();
        states.sort_unstable();
        assert_eq!(states, [("a", true), ("gate", true)]);
    },
    |queue| assert!(format!("{queue:?}").contains("queued: 2, in_flight: 0"), "{queue:?}"),
    |queue| assert_eq!(take(queue), ["gate", "a"]),
    |queue| assert_eq!([(); 2].map(|()| *queue.blocking_get().unwrap()), ["gate", "a"]),
    |queue| {
        let item = queue.try_get().unwrap();
        assert_eq!(item.blocking_next().map(|next| *next), Some("a"));
    },
    |queue| {
        let mut cx = Context::from_waker(Waker::noop());
        for key in ["gate", "a"] {
            assert!(matches!(pin!(queue.get()).poll(&mut cx), Poll::Ready(Some(item)) if *item == key));
        }
    },
    |queue| assert_eq!(queue.add_with("a", at(0)), Added::Merged),
    |queue| assert_eq!(queue.add_after("a", SECOND), Added::Merged),
    |queue| assert_eq!(queue.replace_after("a", SECOND, DelayKind::Retry), Added::Scheduled),
    |queue| assert!(!queue.postpone(&"a", 2 * SECOND)),
    |queue| assert_eq!(queue.cancel(&"a"), None),
    |queue| {
        assert!(queue.remove(&"a"));
        assert!(!queue.remove(&"a"));
        assert_eq!(take(queue), ["gate"]);
    },
    |queue| {
        queue.forget(&"a");
        assert_eq!((queue.num_requeues(&"a"), queue.len()), (0, 2));
    },
    |queue| {
        let report = queue.shut_down(ShutdownMode::FinishInFlight).wait();
        assert_eq!((report.complete, report.queued.len(), report.delayed.len()), (true, 2, 0), "{report:?}");
        assert_eq!((report.in_flight.len(), report.refused), (0, 0));
    },
    |queue| {
        let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(drain.as_mut().poll(&mut cx).is_pending());
        assert_eq!(take(queue), ["gate", "a"]);
        assert!(matches!(drain.as_mut().poll(&mut cx), Poll::Ready(report) if report.complete));
    },
];

/// The inbox contains several adds of an in-flight key and the drop of its guard. Operations in the inbox must be
/// applied in the order of the calls.
#[test]
fn late_operations_keep_their_order() {
    let (queue, _clock, gate) = queue(Box::new(Fifo::default()), None);
    queue.add("held");
    let held = queue.try_get().unwrap();
    gate.hold(&queue, "gate", || {
        ["a", "held", "b", "a"].into_iter().for_each(|key| queue.add(key));
        held.done();
        queue.add("c");
    });
    assert_eq!(take(&queue), ["gate", "a", "b", "held", "c"]);
}

/// Creates a queue whose limiter blocks `forget`, under the lock, until another operation has found the lock contended.
fn contended<K: Eq + Send + 'static>() -> (WorkQueue<K, Opener>, Opener, Gate, InMemoryProvider) {
    let (memory, (gate, bar)) = (InMemoryProvider::new(), gate());
    let (clock, limiter) = (gate.opener(), Box::new(GatedLimiter(bar)));
    let metrics = Some(Arc::new(memory.clone()) as Arc<dyn Provider>);
    let queue = WorkQueue::new(QueueConfig { limiter, metrics, ..QueueConfig::new(clock.clone()) });
    (queue, clock, gate, memory)
}

/// The next call applies up to 64 operations from the inbox. If the inbox is full, the next operation waits for the
/// lock and applies the operations in the inbox.
#[test]
fn inbox_is_limited_to_64_operations() {
    let (queue, clock, gate, memory) = contended();
    let made = || memory.value("workqueue_adds_total", &[]);
    gate.hold_by(
        || queue.forget(&0),
        || {
            (0..64).for_each(|key| queue.add(key));
            assert_eq!(made(), Some(0.0), "all operations are in the inbox");
            clock.opens_next();
            queue.add(64);
        },
    );
    assert_eq!(made(), Some(65.0));
    let taken: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).map(|item| *item).collect();
    assert_eq!(taken, (0..65).collect::<Vec<_>>());
}

/// While a worker waits for a key, an add waits for the lock, because it must wake this worker.
#[test]
fn no_worker_sleeps_while_an_add_is_late() {
    let (queue, clock, gate, _) = contended();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut get = pin!(queue.get());
    {
        let mut gone = pin!(queue.get());
        assert!(gone.as_mut().poll(&mut cx).is_pending() && get.as_mut().poll(&mut cx).is_pending());
    }
    gate.hold_by(
        || queue.forget(&"a"),
        || {
            clock.opens_next();
            queue.add("a");
        },
    );
    assert_eq!(wakes.count(), 1);
    assert!(matches!(get.as_mut().poll(&mut cx), Poll::Ready(Some(item)) if *item == "a"));
}

/// While a drain waits, dropping a guard waits for the lock, because it may end the drain.
#[test]
fn no_drain_waits_while_a_done_is_late() {
    let (queue, clock, gate, _) = contended();
    queue.add("a");
    let item = queue.try_get().unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishInFlight));
    assert!(drain.as_mut().poll(&mut cx).is_pending());
    gate.hold_by(
        || queue.forget(&"a"),
        || {
            clock.opens_next();
            item.done();
        },
    );
    assert_eq!(wakes.count(), 1);
    assert!(matches!(drain.as_mut().poll(&mut cx), Poll::Ready(report) if report.complete));
}

/// If the inbox stayed closed after a wait, every later add and dropped guard would have to wait for the lock.
#[test]
fn inbox_reopens_after_the_last_waiter_leaves() {
    for finds_a_key in [false, true] {
        let (queue, _clock, gate) = queue(Box::new(Fifo::default()), None);
        let mut cx = Context::from_waker(Waker::noop());
        {
            let (mut first, mut last) = (pin!(queue.get()), pin!(queue.get()));
            assert!(first.as_mut().poll(&mut cx).is_pending() && last.as_mut().poll(&mut cx).is_pending());
            if finds_a_key {
                ["b", "c"].into_iter().for_each(|key| queue.add(key));
                assert!(first.as_mut().poll(&mut cx).is_ready() && last.as_mut().poll(&mut cx).is_ready());
            }
        }
        queue.add("held");
        let held = queue.try_get().unwrap();
        gate.hold(&queue, "gate", || {
            queue.add("a");
            held.done();
        });
        assert_eq!(take(&queue), ["gate", "a"]);
    }
}

/// Durations are measured from the time of the call, even if the call goes through the inbox.
#[test]
fn metrics_use_the_original_times_of_late_operations() {
    let memory = InMemoryProvider::new();
    let (queue, clock, gate) = queue(Box::new(Fifo::default()), Some(Arc::new(memory.clone())));
    let durations = |name: &str| {
        let found = memory.distribution(name, &[]).unwrap();
        (found.count(), Duration::from_secs_f64(found.sum()))
    };
    queue.add("held");
    let held = queue.try_get().unwrap();
    clock.advance(SECOND);
    gate.hold(&queue, "gate", || {
        queue.add("a");
        clock.advance(SECOND);
        held.done();
        clock.advance(SECOND);
    });
    assert_eq!(memory.value("workqueue_oldest_queued_seconds", &[]), Some(2.0));
    assert_eq!(memory.value("workqueue_unfinished_work_seconds", &[]), Some(0.0));
    assert_eq!(
        (memory.value("workqueue_depth", &[]), memory.value("workqueue_adds_total", &[])),
        (Some(2.0), Some(3.0))
    );
    assert_eq!(durations("workqueue_work_duration_seconds"), (1, 2 * SECOND));
    assert_eq!(take(&queue), ["gate", "a"]);
    // Two keys were added after one second and dequeued after three seconds.
    assert_eq!(durations("workqueue_queue_duration_seconds"), (3, 4 * SECOND));
}

/// A key begins to age when it is added. A key that is added more than one step later therefore does not overtake it,
/// even with a priority one level higher.
#[test]
fn ageing_of_a_late_add_starts_at_the_call() {
    let (queue, clock, gate) = queue(Box::new(Priority::with_ageing(SECOND)), None);
    gate.hold(&queue, "gate", || {
        queue.add("old");
        clock.advance(SECOND + Duration::from_nanos(10));
    });
    queue.add_with("new", at(1));
    assert_eq!(take(&queue), ["gate", "old", "new"]);
}

/// Failures expire a fixed time after the drop of the guard, even if the drop is applied much later.
#[test]
fn failures_of_a_late_done_expire_afterwards() {
    let clock = ManualClock::new();
    let (order, gate) = gated(Box::new(Fifo::default()), |key| *key == "gate");
    let config = QueueConfig { order, keep_failures: Some(10 * SECOND), ..QueueConfig::new(clock.clone()) };
    let queue: Queue = WorkQueue::new(config);
    queue.add_rate_limited("held");
    clock.advance(SECOND);
    let held = queue.try_get().unwrap();
    gate.hold(&queue, "gate", || held.done());
    clock.advance(9 * SECOND);
    assert_eq!(queue.num_requeues(&"held"), 1);
    clock.advance(SECOND);
    assert_eq!(queue.num_requeues(&"held"), 0);
}
