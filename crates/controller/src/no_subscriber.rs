//! Warns users of programs without a tracing subscriber.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::dispatcher::{get_default, has_been_set, with_default};

/// Prints the first problem to stderr if no tracing subscriber was ever installed, so that no program hangs without a
/// message.
#[derive(Debug, Default)]
pub(crate) struct NoSubscriberWarning(AtomicBool);

impl NoSubscriberWarning {
    /// Prints `trouble`, unless a subscriber is installed or this method has printed before.
    pub(crate) fn warn(&self, trouble: impl FnOnce() -> String) {
        if !has_been_set() && !self.0.swap(true, Ordering::Relaxed) {
            print(&trouble());
        }
    }
}

#[expect(clippy::print_stderr, reason = "no subscriber is installed")]
fn print(trouble: &str) {
    eprintln!(
        "pintle: {trouble} (more is logged: install a tracing subscriber, such as tracing_subscriber::fmt::init)"
    );
}

/// Makes another thread use the current thread's subscriber. If the current thread has no subscriber, the other thread
/// has none either.
pub(crate) fn with_current_subscriber<R>(run: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let logs = has_been_set().then(|| get_default(Clone::clone));
    move || match logs {
        Some(logs) => with_default(&logs, run),
        None => run(),
    }
}
