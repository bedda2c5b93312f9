//! The keys of a queue through the time.

use std::any::Any;
use std::collections::VecDeque;
use std::time::Duration;

use pintle_metrics::Provider;

use super::{Instruments, Metrics, MetricsStyle};
use crate::order::Ticket;
use crate::sync::{Arc, Mutex};

/// Follows the keys of a queue through the time, for its instruments. Exists only if there are any.
pub(crate) struct Observer {
    instruments: Instruments,
    /// Of each key that is dirty or in flight, by ticket.
    stamps: Vec<Stamp>,
    dirty: Ages,
    running: Ages,
    delayed: usize,
}

/// What keeps a gauge being read.
pub(crate) type Pull = Box<dyn Any + Send + Sync>;

#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    dirty: Option<u64>,
    running: Option<u64>,
}

/// Since when a number of keys have been in a state.
#[derive(Debug, Default)]
struct Ages {
    count: usize,
    /// The sum of the start times.
    sum: u128,
    /// Start times in order, with those of keys that have left until they come to the front, or are more than the others.
    starts: VecDeque<(u64, Ticket)>,
}

const KEEP: usize = 64;

impl Observer {
    /// An observer with the instruments that `provider` makes for the queue called `name`, and the gauges that read it. Whoever
    /// reads one locks the observer and not the queue.
    pub(crate) fn start(
        provider: &std::sync::Arc<dyn Provider>,
        style: MetricsStyle,
        name: &str,
        now: impl Fn() -> u64 + Clone + Send + Sync + 'static,
    ) -> (Arc<Mutex<Self>>, [Pull; 4]) {
        let observer = Arc::new(Mutex::new(Self {
            instruments: Instruments::new(provider, style, name),
            stamps: Vec::new(),
            dirty: Ages::default(),
            running: Ages::default(),
            delayed: 0,
        }));
        let metrics = Metrics::of(style);
        let pull = |metric, read: fn(&mut Self, u64) -> f64| {
            let (observer, now) = (Arc::clone(&observer), now.clone());
            let read = Box::new(move || {
                let now = now();
                read(&mut observer.lock(), now)
            });
            provider.pulled(metric, &metrics.labels(name), read)
        };
        let pulls = [
            pull(&metrics.unfinished, |observer, now| seconds(observer.unfinished(now))),
            pull(&metrics.longest_running, |observer, now| seconds(observer.longest_running(now))),
            pull(&metrics.oldest_queued, |observer, now| seconds(observer.oldest_queued(now))),
            pull(&metrics.delayed, |observer, _| observer.delayed as f64),
        ];
        (observer, pulls)
    }

    pub(crate) fn added(&mut self, ticket: Ticket, priority: i32, now: u64) {
        if self.stamps.len() <= ticket.index() {
            self.stamps.resize(ticket.index() + 1, Stamp::default());
        }
        self.stamps[ticket.index()].dirty = Some(now);
        let stamps = &self.stamps;
        self.dirty.enter(now, ticket, |ticket| stamps.get(ticket.index())?.dirty);
        self.instruments.depth(priority, 1);
        self.instruments.adds.add(1);
    }

    pub(crate) fn raised(&mut self, from: i32, to: i32) {
        if from != to {
            self.instruments.depth(from, -1);
            self.instruments.depth(to, 1);
        }
    }

    pub(crate) fn handed_out(&mut self, ticket: Ticket, priority: i32, now: u64) {
        let stamp = &mut self.stamps[ticket.index()];
        stamp.running = Some(now);
        if let Some(since) = stamp.dirty.take() {
            self.dirty.leave(since);
            self.instruments.queue_duration.observe(seconds(now.saturating_sub(since)));
        }
        let stamps = &self.stamps;
        self.running.enter(now, ticket, |ticket| stamps.get(ticket.index())?.running);
        self.instruments.depth(priority, -1);
    }

    pub(crate) fn done(&mut self, ticket: Ticket, now: u64) {
        if let Some(since) = self.stamps[ticket.index()].running.take() {
            self.running.leave(since);
            self.instruments.work_duration.observe(seconds(now.saturating_sub(since)));
        }
        if self.dirty.count == 0 && self.running.count == 0 && self.stamps.capacity() > KEEP {
            self.stamps = Vec::new();
        }
    }

    pub(crate) fn retried(&mut self, delay: Duration) {
        self.instruments.retry(delay);
    }

    pub(crate) fn rate_limited(&mut self, delay: Duration) {
        self.instruments.retry_delay.observe(delay.as_secs_f64());
    }

    pub(crate) fn delayed(&mut self, delayed: usize) {
        self.delayed = delayed;
    }

    /// The ages of all keys in flight, added up.
    fn unfinished(&self, now: u64) -> u64 {
        let sum = (u128::from(now) * self.running.count as u128).saturating_sub(self.running.sum);
        u64::try_from(sum).unwrap_or(u64::MAX)
    }

    fn longest_running(&mut self, now: u64) -> u64 {
        let stamps = &self.stamps;
        self.running.oldest(now, |ticket| stamps.get(ticket.index())?.running)
    }

    fn oldest_queued(&mut self, now: u64) -> u64 {
        let stamps = &self.stamps;
        self.dirty.oldest(now, |ticket| stamps.get(ticket.index())?.dirty)
    }
}

impl Ages {
    fn enter(&mut self, now: u64, ticket: Ticket, current: impl Fn(Ticket) -> Option<u64>) {
        self.count += 1;
        self.sum += u128::from(now);
        self.starts.push_back((now, ticket));
        if self.starts.len() > 2 * self.count + KEEP {
            self.starts.retain(|(since, ticket)| current(*ticket) == Some(*since));
            self.starts.shrink_to(2 * self.starts.len());
        }
    }

    fn leave(&mut self, since: u64) {
        self.count -= 1;
        self.sum -= u128::from(since);
    }

    /// The age of the oldest.
    fn oldest(&mut self, now: u64, current: impl Fn(Ticket) -> Option<u64>) -> u64 {
        while let Some((since, ticket)) = self.starts.front().copied() {
            if current(ticket) == Some(since) {
                return now.saturating_sub(since);
            }
            self.starts.pop_front();
        }
        0
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
