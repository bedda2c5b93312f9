//! A waker that counts wake-ups, and a timeout for tests.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::Wake;
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn ends(test: impl FnOnce() + Send + 'static) {
    let (report_end, end) = channel();
    let tested = thread::spawn(move || {
        test();
        report_end.send(()).unwrap();
    });
    if end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
        panic!("the test hangs");
    }
    tested.join().unwrap_or_else(|panic| resume_unwind(panic));
}
