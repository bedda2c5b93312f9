//! Which of the queued keys is next.

mod fair;
mod fifo;
mod priority;

use std::fmt;

pub use fair::Fair;
pub use fifo::Fifo;
pub use priority::Priority;

/// Names a queued key within one queue. Small, and copied instead of the key.
///
/// An [`Order`] gets a ticket by `push`. The ticket stands for that key until it is popped or removed; afterwards it may stand for
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u32);

/// A key as an [`Order`] sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Queued<'a, K> {
    /// What the order has to give back by `pop`.
    pub ticket: Ticket,
    /// The key.
    pub key: &'a K,
    /// The highest priority that it was added with since the last hand-out.
    pub priority: i32,
    /// When the key was added or its delay ended, in nanoseconds since the queue was made; 0 if [`Order::needs_time`] is false. It can be
    /// earlier than that of a key that came before: a key whose delay has ended may be noticed late.
    pub now: u64,
}

/// The order in which queued keys are handed out: client-go's `Queue` interface.
///
/// A ticket is in the order at most once. All calls are made under the queue's lock, so none may call the queue, and none
/// should block or take long. If one panics, the panic comes out of the call of the queue that it was made for, and the key that
/// it was about is not queued.
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
    /// Queues a key. The answer is a number of the order's own: its place, which the order is told when it has to find the key
    /// again.
    fn push(&mut self, key: Queued<'_, K>) -> u64;

    /// Takes out the next ticket.
    ///
    /// An order that is not empty may return `None` to withhold its keys. A waiting `get` asks it again after the next call that changes
    /// what is queued or in flight: an add, the end of a guard, a removal, or the end of a delay.
    fn pop(&mut self) -> Option<Ticket>;

    /// Takes out a key that stands at `place`.
    fn remove(&mut self, key: Queued<'_, K>, place: u64);

    /// A key that stands at `place` has been added again; the highest priority that it was added with is `priority` from now on.
    /// The answer is its place from now on. Unless an order says otherwise, that does not change.
    fn touch(&mut self, key: Queued<'_, K>, place: u64, priority: i32) -> u64 {
        let _ = (key, priority);
        place
    }

    /// How many tickets are queued.
    fn len(&self) -> usize;

    /// Whether no ticket is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this order looks at the time. If not, the queue need not read the clock.
    fn needs_time(&self) -> bool {
        false
    }
}

impl Ticket {
    /// A small number that is unique among the keys that are in the queue at the same time: good as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An order, said as simply as it can be: a list.
    pub(crate) trait Naive {
        fn push(&mut self, ticket: Ticket, key: u32, priority: i32, now: u64);
        fn pop(&mut self) -> Option<Ticket>;
        fn remove(&mut self, ticket: Ticket);
        fn touch(&mut self, ticket: Ticket, priority: i32);
    }

    pub(crate) fn config() -> ProptestConfig {
        ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }
    }

    /// A cheap source of numbers that are random enough.
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

    /// Some thousand keys come, are touched, and go, in one way or the other.
    pub(crate) fn compare(mut order: impl Order<u32>, mut naive: impl Naive, mut seed: u64) {
        let (mut live, mut free, mut now) = (Vec::<Live>::new(), Vec::new(), 0);
        let (mut weights, mut next) = ([0; 4], 0);
        for step in 0..20_000 {
            if step % 2000 == 0 {
                // Now it gets more, now less, and by other ways.
                weights = [(); 4].map(|()| 1 + dice(&mut seed, 4));
            }
            now += 1 + dice(&mut seed, 3);
            // Some keys are noticed late.
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
