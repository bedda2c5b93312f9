//! Writes log messages on separate threads. On the calling thread, a log call could block forever if a
//! blocked reconciliation holds the lock of stderr or of the program's logger.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::no_subscriber::with_current_subscriber;

/// Runs a report on a new thread. The returned receiver is disconnected at the end of the report.
pub(crate) fn start_report(report: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (running, ended) = mpsc::channel();
    let run = with_current_subscriber(move || {
        report();
        drop(running);
    });
    // If the thread cannot be started, drop the report, because the caller must not block.
    _ = thread::Builder::new().name("pintle-report".into()).spawn(run);
    ended
}

/// Runs a report on a new thread, and waits for the report for at most one second.
pub fn report(report: impl FnOnce() + Send + 'static) {
    _ = start_report(report).recv_timeout(Duration::from_secs(1));
}
