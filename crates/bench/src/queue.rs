//! The works of the area `queue`; `go/queue` does the same ones on client-go and controller-runtime.
//!
//! A work says in its comment what is in its window: what is measured begins and ends with the closure given to `measure`.

mod busy;
mod crew;
mod delays;
mod drain;
mod hand_off;
mod hot;
mod keys;
mod limiter;
mod one;
mod priority;
mod sections;
mod tails;

use std::sync::Arc;

use pintle_metrics::InMemoryProvider;
use pintle_ratelimit::Clock;
use pintle_workqueue::{QueueConfig, WorkQueue};

use crate::Sample;
use crew::{Tasks, Threads};
use delays::Limit;
use keys::Key;

/// In which variant a work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// What the keys are.
    pub keys: Keys,
    /// Whether the queue tells metrics.
    pub metrics: bool,
    /// Whether tasks of tokio do the work, in its default runtime, instead of plain threads.
    pub tasks: bool,
    /// Whether workers that do nothing with their keys are done with one and take the next in one step.
    pub next: bool,
    /// A fiftieth of the size, to see that all works.
    pub quick: bool,
}

/// What the keys of a queue are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// `Arc<str>`.
    #[default]
    Arc,
    /// `&'static str`, which costs nothing to clone, as Go's strings.
    Static,
    /// `String`, of which each clone is an allocation.
    String,
}

/// Does a work once. `None`: it has no such variant.
pub type Work = fn(Setting) -> Option<Sample>;

/// What plain threads do.
macro_rules! threads {
    ($($work:ident)::+ $(, $argument:expr)*) => {
        |how| match how {
            Setting { tasks: true, .. } | Setting { next: true, .. } => None,
            Setting { keys: Keys::Arc, .. } => Some($($work)::+::<Arc<str>>(how $(, $argument)*)),
            Setting { keys: Keys::Static, .. } => Some($($work)::+::<&'static str>(how $(, $argument)*)),
            Setting { keys: Keys::String, .. } => Some($($work)::+::<String>(how $(, $argument)*)),
        }
    };
}

/// What plain threads or tasks do, with `Arc<str>` unless these are threads.
macro_rules! crews {
    ($($work:ident)::+ $(, $argument:expr)*) => {
        |how| match how {
            Setting { tasks: false, keys: Keys::Arc, .. } => Some($($work)::+::<Arc<str>, _>(&Threads, how $(, $argument)*)),
            Setting { tasks: false, keys: Keys::Static, .. } => Some($($work)::+::<&'static str, _>(&Threads, how $(, $argument)*)),
            Setting { tasks: false, keys: Keys::String, .. } => Some($($work)::+::<String, _>(&Threads, how $(, $argument)*)),
            Setting { tasks: true, keys: Keys::Arc, .. } => Some($($work)::+::<Arc<str>, _>(&Tasks::new()?, how $(, $argument)*)),
            Setting { tasks: true, .. } => None,
        }
    };
}

/// By the names that both sides and `cargo xtask bench` have for them.
pub const WORKS: &[(&str, Work)] = &[
    ("add-drain-1", crews!(drain::add_then_drain, 1)),
    ("add-drain-8", crews!(drain::add_then_drain, 8)),
    ("through-64", crews!(drain::through, 64)),
    ("hot", crews!(hot::hot)),
    ("cycle", threads!(one::cycle)),
    ("same", threads!(one::same)),
    ("fresh", threads!(one::fresh)),
    ("add-after", threads!(delays::add_after)),
    ("rate-limited", threads!(delays::add_rate_limited, Limit::Item)),
    ("rate-limited-default", threads!(delays::add_rate_limited, Limit::Default)),
    ("item-limiter", threads!(limiter::when_forget)),
    ("storm", crews!(tails::storm)),
    ("counts", threads!(tails::counts)),
    ("hand-off-half", crews!(hand_off::hand_off, 54_400)),
    ("hand-off-fifth", crews!(hand_off::hand_off, 22_400)),
    ("busy-100", crews!(busy::busy, 100)),
    ("busy-1", crews!(busy::busy, 1)),
    ("due", threads!(sections::due)),
    ("due-counts", threads!(sections::due_counts)),
    ("grow", threads!(sections::grow)),
    ("priority", crews!(priority::priority)),
];

impl Setting {
    fn size(self, full: usize) -> usize {
        if self.quick { full / 50 } else { full }
    }

    /// With metrics or without.
    fn config<K: Key, C>(self, clock: C) -> QueueConfig<K, C> {
        QueueConfig {
            name: "bench".to_owned(),
            metrics: self.metrics.then(|| Arc::new(InMemoryProvider::new()) as _),
            ..QueueConfig::new(clock)
        }
    }

    fn queue<K: Key, C: Clock + Default>(self) -> WorkQueue<K, C> {
        WorkQueue::new(self.config(C::default()))
    }
}
