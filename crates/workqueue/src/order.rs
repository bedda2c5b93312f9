//! The order of queued keys.

mod fair;
mod fifo;
mod priority;

use std::fmt;

pub use fair::Fair;
pub use fifo::Fifo;
pub use priority::Priority;

/// A number that identifies a queued key within its queue. Tickets are small and `Copy`.
///
/// The queue passes a ticket to [`Order::push`]. The ticket identifies the pushed key until it is popped or removed.
/// After the key was popped or removed, the queue may reuse the ticket for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u32);

/// A queued key, as passed to an [`Order`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Queued<'a, K> {
    /// The ticket that `pop` must return for this key.
    pub ticket: Ticket,
    /// The queued key.
    pub key: &'a K,
    /// The highest priority of all adds since the key was last dequeued. If a delay of the key was pending at that time,
    /// earlier adds count too.
    pub priority: i32,
    /// When the key was added or its delay ended, in nanoseconds since the queue was created. The time is always 0 if
    /// [`Order::needs_time`] returns `false`. Times may be out of order, because the queue may notice late that a delay
    /// has ended.
    pub now: u64,
}

/// The order of the keys that a queue gives to workers, like client-go's `Queue` interface.
///
/// An order contains each ticket at most once. The methods run under the queue's lock, so they must not use the queue
/// or block, and should be fast. If a method panics, the panic propagates from the queue method that called it. If `push`
/// panics, the key is not queued.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{Order, QueueConfig, Queued, Ticket, WorkQueue};
///
/// #[derive(Debug, Default)]
/// struct LastInFirstOut(Vec<Ticket>);
///
/// impl<K> Order<K> for LastInFirstOut {
///     fn push(&mut self, key: Queued<'_, K>) -> u64 {
///         self.0.push(key.ticket);
///         0
///     }
///
///     fn pop(&mut self) -> Option<Ticket> {
///         self.0.pop()
///     }
///
///     fn remove(&mut self, key: Queued<'_, K>, _place: u64) {
///         self.0.retain(|ticket| *ticket != key.ticket);
///     }
///
///     fn len(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let order = Box::new(LastInFirstOut::default());
/// let queue: WorkQueue<&str> = WorkQueue::new(QueueConfig { order, ..QueueConfig::default() });
/// queue.add("a");
/// queue.add("b");
/// assert_eq!(queue.blocking_get().as_deref(), Some(&"b"));
/// ```
pub trait Order<K>: Send + fmt::Debug {
    /// Queues a key and returns its place, which is a number of the implementation's choice. The queue passes the place
    /// to later calls for this key, so that the order can find the key again.
    fn push(&mut self, key: Queued<'_, K>) -> u64;

    /// Removes the next key and returns its ticket.
    ///
    /// An order can return `None` to withhold its keys. While a `get` waits, the queue calls `pop` again each time the
    /// queued keys or the in-flight keys change: when a key is added or removed, when a guard is dropped, or when a
    /// delay ends.
    fn pop(&mut self) -> Option<Ticket>;

    /// Removes a queued key. `place` is the current place of the key.
    fn remove(&mut self, key: Queued<'_, K>, place: u64);

    /// Updates the place of a queued key that was added again, and returns the new place. The argument `place` is the
    /// previous place of the key. `priority` is the highest priority of all adds since the key was last dequeued. The
    /// default implementation returns the same place.
    fn touch(&mut self, key: Queued<'_, K>, place: u64, priority: i32) -> u64 {
        let _ = (key, priority);
        place
    }

    /// Returns the number of keys in this order.
    fn len(&self) -> usize;

    /// Returns `true` if this order contains no keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if this order uses [`Queued::now`]. The queue reads the clock less often if no component needs
    /// the time.
    fn needs_time(&self) -> bool {
        false
    }
}

impl Ticket {
    /// Returns the ticket's number. Keys that are in the queue at the same time have different numbers. The numbers are
    /// small enough to be used as vector indexes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A simple model of an order, which stores its keys in a list.
    pub(crate) trait Naive {
        fn push(&mut self, ticket: Ticket, key: u32, priority: i32, now: u64);
        fn pop(&mut self) -> Option<Ticket>;
        fn remove(&mut self, ticket: Ticket);
        fn touch(&mut self, ticket: Ticket, priority: i32);
    }

    pub(crate) fn config() -> ProptestConfig {
        ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }
    }

    pub(crate) fn dice(seed: &mut u64, sides: u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % sides
    }

    struct Live {
        ticket: Ticket,
        key: u32,
        priority: i32,
        place: u64,
    }

    pub(crate) fn compare(mut order: impl Order<u32>, mut naive: impl Naive, mut seed: u64) {
        let (mut live, mut free, mut now) = (Vec::<Live>::new(), Vec::new(), 0);
        let (mut weights, mut next) = ([0; 4], 0);
        for step in 0..20_000 {
            if step % 2000 == 0 {
                // Change the mix of operations over time, so that the order grows and shrinks.
                weights = [(); 4].map(|()| 1 + dice(&mut seed, 4));
            }
            now += 1 + dice(&mut seed, 3);
            let since = if dice(&mut seed, 4) == 0 { now - dice(&mut seed, now.min(100)) } else { now };
            let priority = dice(&mut seed, 5) as i32 - 2;
            let mut what = dice(&mut seed, weights.iter().sum());
            let op = weights.iter().position(|weight| {
                what < *weight || {
                    what -= *weight;
                    false
                }
            });
            let at = dice(&mut seed, live.len().max(1) as u64) as usize;
            match op {
                Some(0) => {
                    let ticket = free.pop().unwrap_or_else(|| {
                        next += 1;
                        Ticket(next - 1)
                    });
                    let key = dice(&mut seed, 1000) as u32;
                    let place = order.push(Queued { ticket, key: &key, priority, now: since });
                    naive.push(ticket, key, priority, since);
                    live.push(Live { ticket, key, priority, place });
                }
                Some(1) => {
                    let popped = order.pop();
                    assert_eq!(popped, naive.pop(), "after {step} steps");
                    live.retain(|live| Some(live.ticket) != popped);
                    free.extend(popped);
                }
                Some(2) if !live.is_empty() => {
                    let Live { ticket, key, priority, place } = live.swap_remove(at);
                    order.remove(Queued { ticket, key: &key, priority, now }, place);
                    naive.remove(ticket);
                    free.push(ticket);
                }
                Some(3) if !live.is_empty() => {
                    let Live { ticket, key, priority: old, place } = &mut live[at];
                    let raised = priority.max(*old);
                    *place = order.touch(Queued { ticket: *ticket, key, priority: *old, now }, *place, raised);
                    *old = raised;
                    naive.touch(*ticket, raised);
                }
                _ => {}
            }
            assert_eq!(order.len(), live.len());
        }
        while let Some(ticket) = naive.pop() {
            assert_eq!(order.pop(), Some(ticket));
        }
        assert_eq!((order.pop(), order.len()), (None, 0));
    }
}
