//! A word to people whose program listens to no logs.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::dispatcher::{get_default, has_been_set, with_default};

/// Prints the first trouble to stderr where no tracing subscriber was ever installed, so that no program idles in silence.
#[derive(Debug, Default)]
pub(crate) struct Unheard(AtomicBool);

impl Unheard {
    /// Prints what `trouble` says, unless this has printed before or there is a subscriber.
    pub(crate) fn tell(&self, trouble: impl FnOnce() -> String) {
        if !has_been_set() && !self.0.swap(true, Ordering::Relaxed) {
            print(&trouble());
        }
    }
}

#[expect(clippy::print_stderr, reason = "there is no subscriber that could say it")]
fn print(trouble: &str) {
    eprintln!(
        "pintle: {trouble} (more is logged: install a tracing subscriber, such as tracing_subscriber::fmt::init)"
    );
}

/// Has another thread log where this one does. Where nobody listens, that stays so.
pub(crate) fn with_logs_of_here<R>(run: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let logs = has_been_set().then(|| get_default(Clone::clone));
    move || match logs {
        Some(logs) => with_default(&logs, run),
        None => run(),
    }
}
