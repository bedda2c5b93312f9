//! The trait that all queues implement.

use std::hash::Hash;

use crate::delta_fifo::{DeltaFifo, Popped};
use crate::heap::Heap;
use crate::latest_fifo::{Latest, LatestFifo};
use crate::real_fifo::{PoppedItem, RealFifo};

/// A queue that a [`SharedFifo`](crate::SharedFifo) can share. The trait has no methods to add items, because these
/// methods differ between queues.
pub trait Queue {
    /// The type of popped items.
    type Popped;

    /// Removes and returns the next item, or `None` if the queue is empty. `pop` also marks the previously popped item
    /// as [processed](Self::processed).
    fn pop(&mut self) -> Option<Self::Popped>;

    /// Marks the items that were popped so far as processed.
    fn processed(&mut self);

    /// Returns `true` if the consumer has processed the first list. A change before the first list also marks the queue
    /// as synced.
    fn has_synced(&self) -> bool;

    /// Closes the queue. The remaining items can still be popped.
    fn close(&mut self);

    /// Returns `true` if the queue is closed.
    fn is_closed(&self) -> bool;

    /// Returns the number of queued items.
    fn len(&self) -> usize;

    /// Returns `true` if the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if the queue uses known objects. A consumer of a queue with known objects must update these
    /// objects with each popped item before it calls the queue again.
    fn has_known_objects(&self) -> bool;
}

/// Implements `Queue` with the inherent methods of a queue. Callers of the inherent methods do not need to import the
/// trait.
macro_rules! queue {
    ($Queue:ident, $Popped:ty) => {
        impl<K: Clone + Eq + Hash, T: Clone> Queue for $Queue<K, T> {
            type Popped = $Popped;

            fn pop(&mut self) -> Option<$Popped> {
                self.pop()
            }

            fn processed(&mut self) {
                self.processed();
            }

            fn has_synced(&self) -> bool {
                self.has_synced()
            }

            fn close(&mut self) {
                self.close();
            }

            fn is_closed(&self) -> bool {
                self.is_closed()
            }

            fn len(&self) -> usize {
                self.len()
            }

            fn has_known_objects(&self) -> bool {
                self.has_known_objects()
            }
        }
    };
}

queue!(DeltaFifo, Popped<K, T>);
queue!(LatestFifo, Latest<K, T>);
queue!(RealFifo, PoppedItem<K, T>);

/// `has_synced` always returns `true`, because a heap has no lists.
impl<K: Clone + Eq + Hash, T: Clone> Queue for Heap<K, T> {
    type Popped = T;

    fn pop(&mut self) -> Option<T> {
        self.pop()
    }

    fn processed(&mut self) {}

    fn has_synced(&self) -> bool {
        true
    }

    fn close(&mut self) {
        self.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn has_known_objects(&self) -> bool {
        false
    }
}
