//! Warns users of programs without a tracing subscriber.

pub(crate) use pintle_informer::__private::NoSubscriberWarning;
use tracing::dispatcher::{get_default, has_been_set, with_default};

/// Makes another thread use the current thread's subscriber. If the current thread has no subscriber, the other thread
/// has none either.
pub(crate) fn with_current_subscriber<R>(run: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let logs = has_been_set().then(|| get_default(Clone::clone));
    move || match logs {
        Some(logs) => with_default(&logs, run),
        None => run(),
    }
}
