//! Orders that do not keep to what [`Order`] asks of them: the queue says so, or goes on.

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Order, QueueConfig, Queued, Ticket, TryGetError, WorkQueue};

use crate::panics::{assert_drains, panics};

/// Hands out what came first, for ever.
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

/// Else two workers would have it at once, or one what nobody has added.
#[test]
fn an_order_that_hands_out_what_is_not_queued_is_found_out() {
    let order = Box::new(Stuck::default());
    let queue = WorkQueue::new(QueueConfig { order, ..QueueConfig::new(ManualClock::new()) });
    queue.add("a");
    let held = queue.try_get().unwrap();
    queue.add("b");
    let told = "the order has handed out what is not queued";
    assert_eq!(panics(|| drop(queue.try_get())), told);
    drop(held);
    assert_eq!(panics(|| drop(queue.try_get())), told, "it is gone by now");
    assert_eq!((queue.counts().in_flight, queue.len()), (0, 1));
}

/// An order that loses what it is given.
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

/// Nobody waits for what will not come.
#[test]
fn what_an_order_has_lost_is_not_queued() {
    let queue = WorkQueue::new(QueueConfig { order: Box::new(Lost), ..QueueConfig::new(ManualClock::new()) });
    queue.add("a");
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty);
    assert_eq!(queue.len(), 0);
    assert_drains(&queue);
}
