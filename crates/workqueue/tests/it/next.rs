//! Tests of `next`, which marks a key as done and dequeues the next one.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{QueueConfig, ShutdownMode, WorkQueue};

use crate::watch::Wakes;

type Queue = WorkQueue<&'static str, ManualClock>;

fn queue(keys: &[&'static str]) -> Queue {
    let queue = Queue::new(QueueConfig::new(ManualClock::new()));
    keys.iter().for_each(|key| queue.add(*key));
    queue
}

/// The test adds a key again while it is in flight. `next` marks the key as done, which queues it again, and returns
/// it. No other waiter is woken for this key.
#[test]
fn next_is_done_and_get_in_one() {
    let queue = queue(&["a"]);
    let mut item = queue.try_get().unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut waits = pin!(queue.get());
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    for blocks in [true, false] {
        queue.add("a");
        item = if blocks {
            item.blocking_next().unwrap()
        } else {
            match pin!(item.next()).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(item) => item.unwrap(),
                Poll::Pending => panic!("a key is queued"),
            }
        };
        assert_eq!((*item, queue.counts().in_flight, wakes.count()), ("a", 1, 0));
    }
    queue.add("a");
    item.done();
    assert_eq!(wakes.count(), 1, "with two separate operations, the waiter is woken");
}

#[test]
fn next_returns_the_oldest_key_or_waits() {
    let queue = queue(&["a", "b"]);
    let item = queue.try_get().unwrap();
    queue.add("a");
    let item = item.blocking_next().unwrap();
    assert_eq!(*item, "b");
    let item = item.blocking_next().unwrap();
    assert_eq!((*item, queue.counts().in_flight), ("a", 1));
    let mut next = pin!(item.next());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(next.as_mut().poll(&mut cx).is_pending());
    assert_eq!(queue.counts().in_flight, 0, "the key is done while next waits");
    queue.add("c");
    assert!(matches!(next.as_mut().poll(&mut cx), Poll::Ready(Some(item)) if *item == "c"));
}

#[test]
fn next_dropped_before_its_first_poll_is_done() {
    let queue = queue(&["a"]);
    let item = queue.try_get().unwrap();
    queue.add("a");
    drop(item.next());
    assert_eq!((queue.counts().in_flight, queue.len()), (0, 1));
}

/// When the `next` future is dropped, the queue wakes another waiter.
#[test]
fn next_dropped_while_waiting_is_done() {
    let queue = queue(&["a"]);
    let item = queue.try_get().unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut other = pin!(queue.get());
    {
        let mut next = pin!(item.next());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(queue.counts().in_flight, 0);
        queue.add("b");
        assert_eq!(wakes.count(), 0, "the first waiter is woken");
    }
    assert_eq!(wakes.count(), 1);
    assert!(matches!(other.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Some(item)) if *item == "b"));
}

#[test]
fn next_returns_none_after_the_backlog() {
    let queue = queue(&["a"]);
    let item = queue.try_get().unwrap();
    queue.add("a");
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    let mut cx = Context::from_waker(Waker::noop());
    let item = item.blocking_next().expect("the key was added while it was in flight");
    assert!(drain.as_mut().poll(&mut cx).is_pending());
    assert!(item.blocking_next().is_none());
    assert!(matches!(drain.as_mut().poll(&mut cx), Poll::Ready(report) if report.complete));
}
