//! The highest priority first, with ageing or without.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Order, Ticket};
use crate::engine::nanos;

/// Highest priority first, first in first out among equals. With [ageing](Priority::with_ageing) nothing starves.
///
/// A key whose priority is raised goes behind those that have that priority already; a lower one changes nothing.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{Priority, Queue, QueueConfig};
///
/// let config = QueueConfig { order: Box::new(Priority::strict()), ..QueueConfig::default() };
/// let queue: Queue<&str> = Queue::new(config);
/// queue.add_with_priority("resync", -100);
/// queue.add("change");
/// assert_eq!(queue.blocking_get().as_deref(), Some(&"change"));
/// ```
#[derive(Debug)]
pub struct Priority {
    /// The waiting time that is worth as much as one level.
    step: Option<u64>,
    heap: BinaryHeap<Reverse<Entry>>,
    /// The entry that counts, by ticket. Others in the heap are left over from before a raise.
    current: Vec<Option<Place>>,
    len: usize,
    next: u64,
    /// Pops since `current` grew. As many as it has entries pay for growing it again.
    pops: usize,
}

/// What is handed out first is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Without ageing, the negated priority. With it, the time of the push less one step a level: since all keys age at the
    /// same speed, the order between two of them never changes, and there is no need to look at the time again.
    rank: i64,
    sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    place: Place,
    ticket: Ticket,
}

const KEEP: usize = 256;

impl Priority {
    /// A key waits as long as there is one of higher priority: a steady flow of those starves it, as in controller-runtime.
    pub fn strict() -> Self {
        Self { step: None, heap: BinaryHeap::new(), current: Vec::new(), len: 0, next: 0, pops: 0 }
    }

    /// A key gains a level for each `step` that it waits.
    ///
    /// So a key of priority `p` that was queued at time `t` comes before every key of priority `q > p` that is queued after
    /// `t + (q - p) * step`: only what arrives within that time can delay it.
    pub fn with_ageing(step: Duration) -> Self {
        Self { step: Some(nanos(step)), ..Self::strict() }
    }

    fn place(&mut self, priority: i32, now: u64) -> Place {
        let sequence = self.next;
        self.next += 1;
        let rank = match self.step {
            None => -i64::from(priority),
            Some(step) => {
                let step = i64::try_from(step).unwrap_or(i64::MAX);
                let ahead = step.saturating_mul(i64::from(priority));
                i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(ahead)
            }
        };
        Place { rank, sequence }
    }

    fn put(&mut self, ticket: Ticket, place: Place) {
        self.current[ticket.index()] = Some(place);
        self.heap.push(Reverse(Entry { place, ticket }));
    }

    fn shrink(&mut self) {
        if self.heap.capacity() > KEEP && self.heap.len() < self.heap.capacity() / 8 {
            self.heap.shrink_to(KEEP.max(4 * self.heap.len()));
        }
        if self.len == 0 && self.current.len() > 4 * KEEP && self.pops >= self.current.len() {
            self.heap.clear();
            self.current = Vec::new();
        }
    }
}

impl<K> Order<K> for Priority {
    fn push(&mut self, ticket: Ticket, _key: &K, priority: i32, now: u64) {
        if self.current.len() <= ticket.index() {
            self.current.resize(ticket.index() + 1, None);
            self.pops = 0;
        }
        self.len += 1;
        let place = self.place(priority, now);
        self.put(ticket, place);
    }

    fn pop(&mut self) -> Option<Ticket> {
        while let Some(Reverse(Entry { place, ticket })) = self.heap.pop() {
            let current = &mut self.current[ticket.index()];
            if *current == Some(place) {
                *current = None;
                self.len -= 1;
                self.pops += 1;
                self.shrink();
                return Some(ticket);
            }
        }
        None
    }

    fn touch(&mut self, ticket: Ticket, _key: &K, priority: i32, now: u64) {
        let place = self.place(priority, now);
        if self.current[ticket.index()].is_some_and(|current| place.rank < current.rank) {
            self.put(ticket, place);
            if self.heap.len() > 2 * self.len + KEEP {
                let current = &self.current;
                self.heap.retain(|Reverse(entry)| current[entry.ticket.index()] == Some(entry.place));
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn needs_time(&self) -> bool {
        self.step.is_some()
    }
}
