//! The machine's clock.

use std::sync::LazyLock;
use std::time::Instant;

use super::{Clock, Sleep, ThreadTimer, Timer};

/// The machine's monotonic clock.
///
/// Its [`Timer`] works with any executor. A single thread wakes the tasks of the whole process. The thread starts at the first poll of a
/// sleep, and ends ten seconds after the last sleep. A [`ThreadTimer`] uses a separate thread instead.
///
/// This clock does not follow tokio's paused time. Use `TokioClock` for that.
///
/// # Panics
///
/// Polling a sleep panics if the operating system cannot start a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

/// The timer of the whole process.
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
