//! The machine's clock.

use std::sync::LazyLock;
use std::time::Instant;

use super::{Clock, Sleep, ThreadTimer, Timer};

/// The machine's monotonic clock.
///
/// As a [`Timer`], this clock works with every executor. A single timer thread wakes all sleeping tasks of the process.
/// The thread starts when a sleep is first polled, and ends ten seconds after the last sleep. [`ThreadTimer`] is a
/// similar clock with its own thread.
///
/// `StdClock` ignores tokio's paused time. Use `TokioClock` in tests that pause the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

static TIMER: LazyLock<ThreadTimer> = LazyLock::new(ThreadTimer::default);

impl Clock for StdClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Timer for StdClock {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        TIMER.sleep_until(deadline)
    }
}
