//! The clocks of a process, and deadlines on all of them.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// What the clocks of a process show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since some fixed moment, on a clock that nobody sets and that goes on while the machine is suspended.
    pub boot: Duration,
    /// Time since some fixed moment, on a clock that nobody sets and that stands still while the machine is suspended.
    pub monotonic: Duration,
    /// The time of day, which may jump either way.
    pub wall: Timestamp,
}

/// The moment until which a term holds.
///
/// It passes on whichever clock reaches it first, and so errs on the safe side. While a machine is suspended, its monotonic clock
/// stands still and the other two do not; while a virtual machine is paused, none may move but the time of day, which is put
/// right afterwards. So a leader that wakes up finds its deadline passed before it does anything. A wall clock that is set
/// forward may end a term early; one that is set back never makes it longer.
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
    /// The moment on the clock that goes on while the machine is suspended.
    pub boot: Duration,
    /// The moment on the clock that does not.
    pub monotonic: Duration,
    /// The moment by the time of day.
    pub wall: Timestamp,
}

impl Deadline {
    const NEVER: Self = Self { boot: Duration::MAX, monotonic: Duration::MAX, wall: Timestamp::MAX };

    /// The moment `span` after `start`, on each clock.
    pub fn after(start: Now, span: Duration) -> Self {
        let wall = SignedDuration::try_from(span).ok().and_then(|span| start.wall.checked_add(span).ok());
        Self {
            boot: start.boot.saturating_add(span),
            monotonic: start.monotonic.saturating_add(span),
            wall: wall.unwrap_or(Timestamp::MAX),
        }
    }

    /// A moment on the monotonic clock alone: for what may wait while the machine sleeps.
    pub fn monotonic(at: Duration) -> Self {
        Self { monotonic: at, ..Self::NEVER }
    }

    /// Whether the deadline has been reached on any clock.
    pub fn has_passed(&self, now: Now) -> bool {
        self.remaining(now).is_zero()
    }

    /// The time left: the least that any clock shows. Zero once the deadline has passed on one of them.
    pub fn remaining(&self, now: Now) -> Duration {
        let wall = Duration::try_from(self.wall.duration_since(now.wall)).unwrap_or_default();
        self.boot.saturating_sub(now.boot).min(self.monotonic.saturating_sub(now.monotonic)).min(wall)
    }

    /// Whether only the monotonic clock can reach it.
    fn is_monotonic(&self) -> bool {
        Self { monotonic: Duration::MAX, ..*self } == Self::NEVER
    }

    /// Passes as soon as one of the two does.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            boot: self.boot.min(other.boot),
            monotonic: self.monotonic.min(other.monotonic),
            wall: self.wall.min(other.wall),
        }
    }
}

/// How long a sleeper may overlook that the machine was suspended or its time of day set: timers do not tell.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The same where only the monotonic clock matters, which timers follow.
const LONGEST_MONOTONIC_NAP: Duration = Duration::from_secs(10);

/// Where an elector reads the time, and waits for it.
pub trait Clocks: fmt::Debug + Send + Sync + 'static {
    /// Reads the clocks. `boot` and `monotonic` never decrease. Electors read them often, also where they drive each other's terms, so this
    /// returns at once.
    fn now(&self) -> Now;

    /// Waits until `deadline` has passed on some clock; at once if it has. It may wake late, and never early: an elector reads
    /// the clocks again before it acts.
    ///
    /// By default it sleeps on tokio's clock and looks at the clocks once a second: after a suspend, or when the time of
    /// day was set, the sleeper wakes within a second. For a [monotonic](Deadline::monotonic) deadline it looks every ten seconds, so
    /// a clock whose `monotonic` is not tokio's should bring a method of its own.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
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

/// The clocks of this machine. The monotonic one is tokio's: where that is paused, so is this.
///
/// On Linux and Android, `boot` is `CLOCK_BOOTTIME`. On other systems it is the monotonic clock again, so there a suspended
/// machine is noticed by its time of day alone.
#[derive(Debug)]
pub struct SystemClocks {
    start: Instant,
}

impl SystemClocks {
    /// Clocks of which the monotonic one counts from now.
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
    fn a_deadline_has_what_the_clock_leaves_that_runs_out_first() {
        let deadline = Deadline::after(at(500, 100, 1_000), Duration::from_secs(10));
        for (now, left) in [
            (at(501, 101, 1_001), 9),
            (at(509, 109, 1_009), 1),
            (at(501, 110, 1_001), 0),
            // Suspended for eight seconds; the time of day was set back meanwhile.
            (at(509, 101, 5), 1),
            (at(510, 101, 5), 0),
            // A virtual machine that was paused.
            (at(501, 101, 1_008), 2),
            (at(501, 101, 1_010), 0),
            (at(509, 109, 5), 1),
        ] {
            assert_eq!(deadline.remaining(now), Duration::from_secs(left), "{now:?}");
            assert_eq!(deadline.has_passed(now), left == 0, "{now:?}");
        }
    }

    #[test]
    fn a_deadline_on_the_monotonic_clock_lets_the_others_run() {
        let deadline = Deadline::monotonic(Duration::from_secs(10));
        assert!(!deadline.has_passed(at(1_000_000, 9, 1_000_000)) && deadline.has_passed(at(0, 10, 0)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_that_counts_suspends_is_that_of_the_kernel() {
        let told = || std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds = |told: String| told.split_whitespace().next().unwrap().parse::<f64>().unwrap();
        let (before, read) = (seconds(told()), since_boot().unwrap().as_secs_f64());
        // The kernel tells hundredths.
        assert!(before - 0.02 <= read && read <= seconds(told()) + 0.02, "{before} {read}");
    }
}
