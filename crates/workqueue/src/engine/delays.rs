//! The keys that wait for a deadline, the earliest first.

use crate::order::Ticket;

/// What waits for a deadline: a min-heap of (deadline, ticket).
///
/// A change of mind leaves the old entry in place. It is stale, which the caller sees from the record, and is passed over
/// when it comes to the top; when stale entries outnumber the live ones all are swept.
#[derive(Debug, Default)]
pub(super) struct Delays {
    heap: Vec<Entry>,
}

/// The deadline is in two halves, so that the entry takes 12 bytes and not 16.
#[derive(Clone, Copy, Debug)]
struct Entry {
    high: u32,
    low: u32,
    ticket: Ticket,
}

/// Children per node. Four share a cache line, and the heap is half as deep.
const ARITY: usize = 4;
const KEEP: usize = 256;

impl Delays {
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub(super) fn push(&mut self, deadline: u64, ticket: Ticket) {
        self.heap.push(Entry { high: (deadline >> 32) as u32, low: deadline as u32, ticket });
        self.sift_up(self.heap.len() - 1);
    }

    /// The earliest entry that `is_live`. Stale ones before it are dropped.
    pub(super) fn peek(&mut self, is_live: impl Fn(u64, Ticket) -> bool) -> Option<u64> {
        while let Some(first) = self.heap.first() {
            if is_live(first.deadline(), first.ticket) {
                return Some(first.deadline());
            }
            self.pop();
        }
        None
    }

    /// Removes the first entry if its deadline has come. It may be stale.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<(u64, Ticket)> {
        let first = *self.heap.first()?;
        (first.deadline() <= now).then(|| {
            self.pop();
            (first.deadline(), first.ticket)
        })
    }

    /// Sweeps if more than half of the entries are stale, given how many are live.
    pub(super) fn sweep(&mut self, live: usize, is_live: impl Fn(u64, Ticket) -> bool) {
        if self.heap.len() > 2 * live + KEEP {
            self.heap.retain(|entry| is_live(entry.deadline(), entry.ticket));
            self.heap.shrink_to(2 * self.heap.len());
            for at in (0..self.heap.len().div_ceil(ARITY)).rev() {
                self.sift_down(at);
            }
        }
    }

    fn pop(&mut self) {
        let Some(last) = self.heap.pop() else { return };
        if let Some(first) = self.heap.first_mut() {
            *first = last;
            self.sift_down(0);
        }
        if self.heap.capacity() > KEEP && self.heap.len() < self.heap.capacity() / 4 {
            self.heap.shrink_to(self.heap.capacity() / 2);
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].deadline() <= entry.deadline() {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let first = at * ARITY + 1;
            let children = &self.heap[first.min(self.heap.len())..(first + ARITY).min(self.heap.len())];
            let Some((offset, child)) = children.iter().enumerate().min_by_key(|(_, child)| child.deadline()) else {
                break;
            };
            if child.deadline() >= entry.deadline() {
                break;
            }
            self.heap[at] = *child;
            at = first + offset;
        }
        self.heap[at] = entry;
    }
}

impl Entry {
    fn deadline(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}
