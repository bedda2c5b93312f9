//! Tests of orders that violate the contract of [`Order`]. With such an order, the queue must either panic with a
//! message or continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pintle_workqueue::ratelimit::{ManualClock, TokenBucket};
use pintle_workqueue::{Fair, Fifo, Order, QueueConfig, Queued, Ticket, TryGetError, WorkQueue};

use crate::panics::{assert_drains, panics};
use crate::support::at;
use crate::watch::{Wakes, ends};

#[derive(Debug, Default)]
struct Stuck(Vec<Ticket>);

impl<K> Order<K> for Stuck {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        self.0.push(key.ticket);
        0
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.0.first().copied()
    }

    fn remove(&mut self, _: Queued<'_, K>, _: u64) {}

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Without this panic, two workers could get the same key, or a worker could get a key that was never added.
#[test]
fn order_returning_an_unqueued_ticket_panics() {
    let order = Box::new(Stuck::default());
    let queue = WorkQueue::new(QueueConfig { order, ..QueueConfig::new(ManualClock::new()) });
    queue.add("a");
    let held = queue.try_get().unwrap();
    queue.add("b");
    let message = "the order returned a ticket that is not queued";
    assert_eq!(panics(|| drop(queue.try_get())), message);
    drop(held);
    assert_eq!(panics(|| drop(queue.try_get())), message, "the ticket is no longer valid");
    assert_eq!((queue.counts().in_flight, queue.len()), (0, 1));
}

#[derive(Debug)]
struct Lost;

impl<K> Order<K> for Lost {
    fn push(&mut self, _: Queued<'_, K>) -> u64 {
        0
    }

    fn pop(&mut self) -> Option<Ticket> {
        None
    }

    fn remove(&mut self, _: Queued<'_, K>, _: u64) {}

    fn len(&self) -> usize {
        0
    }
}

#[test]
fn key_lost_by_the_order_is_not_queued() {
    let queue = WorkQueue::new(QueueConfig { order: Box::new(Lost), ..QueueConfig::new(ManualClock::new()) });
    queue.add("a");
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty);
    assert_eq!(queue.len(), 0);
    assert_drains(&queue);
}

/// An order that withholds its keys while its flag is set, and counts the calls of `pop`.
#[derive(Debug, Default)]
struct Paused(Fifo, Arc<AtomicBool>, Arc<AtomicUsize>);

impl<K> Order<K> for Paused {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        self.0.push(key)
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.2.fetch_add(1, Ordering::SeqCst);
        if self.1.load(Ordering::SeqCst) { None } else { Order::<K>::pop(&mut self.0) }
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        self.0.remove(key, place);
    }

    fn len(&self) -> usize {
        Order::<K>::len(&self.0)
    }
}

/// If the queue called `pop` again before a change, a waiting `get` would loop forever.
#[test]
fn withholding_order_is_polled_again_after_a_change() {
    let (order, clock) = (Paused::default(), ManualClock::new());
    let (paused, pops) = (Arc::clone(&order.1), Arc::clone(&order.2));
    let dequeue_limit = Some(TokenBucket::full(1.0, 2));
    let order = Box::new(order);
    let queue = WorkQueue::new(QueueConfig { order, dequeue_limit, ..QueueConfig::new(clock.clone()) });
    queue.add_all([0, 1]);
    let held = queue.try_get().unwrap();
    paused.store(true, Ordering::SeqCst);

    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut get = Box::pin(queue.get());
    let mut poll = || get.as_mut().poll(&mut Context::from_waker(&waker)).map(|item| item.map(|item| *item));
    assert!(poll().is_pending());
    let before = pops.load(Ordering::SeqCst);
    _ = (queue.counts(), queue.num_requeues(&1));
    clock.advance(Duration::from_millis(10));
    assert_eq!((wakes.count(), pops.load(Ordering::SeqCst), queue.len()), (0, before, 1));

    type Change = fn(&WorkQueue<i32, ManualClock>);
    let changes: [Change; 3] =
        [|queue| queue.add(2), |queue| _ = queue.add_with(1, at(1)), |queue| _ = queue.remove(&2)];
    for (change, wakes_so_far) in changes.into_iter().zip(1..) {
        change(&queue);
        assert_eq!(wakes.count(), wakes_so_far);
        assert!(poll().is_pending());
    }
    held.done();
    assert_eq!(wakes.count(), 4, "dropping a guard wakes the waiter");
    paused.store(false, Ordering::SeqCst);
    assert_eq!(poll(), Poll::Ready(Some(1)), "no token was lost");
}

/// The orders of all tenants withhold their keys at first, so no key is available. After the orders stop
/// withholding them, the queue delivers all keys.
#[test]
fn keys_withheld_by_all_tenants_arrive_later() {
    ends(|| {
        let paused = Arc::new(AtomicBool::new(true));
        let pause = Arc::clone(&paused);
        let lane = move || Box::new(Paused(Fifo::default(), Arc::clone(&pause), Arc::default())) as Box<dyn Order<u32>>;
        let order = Box::new(Fair::with_lanes(|key: &u32| key % 3, lane));
        let queue = WorkQueue::new(QueueConfig { order, ..QueueConfig::new(ManualClock::new()) });
        queue.add_all(0..9);
        assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty);
        paused.store(false, Ordering::SeqCst);
        let mut taken: Vec<u32> = std::iter::from_fn(|| queue.try_get().ok()).map(|item| *item).collect();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..9));
    });
}
