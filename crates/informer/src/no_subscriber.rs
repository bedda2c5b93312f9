//! Warnings for programs that have no tracing subscriber.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::dispatcher::get_default;
use tracing::subscriber::NoSubscriber;

/// Prints the first problem to stderr if no tracing subscriber is installed, because the program could otherwise hang
/// without printing a message.
#[derive(Debug, Default)]
pub struct NoSubscriberWarning(AtomicBool);

impl NoSubscriberWarning {
    /// Prints `trouble` once if no subscriber is installed.
    pub fn warn(&self, trouble: impl FnOnce() -> String) {
        // `has_been_set` of tracing stays `true` after a test has removed its subscriber, so check the current
        // subscriber.
        if get_default(|current| current.is::<NoSubscriber>()) && !self.0.swap(true, Ordering::Relaxed) {
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
