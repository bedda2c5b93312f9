//! The machine's clock.

use std::sync::LazyLock;
use std::time::Instant;

use super::{Clock, Sleep, ThreadTimer, Timer};

/// The machine's monotonic clock.
///
/// The [`Timer`] implementation works with every executor. One timer thread wakes all sleeping tasks in the process.
/// It starts when a sleep is polled for the first time, and ends ten seconds after the last sleep. [`ThreadTimer`]
/// is a similar clock with its own thread.
///
/// `StdClock` does not follow tokio's paused time. Use `TokioClock` for that.
///
/// # Panics
///
/// Polling a sleep panics if the operating system cannot start the thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

/// The timer thread that the whole process shares.
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
