//! Tests of `remove`, which removes keys from the queue.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pintle_metrics::InMemoryProvider;
use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Fair, Fifo, MetricsStyle, Order, Priority, QueueConfig, ShutdownMode, WorkQueue};

use crate::support::at;

type Queue = WorkQueue<&'static str, ManualClock>;

const SECOND: Duration = Duration::from_secs(1);

fn queue(order: Box<dyn Order<&'static str>>) -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(QueueConfig { order, ..QueueConfig::new(clock.clone()) }), clock)
}

fn orders() -> [Box<dyn Order<&'static str>>; 4] {
    [
        Box::new(Fifo::default()),
        Box::new(Priority::strict()),
        Box::new(Priority::with_ageing(SECOND)),
        Box::new(Fair::new(|key: &&str| key.len())),
    ]
}

fn take(queue: &Queue) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.try_get().ok()).map(|item| *item).collect()
}

#[test]
fn removed_key_is_not_dequeued() {
    for order in orders() {
        let (queue, _clock) = queue(order);
        for key in ["a", "b", "c", "d", "e"] {
            queue.add(key);
        }
        for key in ["a", "c", "e"] {
            assert!(queue.remove(&key));
            assert!(!queue.remove(&key), "{key} was already removed: {queue:?}");
        }
        assert!(!queue.remove(&"f"), "f was never added");
        assert_eq!((queue.len(), queue.snapshot().len()), (2, 2));
        assert_eq!(take(&queue), ["b", "d"]);
        queue.add("a");
        assert_eq!(take(&queue), ["a"], "a removed key can be added again");
    }
}

#[test]
fn key_with_raised_priority_is_removed_correctly() {
    for order in orders() {
        let (queue, _clock) = queue(order);
        queue.add("a");
        queue.add("b");
        queue.add_with("a", at(3));
        assert!(queue.remove(&"a"));
        assert_eq!(take(&queue), ["b"]);
    }
}

#[test]
fn remove_undoes_an_add_of_an_in_flight_key() {
    let (queue, _clock) = queue(Box::new(Fifo::default()));
    queue.add("a");
    let item = queue.try_get().unwrap();
    assert!(!queue.remove(&"a"), "the key was not added since it was dequeued");
    queue.add("a");
    assert!(queue.remove(&"a"));
    assert_eq!((queue.counts().in_flight, queue.counts().dirty_in_flight), (1, 0));
    item.done();
    assert!(queue.snapshot().is_empty());
}

/// Removing a key does not reset its failure count.
#[test]
fn remove_keeps_a_pending_delay() {
    let (queue, clock) = queue(Box::new(Fifo::default()));
    queue.add_rate_limited("a");
    let deadline = queue.snapshot()[0].delay;
    queue.add("a");
    assert!(queue.remove(&"a"));
    assert!(!queue.remove(&"a"), "a pending delay is not an add");
    assert_eq!((queue.snapshot()[0].delay, queue.num_requeues(&"a")), (deadline, 1));
    clock.advance(SECOND);
    assert!(queue.remove(&"a"), "the delay has ended");
    assert_eq!((take(&queue), queue.num_requeues(&"a")), (vec![], 1));
}

#[test]
fn removal_of_the_last_key_ends_the_drain() {
    let (queue, _clock) = queue(Box::new(Fifo::default()));
    queue.add("a");
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(drain.as_mut().poll(&mut cx).is_pending());
    assert!(queue.remove(&"a"));
    assert!(matches!(drain.as_mut().poll(&mut cx), Poll::Ready(report) if report.complete));
    assert!(queue.blocking_get().is_none());
}

/// No queue duration is reported for a key that was removed instead of dequeued.
#[test]
fn removal_lowers_the_depth() {
    let (memory, clock) = (InMemoryProvider::new(), ManualClock::new());
    let queue = WorkQueue::new(QueueConfig {
        order: Box::new(Priority::strict()),
        metrics: Some(Arc::new(memory.clone())),
        metrics_style: MetricsStyle::ControllerRuntime,
        ..QueueConfig::new(clock.clone())
    });
    queue.add_with("a", at(1));
    queue.add_with("a", at(2));
    clock.advance(SECOND);
    queue.add_with("b", at(1));
    clock.advance(SECOND);
    assert!(queue.remove(&"a"));
    for (priority, depth) in [("1", 1.0), ("2", 0.0)] {
        assert_eq!(memory.value("workqueue_depth", &[("priority", priority)]), Some(depth), "{priority}");
    }
    assert_eq!(memory.value("workqueue_oldest_queued_seconds", &[]), Some(1.0));
    assert_eq!(memory.distribution("workqueue_queue_duration_seconds", &[]).unwrap().count(), 0);
    assert_eq!(memory.value("workqueue_adds_total", &[]), Some(2.0));
}
