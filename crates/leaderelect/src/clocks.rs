//! The two clocks of a process, and deadlines on both.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// What the two clocks of a process show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since some fixed moment of this process, on a clock that nobody sets.
    pub elapsed: Duration,
    /// The time of day, which may jump either way.
    pub wall: Timestamp,
}

/// The moment until which a term holds.
///
/// It passes on whichever clock reaches it first. While a machine is suspended, its monotonic clock stands still and its wall
/// clock does not; so a leader that wakes up finds its deadline passed before it does anything. A wall clock that
/// is set forward may end a term early; one that is set back never makes it longer.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Clocks, Deadline, SystemClocks};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let clocks = SystemClocks::new();
/// let now = clocks.now();
/// let deadline = Deadline { elapsed: now.elapsed + Duration::from_secs(10), wall: now.wall + Duration::from_secs(10) };
/// assert!(!deadline.has_passed(now));
/// assert_eq!(deadline.remaining(now), Duration::from_secs(10));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The moment on the monotonic clock.
    pub elapsed: Duration,
    /// The moment by the time of day.
    pub wall: Timestamp,
}

impl Deadline {
    /// The moment `span` after `start`.
    pub(crate) fn after(start: Now, span: Duration) -> Self {
        let wall = SignedDuration::try_from(span).ok().and_then(|span| start.wall.checked_add(span).ok());
        Self { elapsed: start.elapsed + span, wall: wall.unwrap_or(Timestamp::MAX) }
    }

    /// Whether the deadline has been reached on either clock.
    pub fn has_passed(&self, now: Now) -> bool {
        now.elapsed >= self.elapsed || now.wall >= self.wall
    }

    /// The time left on the monotonic clock; zero once the deadline has passed on either clock.
    pub fn remaining(&self, now: Now) -> Duration {
        match self.has_passed(now) {
            true => Duration::ZERO,
            false => self.elapsed - now.elapsed,
        }
    }
}

/// Where an elector reads the time.
pub trait Clocks: fmt::Debug + Send + Sync + 'static {
    /// Reads both clocks. `elapsed` never decreases.
    fn now(&self) -> Now;
}

/// The clocks of this machine, as tokio sees them: a paused tokio clock pauses this one's monotonic half.
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
        Now { elapsed: self.start.elapsed(), wall: Timestamp::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(elapsed: u64, wall: i64) -> Now {
        Now { elapsed: Duration::from_secs(elapsed), wall: Timestamp::from_second(wall).unwrap() }
    }

    #[test]
    fn a_deadline_passes_on_whichever_clock_runs_out_first() {
        let deadline = Deadline::after(at(100, 1_000), Duration::from_secs(10));
        for (now, passed) in [
            (at(109, 1_009), false),
            (at(110, 1_009), true),
            (at(101, 1_010), true),
            (at(109, 5), false),
            (at(110, 5), true),
        ] {
            assert_eq!(deadline.has_passed(now), passed, "{now:?}");
            assert_eq!(deadline.remaining(now).is_zero(), passed, "{now:?}");
        }
    }
}
