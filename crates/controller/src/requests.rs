use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{Added, Config, Fifo, Order, RateLimitingQueue, Ticket};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::options::Backoff;

pub(crate) type Queue = RateLimitingQueue<ObjectKey, TokioClock>;

/// The keys that wait to be reconciled, as sources see them.
#[derive(Clone)]
pub struct Requests {
    queue: Queue,
    metrics: Arc<Metrics>,
}

impl Requests {
    pub(crate) fn new(controller: &str, backoff: &Backoff, metrics: Arc<Metrics>) -> Self {
        let order = TimedOrder { order: Fifo::default(), due: Vec::new(), metrics: metrics.clone() };
        let mut config = Config::with_clock(TokioClock);
        config.name = controller.into();
        config.order = Box::new(order);
        config.limiter = backoff();
        Self { queue: config.into_queue(), metrics }
    }

    /// Has `key` reconciled, as soon as a worker is free. Many adds before that are one; one during the reconciliation of the
    /// key has it reconciled once more.
    pub fn add(&self, key: ObjectKey) {
        self.count(self.queue.add(key));
    }

    /// Has `key` reconciled after a time, or sooner if it is added in another way.
    pub fn add_after(&self, key: ObjectKey, after: Duration) {
        self.count(self.queue.add_after(key, after));
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    fn count(&self, added: Added) {
        if added == Added::Scheduled {
            self.metrics.added();
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requests").field(&self.queue).finish()
    }
}

/// First in, first out; and how long each key was in.
#[derive(Debug)]
struct TimedOrder {
    order: Fifo,
    /// Since when each ticket is due.
    due: Vec<Option<Instant>>,
    metrics: Arc<Metrics>,
}

impl Order<ObjectKey> for TimedOrder {
    fn push(&mut self, ticket: Ticket, key: &ObjectKey, priority: i32, now: u64) {
        if self.due.len() <= ticket.index() {
            self.due.resize(ticket.index() + 1, None);
        }
        self.due[ticket.index()] = Some(Instant::now());
        self.order.push(ticket, key, priority, now);
    }

    fn pop(&mut self) -> Option<Ticket> {
        let ticket = Order::<ObjectKey>::pop(&mut self.order)?;
        if let Some(due) = self.due.get_mut(ticket.index()).and_then(Option::take) {
            self.metrics.queue_duration.record(due.elapsed());
        }
        Some(ticket)
    }

    fn touch(&mut self, ticket: Ticket, key: &ObjectKey, priority: i32, now: u64) {
        self.order.touch(ticket, key, priority, now);
    }

    fn len(&self) -> usize {
        Order::<ObjectKey>::len(&self.order)
    }
}
