//! The state of a key, as callers see it.

use std::time::Instant;

/// The effect of adding a key to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Added {
    /// The key was queued, or its delay was set or shortened.
    Scheduled,
    /// The call had no effect, because the key was already queued or delayed.
    Merged,
    /// The call was rejected, because the queue is shutting down.
    ShutDown,
}

/// The reason for a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelayKind {
    /// The key has failed, and the delay is the backoff before its retry.
    Retry,
    /// The key has not failed, and will be processed again after the delay.
    #[default]
    Reminder,
    /// The last processing of the key requested the delay. Adding the key without a delay cancels the requeue, as with
    /// [`DelayPolicy::Absorb`](crate::DelayPolicy), because the next processing can request a new delay. If a requeue
    /// is merged with a reminder, it becomes a reminder. If a requeue is merged with a retry, it becomes a retry.
    Requeue,
}

/// The number of keys in a queue, by state. A key that is in several states is counted once in each of these states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of queued keys, like client-go's `Len`.
    pub queued: usize,
    /// The number of keys that workers are processing.
    pub in_flight: usize,
    /// The number of in-flight keys that were added again. An in-flight key that was added again is queued when its
    /// worker marks it as done.
    pub dirty_in_flight: usize,
    /// The number of keys that have a pending delay.
    pub delayed: usize,
    /// The number of keys that are not queued, delayed or in flight, but whose failures are still remembered.
    pub idle: usize,
}

/// The state of a single key in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyState<K> {
    /// The key.
    pub key: K,
    /// Whether the key needs processing. A dirty key is queued unless it is also in flight.
    pub dirty: bool,
    /// Whether a worker is processing the key.
    pub in_flight: bool,
    /// The kind and the deadline of the pending delay.
    pub delay: Option<(DelayKind, Instant)>,
    /// The number of remembered failures.
    pub failures: u32,
    /// The highest priority of all adds since the key was last dequeued.
    pub priority: i32,
}

impl Counts {
    /// Returns the number of dirty keys: queued keys, and keys that were added again while in flight. The `depth`
    /// metric reports the same number, as in client-go.
    pub fn depth(&self) -> usize {
        self.queued + self.dirty_in_flight
    }
}
