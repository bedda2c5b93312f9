//! The keys of a queue through the time.

use std::time::Duration;

use super::Instruments;
use crate::chunks::Chunks;
use crate::order::Ticket;

/// Follows the keys of a queue through the time, for its instruments. Exists only if there are any.
#[derive(Debug)]
pub(crate) struct Observer {
    instruments: Instruments,
    stamps: Stamps,
}

/// Since when keys have been dirty, and in flight.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    dirty: Ages,
    running: Ages,
}

/// Since when keys have been in a state: a list in the order in which they came into it, which is that of the times.
#[derive(Debug)]
pub(crate) struct Ages {
    /// By ticket.
    links: Chunks<Link>,
    first: u32,
    last: u32,
    count: usize,
    /// The sum of the times.
    sum: u128,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    since: u64,
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;

impl Observer {
    pub(super) fn new(instruments: Instruments) -> Self {
        Self { instruments, stamps: Stamps::default() }
    }

    pub(crate) fn added(&mut self, ticket: Ticket, priority: i32, now: u64) {
        self.stamps.dirty.enter(ticket, now);
        self.instruments.depth(priority, 1);
        self.instruments.adds.add(1);
    }

    pub(crate) fn raised(&mut self, from: i32, to: i32) {
        self.instruments.depth(from, -1);
        self.instruments.depth(to, 1);
    }

    pub(crate) fn removed(&mut self, ticket: Ticket, priority: i32) {
        self.stamps.dirty.leave(ticket);
        self.instruments.depth(priority, -1);
    }

    pub(crate) fn handed_out(&mut self, ticket: Ticket, priority: i32, now: u64) {
        let since = self.stamps.dirty.leave(ticket);
        self.stamps.running.enter(ticket, now);
        self.instruments.depth(priority, -1);
        self.instruments.queue_duration.observe(seconds(now.saturating_sub(since)));
    }

    pub(crate) fn done(&mut self, ticket: Ticket, now: u64) {
        let since = self.stamps.running.leave(ticket);
        self.instruments.work_duration.observe(seconds(now.saturating_sub(since)));
    }

    pub(crate) fn retried(&mut self, delay: Duration) {
        self.instruments.retry(delay);
    }

    pub(crate) fn rate_limited(&mut self, delay: Duration) {
        self.instruments.retry_delay.observe(delay.as_secs_f64());
    }

    /// Takes the room of a burst that is over: no key is left.
    pub(crate) fn take_stamps(&mut self) -> Stamps {
        std::mem::take(&mut self.stamps)
    }

    /// The ages of all keys in flight, added up, in seconds.
    pub(super) fn unfinished(&self, now: u64) -> f64 {
        let running = &self.stamps.running;
        let sum = (u128::from(now) * running.count as u128).saturating_sub(running.sum);
        seconds(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    pub(super) fn longest_running(&self, now: u64) -> f64 {
        seconds(self.stamps.running.oldest(now))
    }

    pub(super) fn oldest_queued(&self, now: u64) -> f64 {
        seconds(self.stamps.dirty.oldest(now))
    }
}

impl Ages {
    fn enter(&mut self, ticket: Ticket, since: u64) {
        let link = Link { since, before: self.last, after: NONE };
        self.links.fill(ticket.index(), link);
        self.links[ticket.index()] = link;
        match self.last {
            NONE => self.first = ticket.0,
            last => self.links[last as usize].after = ticket.0,
        }
        self.last = ticket.0;
        self.count += 1;
        self.sum += u128::from(since);
    }

    fn leave(&mut self, ticket: Ticket) -> u64 {
        let Link { since, before, after } = self.links[ticket.index()];
        match before {
            NONE => self.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.links[after as usize].before = before,
        }
        self.count -= 1;
        self.sum -= u128::from(since);
        since
    }

    /// The age of the oldest.
    fn oldest(&self, now: u64) -> u64 {
        match self.first {
            NONE => 0,
            first => now.saturating_sub(self.links[first as usize].since),
        }
    }
}

impl Default for Ages {
    fn default() -> Self {
        Self { links: Chunks::default(), first: NONE, last: NONE, count: 0, sum: 0 }
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
