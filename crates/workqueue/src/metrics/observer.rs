//! Observes state changes of keys and updates the metrics.

use std::fmt;
use std::time::Duration;

use super::ages::Ages;
use super::depths::Depths;
use super::{Depth, Instruments, MetricsStyle, Pull};
use crate::order::Ticket;

/// Updates the metrics when the state of a key changes. An observer exists only if the queue has metrics.
pub(crate) struct Observer {
    instruments: Instruments,
    depths: Depths,
    stamps: Stamps,
}

/// The times at which dirty keys became dirty, and at which in-flight keys were dequeued.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    dirty: Ages,
    running: Ages,
}

impl Observer {
    pub(super) fn new(instruments: Instruments, style: MetricsStyle) -> Self {
        Self { instruments, depths: Depths::new(style), stamps: Stamps::default() }
    }

    #[inline]
    pub(crate) fn take_new_depths(&mut self) -> Vec<Depth> {
        self.depths.take_new()
    }

    pub(crate) fn keep_gauge(&mut self, depth: Depth, gauge: Pull) -> Option<Pull> {
        self.depths.keep(depth, gauge)
    }

    pub(crate) fn added(&mut self, ticket: Ticket, priority: i32, now: u64) {
        self.stamps.dirty.enter(ticket, now);
        self.depths.add(priority);
        self.instruments.adds.add(1);
    }

    pub(crate) fn raised(&mut self, from: i32, to: i32) {
        self.depths.remove(from);
        self.depths.add(to);
    }

    pub(crate) fn removed(&mut self, ticket: Ticket, priority: i32) {
        self.stamps.dirty.leave(ticket);
        self.depths.remove(priority);
    }

    pub(crate) fn handed_out(&mut self, ticket: Ticket, priority: i32, now: u64) {
        let since = self.stamps.dirty.leave(ticket);
        self.stamps.running.enter(ticket, now);
        self.depths.remove(priority);
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

    /// Removes and returns the start times of an empty queue's keys, which the caller must drop outside
    /// the lock.
    pub(crate) fn take_stamps(&mut self) -> Stamps {
        std::mem::take(&mut self.stamps)
    }

    pub(super) fn unfinished(&self, now: u64) -> f64 {
        seconds(self.stamps.running.total(now))
    }

    pub(super) fn longest_running(&self, now: u64) -> f64 {
        seconds(self.stamps.running.oldest(now))
    }

    pub(super) fn depth(&self, depth: Depth) -> f64 {
        self.depths.count(depth) as f64
    }

    pub(super) fn oldest_queued(&self, now: u64) -> f64 {
        seconds(self.stamps.dirty.oldest(now))
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("instruments", &self.instruments).finish_non_exhaustive()
    }
}
