//! Clocks, and deadlines on more than one clock.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pintle_meta::Time;
use tokio::time::Instant;

/// The times on all clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time on a clock that cannot be set and that keeps running while the machine is suspended.
    pub boot: Duration,
    /// The time on a clock that cannot be set and that stops while the machine is suspended.
    pub monotonic: Duration,
    /// The time of day (the wall clock), which can jump forwards or backwards.
    pub wall: Timestamp,
}

/// The end of a term on each of the three clocks of [`Now`].
///
/// A deadline has passed as soon as any clock reaches it, because ending a term early is safe. During a suspend, the
/// monotonic clock stops, and the other two clocks keep running. While a virtual machine is paused, all of its clocks
/// may stop, and only the time of day is corrected afterwards. A leader that wakes up from a suspend or a pause detects
/// a passed deadline before it acts. A term can end early if the time of day is set forward. Setting the time of day
/// back does not extend the term.
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
    /// The deadline on the [`boot`](Now::boot) clock.
    pub boot: Duration,
    /// The deadline on the [`monotonic`](Now::monotonic) clock.
    pub monotonic: Duration,
    /// The deadline as a wall-clock time.
    pub wall: Timestamp,
}

impl Deadline {
    const NEVER: Self = Self { boot: Duration::MAX, monotonic: Duration::MAX, wall: Timestamp::MAX };

    /// Returns the deadline that is `span` after `start` on each clock.
    pub fn after(start: Now, span: Duration) -> Self {
        let wall = SignedDuration::try_from(span).ok().and_then(|span| start.wall.checked_add(span).ok());
        Self {
            boot: start.boot.saturating_add(span),
            monotonic: start.monotonic.saturating_add(span),
            wall: wall.unwrap_or(Timestamp::MAX),
        }
    }

    /// Returns a deadline on the monotonic clock only, for waits that a suspend may prolong.
    pub fn monotonic(at: Duration) -> Self {
        Self { monotonic: at, ..Self::NEVER }
    }

    /// Returns `true` if any clock has reached the deadline.
    pub fn has_passed(&self, now: Now) -> bool {
        self.remaining(now).is_zero()
    }

    /// Returns the time until the first clock reaches the deadline, or zero if a clock has already reached it.
    pub fn remaining(&self, now: Now) -> Duration {
        let wall = Duration::try_from(self.wall.duration_since(now.wall)).unwrap_or_default();
        self.boot.saturating_sub(now.boot).min(self.monotonic.saturating_sub(now.monotonic)).min(wall)
    }

    fn is_monotonic(&self) -> bool {
        Self { monotonic: Duration::MAX, ..*self } == Self::NEVER
    }

    /// Returns the earlier of the two deadlines, separately for each clock.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            boot: self.boot.min(other.boot),
            monotonic: self.monotonic.min(other.monotonic),
            wall: self.wall.min(other.wall),
        }
    }
}

/// The maximum time between two readings of the clocks while waiting for a deadline. After a suspend or a change of the
/// time of day, the deadline can pass before the timer fires.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Like [`LONGEST_NAP`], but for a deadline that is on the monotonic clock only. The time can be longer, because timers
/// follow the monotonic clock.
const LONGEST_MONOTONIC_NAP: Duration = Duration::from_secs(10);

/// The clocks of an elector.
pub trait Clocks: fmt::Debug + Send + Sync + 'static {
    /// Reads the clocks. `boot` and `monotonic` must never decrease. `now` must not block, because electors call it
    /// often, also in tasks that several electors share.
    fn now(&self) -> Now;

    /// Waits until any clock has reached `deadline`. The wait may end late, but must not end early. The elector reads
    /// the clocks again after the wait.
    ///
    /// The default implementation sleeps with tokio's timer and reads the clocks once a second. The default
    /// implementation detects a suspend or a change of the time of day within a second. For a
    /// [monotonic](Deadline::monotonic) deadline, the default implementation reads the clocks every ten seconds.
    /// Override this method if `monotonic` is not based on tokio's clock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
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

/// This machine's clocks. The monotonic clock is tokio's clock, which tests can pause.
///
/// On Linux and Android, `boot` is `CLOCK_BOOTTIME`. On other systems, `boot` equals `monotonic`, and a suspend only
/// changes the time of day.
#[derive(Debug)]
pub struct SystemClocks {
    start: Instant,
}

impl SystemClocks {
    /// Creates clocks with a monotonic clock that starts at zero.
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
        Now { boot: since_boot().unwrap_or(monotonic), monotonic, wall: Time::now().0 }
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
            // The virtual machine was paused, which only its wall clock shows.
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
        // The kernel reports the uptime in hundredths of a second.
        assert!(before - 0.02 <= read && read <= seconds(uptime()) + 0.02, "{before} {read}");
    }
}
