//! The machine's clock.

use std::sync::LazyLock;
use std::time::Instant;

use super::{Clock, Sleep, ThreadTimer, Timer};

/// The machine's monotonic clock.
///
/// The [`Timer`] implementation works with any executor. A single thread wakes all sleeping tasks of the process. The timer thread
/// starts when a sleep is first polled, and ends ten seconds after the last sleep. A [`ThreadTimer`] is a clock with a separate
/// thread.
///
/// A `StdClock` does not follow the paused time of tokio. Use `TokioClock` for that.
///
/// # Panics
///
/// The poll of a sleep panics if the operating system cannot start a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

/// The timer that the whole process shares.
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
