//! The queue that threads and tasks share: the engine, a lock around it, and those who wait.

mod drain;
mod get;
mod inbox;
mod item;
mod shared;
mod waiters;

use std::fmt;
use std::hash::Hash;

use pintle_ratelimit::{Clock, StdClock, Timer};

pub use drain::{Drain, ShutdownMode, ShutdownReport};
pub use get::Get;
pub use item::WorkItem;

pub(crate) use shared::Shared;

use crate::config::QueueConfig;
use crate::engine::{Added, Counts, KeyState};
use crate::sync::Arc;

/// A queue of keys that hands out each key to one worker at a time, and at most once for any number of adds.
///
/// Handles are cheap to clone, and all of them are the same queue. It serves plain threads
/// ([`blocking_get`](Queue::blocking_get)) and tasks of any executor ([`get`](Queue::get)) at the same time.
///
/// The `Eq`, `Clone` and `Drop` of a key may run under the queue's lock, so they must not use the queue. A panic in the `Eq` loses
/// the add that it is about, and comes out of whatever call made that add, perhaps another thread's; never out of a drop.
///
/// The number of keys is bounded by the number of distinct keys that are added: adding one again takes no memory.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::Queue;
///
/// let queue: Queue<&str> = Queue::default();
/// queue.add("a");
/// queue.add("b");
/// queue.add("a");
/// assert_eq!(queue.len(), 2);
///
/// let item = queue.blocking_get().expect("the queue is not shut down");
/// assert_eq!(*item, "a");
/// queue.add("a"); // Noted, but nobody else gets "a" before this guard is gone.
/// drop(item);
/// ```
pub struct Queue<K, C = StdClock> {
    pub(crate) shared: Arc<Shared<K, C>>,
}

/// Why [`Queue::try_get`] has nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryGetError {
    /// Nothing may be handed out now.
    Empty,
    /// The queue is shutting down and has nothing to hand out.
    ShutDown,
}

impl<K, C: Clock> Queue<K, C> {
    /// An empty queue. [`default`](Self::default) gives one with the default configuration.
    pub fn new(config: QueueConfig<K, C>) -> Self {
        Self { shared: Arc::new(Shared::new(config)) }
    }

    /// How many keys wait to be handed out: not those in flight, added again or not, nor those that are delayed.
    pub fn len(&self) -> usize {
        self.counts().queued
    }

    /// Whether no key waits to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys there are in each state. A key whose delay is over is queued.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// The name from the [`QueueConfig`].
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown_mode().is_some()
    }

    /// How the queue is being shut down, if it is.
    pub fn shutdown_mode(&self) -> Option<ShutdownMode> {
        self.shared.shutdown_mode()
    }
}

impl<K: Hash + Eq, C: Clock> Queue<K, C> {
    /// Marks `key` as having work to do.
    ///
    /// A key that is queued already stays where it is. A key that is in flight is queued when its guard is gone, and only
    /// once for any number of adds.
    ///
    /// If another thread is at the queue, it waits for its turn; that is at most the length of one locked section of each
    /// thread before it. There is one exception: while nobody waits in `get`, and if the queue neither keeps metrics nor has an
    /// order that needs the time, up to 256 adds do not wait. Their keys are [`Accepted`](Added::Accepted), and are there for
    /// whatever is called next.
    pub fn add(&self, key: K) -> Added {
        self.shared.add(key, 0)
    }

    /// [`add`](Self::add) with a priority, for an [`Order`](crate::Order) that looks at it. Larger is sooner. A key that is
    /// queued keeps the highest priority that it was added with.
    pub fn add_with_priority(&self, key: K, priority: i32) -> Added {
        self.shared.add(key, priority)
    }
}

impl<K: Hash + Eq + Clone, C: Clock> Queue<K, C> {
    /// Takes the next key, without waiting for one.
    ///
    /// # Errors
    ///
    /// [`TryGetError`] says whether there may be one later.
    pub fn try_get(&self) -> Result<WorkItem<K, C>, TryGetError> {
        self.shared.try_get()
    }

    /// Takes the next key; blocks the thread until there is one. `None` once the queue is shutting down and has nothing
    /// left to hand out.
    ///
    /// The waiting thread itself keeps the time until the earliest delay is over.
    pub fn blocking_get(&self) -> Option<WorkItem<K, C>> {
        get::blocking(&self.shared)
    }

    /// Takes the next key; waits until there is one. `None` once the queue is shutting down and has nothing left to hand
    /// out.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: a key is handed out only by the poll that returns it, and a wake-up that the
    /// future had received is passed on to another waiter.
    pub fn get(&self) -> Get<'_, K, C>
    where
        C: Timer,
    {
        Get::new(&self.shared)
    }

    /// What the queue knows of each key, in no particular order: for debugging. It holds the lock while it copies all keys.
    pub fn snapshot(&self) -> Vec<KeyState<K>> {
        self.shared.lock().engine.snapshot()
    }

    /// Begins to shut down, or tightens a shutdown that has begun; never loosens one. The returned [`Drain`] waits until that
    /// is over. Drop it if you do not want to wait.
    ///
    /// Adds are refused from now on and delays no longer ripen.
    pub fn shut_down(&self, mode: ShutdownMode) -> Drain<K, C> {
        self.shared.shut_down(mode);
        Drain::new(Arc::clone(&self.shared))
    }
}

impl<K, C> Clone for Queue<K, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K, C: Clock + Default> Default for Queue<K, C> {
    fn default() -> Self {
        Self::new(QueueConfig::default())
    }
}

impl<K, C> fmt::Debug for Queue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl fmt::Display for TryGetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the queue has nothing to hand out now",
            Self::ShutDown => "the queue is shut down",
        })
    }
}

impl std::error::Error for TryGetError {}
