//! The contract of queues.

use std::hash::Hash;

use crate::{DeltaFifo, Heap, Latest, LatestFifo, Popped, PoppedItem, RealFifo};

/// A queue, as a [`SharedFifo`](crate::SharedFifo) needs it. How something comes in differs from one to the other.
pub trait Queue {
    /// What is taken out.
    type Popped;

    /// Takes out what has its turn. The call also says that what was taken out before has been [processed](Self::processed). None:
    /// nothing waits.
    fn pop(&mut self) -> Option<Self::Popped>;

    /// Marks the popped items as processed.
    fn processed(&mut self);

    /// Whether the first list has been processed, if it came before anything else. If something else came first, it is true from
    /// then on.
    fn has_synced(&self) -> bool;

    /// Closes the queue. Queued items can still be popped.
    fn close(&mut self);

    /// Returns whether the queue is closed.
    fn is_closed(&self) -> bool;

    /// Returns the number of queued items.
    fn len(&self) -> usize;

    /// Returns whether the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it looks at the objects that its consumer knows. Then these have to be brought up to date with what is popped before
    /// anything else is done to the queue.
    fn has_known_objects(&self) -> bool;
}

/// Each queue has these as methods of its own as well, so that who has one queue needs no trait.
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

/// It has no lists, so there is none to wait for.
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
