//! First in, first out.

use std::collections::VecDeque;

use super::{Order, Ticket};

/// First in, first out: the default. Priorities are ignored.
#[derive(Debug, Default)]
pub struct Fifo {
    tickets: VecDeque<Ticket>,
}

const KEEP: usize = 256;

impl<K> Order<K> for Fifo {
    fn push(&mut self, ticket: Ticket, _key: &K, _priority: i32, _now: u64) {
        self.tickets.push_back(ticket);
    }

    fn pop(&mut self) -> Option<Ticket> {
        let ticket = self.tickets.pop_front();
        if self.tickets.capacity() > KEEP && self.tickets.len() < self.tickets.capacity() / 4 {
            self.tickets.shrink_to(self.tickets.capacity() / 2);
        }
        ticket
    }

    fn len(&self) -> usize {
        self.tickets.len()
    }
}
