//! Support for programs without a tracing subscriber, and for passing subscribers to other threads.

pub(crate) use pintle_informer::__private::NoSubscriberWarning;
use tracing::dispatcher::{get_default, has_been_set, with_default};

/// Wraps `run` so that it logs to the current thread's subscriber on any thread.
pub(crate) fn with_current_subscriber<R>(run: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let logs = has_been_set().then(|| get_default(Clone::clone));
    move || match logs {
        Some(logs) => with_default(&logs, run),
        None => run(),
    }
}
