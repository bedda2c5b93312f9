//! The members of `/debug.json`. [`Manager::debug`](crate::Manager::debug) documents the format for users.

use serde::Serialize;

/// The version of the format, which is incremented when a member is removed or changes its meaning.
pub(super) const FORMAT: u32 = 1;

/// The maximum number of items in the lists of controllers, informers, checks and so on.
pub(super) const MOST: usize = 100;

#[derive(Serialize)]
pub(super) struct Document {
    pub(super) format: u32,
    pub(super) name: String,
    pub(super) now: String,
    pub(super) started: String,
    pub(super) uptime_seconds: f64,
    pub(super) phase: Phase,
    pub(super) waits_for: Option<String>,
    pub(super) live: Vec<Check>,
    pub(super) ready: Vec<Check>,
    pub(super) leader: Option<Lease>,
    pub(super) controllers: Vec<Controller>,
    pub(super) informers: Vec<Informer>,
    pub(super) shards: Vec<Shards>,
    pub(super) left_out: LeftOut,
    pub(super) explanation: Option<Explanation>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    Starting,
    Standby,
    Running,
    Stopping,
}

#[derive(Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) problem: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Lease {
    pub(super) lease: String,
    /// An empty string means that no replica holds the lease, and `None` means that the lease has not been read yet.
    pub(super) holder: Option<String>,
    pub(super) is_leader: bool,
    /// The number of seconds until this replica's leadership term ends without a renewal of the lease.
    pub(super) seconds_left: Option<f64>,
    /// The last error of a request for the lease, or `None` if the last request succeeded.
    pub(super) last_error: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Controller {
    pub(super) name: String,
    pub(super) running: bool,
    pub(super) max_concurrent_reconciles: usize,
    pub(super) queue: Option<Queue>,
    pub(super) blocked: Vec<Blocked>,
    pub(super) sources: Vec<Check>,
    pub(super) failing: Vec<Key>,
    pub(super) slowest: Vec<Key>,
    pub(super) active: Vec<Key>,
}

#[derive(Serialize)]
pub(super) struct Queue {
    pub(super) queued: usize,
    pub(super) in_flight: usize,
    pub(super) dirty_in_flight: usize,
    pub(super) delayed: usize,
    pub(super) idle: usize,
}

#[derive(Serialize)]
pub(super) struct Blocked {
    pub(super) key: String,
    pub(super) seconds: f64,
}

#[derive(Serialize)]
pub(super) struct Key {
    pub(super) key: String,
    pub(super) state: KeyState,
    pub(super) due_in_seconds: Option<f64>,
    pub(super) causes_total: u64,
    /// The causes of the key, newest first.
    pub(super) causes: Vec<Event>,
    pub(super) last_call: Option<Call>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyState {
    InFlight,
    InFlightDirty,
    Queued,
    Retry,
    Requeue,
    Idle,
    NotRunning,
}

/// A text with a timestamp.
#[derive(Serialize)]
pub(super) struct Event {
    pub(super) at: String,
    pub(super) text: String,
}

#[derive(Serialize)]
pub(super) struct Call {
    pub(super) at: String,
    pub(super) seconds: f64,
    pub(super) error: Option<String>,
    pub(super) failures: u32,
}

#[derive(Serialize)]
pub(super) struct Informer {
    pub(super) name: String,
    pub(super) resource: String,
    pub(super) state: InformerState,
    pub(super) since: Option<String>,
    pub(super) objects: usize,
    /// The number of objects received so far by the list in progress.
    pub(super) received: Option<usize>,
    pub(super) problem: Option<String>,
    pub(super) undecodable: usize,
    pub(super) first_undecodable: Option<String>,
    pub(super) last_failure: Option<Event>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InformerState {
    Starting,
    Listing,
    Streaming,
    Synced,
    Degraded,
    Stopped,
    Unknown,
}

#[derive(Serialize)]
pub(super) struct Shards {
    pub(super) name: String,
    pub(super) member: Lease,
    pub(super) shards: Vec<Shard>,
}

#[derive(Serialize)]
pub(super) struct Shard {
    pub(super) index: u32,
    #[serde(flatten)]
    pub(super) lease: Lease,
}

/// The numbers of controllers, informers and shards that the lists omit.
#[derive(Serialize)]
pub(super) struct LeftOut {
    pub(super) controllers: usize,
    pub(super) informers: usize,
    pub(super) shards: usize,
}

#[derive(Serialize)]
pub(super) struct Explanation {
    pub(super) controller: String,
    #[serde(flatten)]
    pub(super) key: Key,
}

/// Maps the first [`MOST`] items with `map`.
pub(super) fn of_most<T, U>(parts: &[T], map: impl FnMut(&T) -> U) -> Vec<U> {
    parts.iter().take(MOST).map(map).collect()
}
