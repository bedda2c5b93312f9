//! The machine's clock.

use std::sync::LazyLock;
use std::time::Instant;

use super::{Clock, Sleep, ThreadTimer, Timer};

/// The machine's monotonic clock.
///
/// Its [`Timer`] works with any executor: one thread wakes the tasks of the whole process. The thread starts with the first sleep that
/// is polled and ends ten seconds after the last one. [`ThreadTimer`] is the same with a thread of its own.
///
/// It does not follow tokio's paused time: use `TokioClock` for that.
///
/// # Panics
///
/// Polling a sleep panics if the operating system cannot start a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

/// The timer of the process.
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
