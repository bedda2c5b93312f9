//! The clocks of an elector, and deadlines that are measured on several clocks.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The values of all clocks of a process at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time since a fixed moment, on a clock that cannot be set. The clock continues while the machine is
    /// suspended.
    pub boot: Duration,
    /// The time since a fixed moment, on a clock that cannot be set. This clock stops while the machine is suspended.
    pub monotonic: Duration,
    /// The time of day, as the wall clock shows it. The time of day can jump forwards or backwards.
    pub wall: Timestamp,
}

/// The moment when a leadership term ends, as a time on each clock.
///
/// A deadline has passed when any of the clocks reaches it, because ending a leadership term early is safe. While a
/// machine is suspended, its monotonic clock stops and the other two clocks run. While a virtual machine is paused, all
/// clocks may stop. After the pause, only the time of day is corrected. As a result, a leader that was suspended or
/// paused detects that its deadline has passed before it acts again. If the time of day is set forward, a leadership
/// term can be shorter than its full duration. If the time of day is set back, no leadership term lasts longer.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Clocks, Deadline, Now, SystemClocks};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let now = SystemClocks::new().now();
/// let deadline = Deadline::after(now, Duration::from_secs(10));
/// assert_eq!(deadline.remaining(now), Duration::from_secs(10));
/// // After a suspend of eight seconds.
/// let resumed = Now { boot: now.boot + Duration::from_secs(8), ..now };
/// assert_eq!(deadline.remaining(resumed), Duration::from_secs(2));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The deadline on the clock that continues while the machine is suspended.
    pub boot: Duration,
    /// The deadline on the monotonic clock.
    pub monotonic: Duration,
    /// The deadline on the wall clock, which shows the time of day.
    pub wall: Timestamp,
}

impl Deadline {
    const NEVER: Self = Self { boot: Duration::MAX, monotonic: Duration::MAX, wall: Timestamp::MAX };

    /// Returns a deadline that is `span` after `start` on each clock.
    pub fn after(start: Now, span: Duration) -> Self {
        let wall = SignedDuration::try_from(span).ok().and_then(|span| start.wall.checked_add(span).ok());
        Self {
            boot: start.boot.saturating_add(span),
            monotonic: start.monotonic.saturating_add(span),
            wall: wall.unwrap_or(Timestamp::MAX),
        }
    }

    /// Returns a deadline that applies only to the monotonic clock. Use such a deadline for a wait that may become
    /// longer if the machine is suspended.
    pub fn monotonic(at: Duration) -> Self {
        Self { monotonic: at, ..Self::NEVER }
    }

    /// Returns whether any of the clocks has reached the deadline.
    pub fn has_passed(&self, now: Now) -> bool {
        self.remaining(now).is_zero()
    }

    /// Returns the time left. The result is the smallest of the remaining times on all clocks. The result is zero if
    /// any clock has reached the deadline.
    pub fn remaining(&self, now: Now) -> Duration {
        let wall = Duration::try_from(self.wall.duration_since(now.wall)).unwrap_or_default();
        self.boot.saturating_sub(now.boot).min(self.monotonic.saturating_sub(now.monotonic)).min(wall)
    }

    /// Returns whether the deadline applies only to the monotonic clock.
    fn is_monotonic(&self) -> bool {
        Self { monotonic: Duration::MAX, ..*self } == Self::NEVER
    }

    /// Combines two deadlines. On each clock, the returned deadline has the earlier of the two values.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            boot: self.boot.min(other.boot),
            monotonic: self.monotonic.min(other.monotonic),
            wall: self.wall.min(other.wall),
        }
    }
}

/// The maximum time that the elector sleeps before it reads the clocks again. Timers do not fire early when the machine
/// wakes from a suspend or the time of day changes.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The maximum time between two reads of the clocks for a deadline that applies only to the monotonic clock. Timers
/// follow this clock.
const LONGEST_MONOTONIC_NAP: Duration = Duration::from_secs(10);

/// The clocks of an elector.
pub trait Clocks: fmt::Debug + Send + Sync + 'static {
    /// Reads the clocks. The values of `boot` and `monotonic` must not decrease between two calls. Electors call this
    /// method often. This method must not block, because some calls come from tasks that several electors share.
    fn now(&self) -> Now;

    /// Waits until any of the clocks has reached `deadline`. If the deadline has already passed, the method returns
    /// immediately. The method may return late, but must not return early. After this method returns, an elector reads
    /// the clocks again before it acts.
    ///
    /// The default implementation sleeps on tokio's clock and reads the clocks once a second. If the deadline passes
    /// because of a suspend or a change of the time of day, the method therefore returns within a second. For a
    /// [monotonic](Deadline::monotonic) deadline, the default implementation reads the clocks every ten seconds.
    /// Override this method if `monotonic` is not based on tokio's clock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    fn sleep_until(&self, deadline: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let longest = if deadline.is_monotonic() { LONGEST_MONOTONIC_NAP } else { LONGEST_NAP };
            loop {
                match deadline.remaining(self.now()) {
                    Duration::ZERO => return,
                    left => tokio::time::sleep(left.min(longest)).await,
                }
            }
        })
    }
}

/// The clocks of this machine. The monotonic clock is tokio's clock, so it also pauses when a test pauses tokio's
/// clock.
///
/// On Linux and Android, `boot` is `CLOCK_BOOTTIME`. On other systems, `boot` equals the monotonic clock, so only the
/// time of day can show that the machine was suspended.
#[derive(Debug)]
pub struct SystemClocks {
    start: Instant,
}

impl SystemClocks {
    /// Creates clocks whose monotonic clock starts at zero.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Clocks for SystemClocks {
    fn now(&self) -> Now {
        let monotonic = self.start.elapsed();
        Now { boot: since_boot().unwrap_or(monotonic), monotonic, wall: Timestamp::now() }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Option<Duration> {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: u64, monotonic: u64, wall: i64) -> Now {
        let seconds = Duration::from_secs;
        Now { boot: seconds(boot), monotonic: seconds(monotonic), wall: Timestamp::from_second(wall).unwrap() }
    }

    #[test]
    fn deadline_passes_on_the_first_clock_to_reach_it() {
        let deadline = Deadline::after(at(500, 100, 1_000), Duration::from_secs(10));
        for (now, left) in [
            (at(501, 101, 1_001), 9),
            (at(509, 109, 1_009), 1),
            (at(501, 110, 1_001), 0),
            // The machine was suspended for eight seconds, and the time of day was set back during the suspend.
            (at(509, 101, 5), 1),
            (at(510, 101, 5), 0),
            // A virtual machine was paused.
            (at(501, 101, 1_008), 2),
            (at(501, 101, 1_010), 0),
            (at(509, 109, 5), 1),
        ] {
            assert_eq!(deadline.remaining(now), Duration::from_secs(left), "{now:?}");
            assert_eq!(deadline.has_passed(now), left == 0, "{now:?}");
        }
    }

    #[test]
    fn monotonic_deadline_ignores_other_clocks() {
        let deadline = Deadline::monotonic(Duration::from_secs(10));
        assert!(!deadline.has_passed(at(1_000_000, 9, 1_000_000)) && deadline.has_passed(at(0, 10, 0)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn boot_clock_matches_the_kernel_uptime() {
        let uptime = || std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds = |text: String| text.split_whitespace().next().unwrap().parse::<f64>().unwrap();
        let (before, read) = (seconds(uptime()), since_boot().unwrap().as_secs_f64());
        // The kernel prints the uptime in hundredths of a second.
        assert!(before - 0.02 <= read && read <= seconds(uptime()) + 0.02, "{before} {read}");
    }
}
