//! Runs logs on other threads. A log never ends if a blocked call holds the lock of stderr or a lock of the program's logs.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::no_subscriber::with_current_subscriber;

/// Runs a report on another thread. The receiver gets no message. It is disconnected when the report has ended.
pub(crate) fn start_report(report: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (running, ended) = mpsc::channel();
    let run = with_current_subscriber(move || {
        report();
        drop(running);
    });
    // Without a thread, the report is lost, because the caller must not block.
    _ = thread::Builder::new().name("pintle-report".into()).spawn(run);
    ended
}

/// Runs a report on another thread, and waits for at most a second until the report has ended.
pub fn report(report: impl FnOnce() + Send + 'static) {
    _ = start_report(report).recv_timeout(Duration::from_secs(1));
}
