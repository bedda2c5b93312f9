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
    /// Nanoseconds since the queue was made, or 0 if [`Order::needs_time`] is false.
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
