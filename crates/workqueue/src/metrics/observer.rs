use std::collections::VecDeque;
use std::time::Duration;

use super::{GaugeSource, Gauges, Instruments, MetricsProvider};
use crate::order::Ticket;
use crate::sync::{Arc, Mutex};

/// Follows the keys of a queue through the time, for its instruments. Exists only if there are any.
pub(crate) struct Observer {
    instruments: Box<dyn Instruments>,
    /// Of each key that is dirty or in flight, by ticket.
    stamps: Vec<Stamp>,
    dirty: Ages,
    running: Ages,
    delayed: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    dirty: Option<u64>,
    running: Option<u64>,
}

/// Until the provider has made others, for which it needs to know the observer.
struct Silent;

impl Instruments for Silent {}

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
    /// An observer with the instruments that `provider` makes for the queue called `name`.
    pub(crate) fn start(
        provider: &dyn MetricsProvider,
        name: &str,
        now: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Arc<Mutex<Self>> {
        let observer = Arc::new(Mutex::new(Self {
            instruments: Box::new(Silent),
            stamps: Vec::new(),
            dirty: Ages::default(),
            running: Ages::default(),
            delayed: 0,
        }));
        let weak = Arc::downgrade(&observer);
        let gauges = GaugeSource::new(move || Some(weak.upgrade()?.lock().gauges(now())));
        let instruments = provider.instruments(name, gauges);
        observer.lock().instruments = instruments;
        observer
    }

    pub(crate) fn added(&mut self, ticket: Ticket, priority: i32, now: u64) {
        if self.stamps.len() <= ticket.index() {
            self.stamps.resize(ticket.index() + 1, Stamp::default());
        }
        self.stamps[ticket.index()].dirty = Some(now);
        let stamps = &self.stamps;
        self.dirty.enter(now, ticket, |ticket| stamps.get(ticket.index())?.dirty);
        self.instruments.depth(priority, 1);
        self.instruments.add();
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
            self.instruments.queue_duration(since_to(since, now));
        }
        let stamps = &self.stamps;
        self.running.enter(now, ticket, |ticket| stamps.get(ticket.index())?.running);
        self.instruments.depth(priority, -1);
    }

    pub(crate) fn done(&mut self, ticket: Ticket, now: u64) {
        if let Some(since) = self.stamps[ticket.index()].running.take() {
            self.running.leave(since);
            self.instruments.work_duration(since_to(since, now));
        }
        if self.dirty.count == 0 && self.running.count == 0 && self.stamps.capacity() > KEEP {
            self.stamps = Vec::new();
        }
    }

    pub(crate) fn retried(&mut self, delay: Duration) {
        self.instruments.retry(delay);
    }

    pub(crate) fn rate_limited(&mut self, delay: Duration) {
        self.instruments.retry_delay(delay);
    }

    pub(crate) fn delayed(&mut self, delayed: usize) {
        self.delayed = delayed;
    }

    pub(crate) fn gauges(&mut self, now: u64) -> Gauges {
        let stamps = &self.stamps;
        let dirty = |ticket: Ticket| stamps.get(ticket.index()).and_then(|stamp| stamp.dirty);
        let running = |ticket: Ticket| stamps.get(ticket.index()).and_then(|stamp| stamp.running);
        let oldest = self.dirty.oldest(dirty).map_or(Duration::ZERO, |since| since_to(since, now));
        let longest = self.running.oldest(running).map_or(Duration::ZERO, |since| since_to(since, now));
        let sum = (u128::from(now) * self.running.count as u128).saturating_sub(self.running.sum);
        Gauges {
            unfinished_work: Duration::from_nanos(u64::try_from(sum).unwrap_or(u64::MAX)),
            longest_running_processor: longest,
            oldest_queued: oldest,
            delayed: self.delayed,
        }
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

    fn oldest(&mut self, current: impl Fn(Ticket) -> Option<u64>) -> Option<u64> {
        while let Some((since, ticket)) = self.starts.front().copied() {
            if current(ticket) == Some(since) {
                return Some(since);
            }
            self.starts.pop_front();
        }
        None
    }
}

fn since_to(since: u64, now: u64) -> Duration {
    Duration::from_nanos(now.saturating_sub(since))
}
