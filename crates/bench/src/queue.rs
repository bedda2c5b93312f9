//! Workloads of the `queue` benchmark. `go/queue` runs the same workloads with client-go and controller-runtime.
//!
//! Each workload measures the closure that it passes to `measure`. The comment on the workload describes this
//! closure.

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

use std::process::ExitCode;
use std::sync::Arc;

use pintle_metrics::InMemoryProvider;
use pintle_ratelimit::Clock;
use pintle_workqueue::{QueueConfig, WorkQueue};

use crate::answer::{self, Keys, Setting};
use crate::meter::Sample;
use crew::{Tasks, Threads};
use delays::Limit;
use keys::Key;

/// Runs a workload once, or returns `None` if the workload does not support the requested variant.
type Work = fn(Setting) -> Option<Sample>;

macro_rules! threads {
    ($($work:ident)::+ $(, $argument:expr)*) => {
        |setting| match setting {
            Setting { tasks: true, .. } | Setting { next: true, .. } => None,
            Setting { keys: Keys::Arc, .. } => Some($($work)::+::<Arc<str>>(setting $(, $argument)*)),
            Setting { keys: Keys::Static, .. } => Some($($work)::+::<&'static str>(setting $(, $argument)*)),
            Setting { keys: Keys::String, .. } => Some($($work)::+::<String>(setting $(, $argument)*)),
        }
    };
}

macro_rules! crews {
    ($($work:ident)::+ $(, $argument:expr)*) => {
        |setting| match setting {
            Setting { tasks: false, keys: Keys::Arc, .. } => Some($($work)::+::<Arc<str>, _>(&Threads, setting $(, $argument)*)),
            Setting { tasks: false, keys: Keys::Static, .. } => Some($($work)::+::<&'static str, _>(&Threads, setting $(, $argument)*)),
            Setting { tasks: false, keys: Keys::String, .. } => Some($($work)::+::<String, _>(&Threads, setting $(, $argument)*)),
            Setting { tasks: true, keys: Keys::Arc, .. } => Some($($work)::+::<Arc<str>, _>(&Tasks::new()?, setting $(, $argument)*)),
            Setting { tasks: true, .. } => None,
        }
    };
}

/// The workloads by name. The Go program and `cargo xtask bench` use the same names.
const WORKS: &[(&str, Work)] = &[
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

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    let usage = "queue WORK [--keys static|string] [--metrics] [--tasks] [--next] [--quick]";
    answer::main(usage, WORKS, |work, setting| work(*setting))
}

impl Setting {
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
