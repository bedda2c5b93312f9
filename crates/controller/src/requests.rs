//! The keys that wait to be reconciled.

use std::fmt;
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{QueueConfig, RateLimitingQueue};

pub(crate) type Queue = RateLimitingQueue<ObjectKey, TokioClock>;

/// The keys that wait to be reconciled, as sources see them.
#[derive(Clone)]
pub struct Requests {
    queue: Queue,
}

impl Requests {
    pub(crate) fn new(controller: &str, mut config: QueueConfig<ObjectKey, TokioClock>) -> Self {
        config.name = controller.into();
        Self { queue: RateLimitingQueue::new(config) }
    }

    /// Has `key` reconciled, as soon as a worker is free. Many adds before that are one; one during the reconciliation of the
    /// key has it reconciled once more.
    pub fn add(&self, key: ObjectKey) {
        self.queue.add(key);
    }

    /// [`add`](Self::add) with a priority, for a queue whose order looks at it. Larger is sooner; a plain add has 0.
    pub fn add_with_priority(&self, key: ObjectKey, priority: i32) {
        self.queue.add_with_priority(key, priority);
    }

    /// Has `key` reconciled after a time, or sooner if it is added in another way.
    pub fn add_after(&self, key: ObjectKey, after: Duration) {
        self.queue.add_after(key, after);
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requests").field(&self.queue).finish()
    }
}
