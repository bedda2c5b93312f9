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
/// An [`Order`] gets a ticket by `push`. The ticket stands for that key until it is popped; afterwards it may stand for another
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u32);

impl Ticket {
    /// A small number that is unique among the keys that are in the queue at the same time: good as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The order in which queued keys are handed out: client-go's `Queue` interface.
///
/// A ticket is in the order at most once. All calls are made under the queue's lock, so none may call the queue, and none
/// should block. `now` is in nanoseconds since the queue was made, or 0 if [`needs_time`](Order::needs_time) is false.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{Order, Queue, QueueConfig, Ticket};
///
/// #[derive(Debug, Default)]
/// struct LastInFirstOut(Vec<Ticket>);
///
/// impl<K> Order<K> for LastInFirstOut {
///     fn push(&mut self, ticket: Ticket, _key: &K, _priority: i32, _now: u64) {
///         self.0.push(ticket);
///     }
///
///     fn pop(&mut self) -> Option<Ticket> {
///         self.0.pop()
///     }
///
///     fn len(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let order = Box::new(LastInFirstOut::default());
/// let queue: Queue<&str> = Queue::new(QueueConfig { order, ..QueueConfig::default() });
/// queue.add("a");
/// queue.add("b");
/// assert_eq!(queue.blocking_get().as_deref(), Some(&"b"));
/// ```
pub trait Order<K>: Send + fmt::Debug {
    /// Queues `ticket`, the ticket of `key`, with `priority`.
    fn push(&mut self, ticket: Ticket, key: &K, priority: i32, now: u64);

    /// Takes out the next ticket. There is no other way for a ticket to leave.
    fn pop(&mut self) -> Option<Ticket>;

    /// `key`, which is queued, has been added again; `priority` is the highest that it was added with since the last hand-out.
    fn touch(&mut self, ticket: Ticket, key: &K, priority: i32, now: u64) {
        let _ = (ticket, key, priority, now);
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
