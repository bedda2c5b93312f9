//! A manually stepped clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use pintle_meta::__private::Mutex;
use pintle_ratelimit::{Clock, ManualClock, Sleep, Timer, TokioClock};

/// The monotonic clock and the wall clock of a process, both controlled by a test. Clones share the same clock.
///
/// A clock that was created with [`new`](Self::new) advances only when a test calls [`advance`](Self::advance). A clock
/// that was created with [`beside_tokio`](Self::beside_tokio) follows tokio's clock and can also be stepped by a test.
/// Rate limiters and queues accept a `SteppedClock`, because it implements [`Clock`] and [`Timer`]. For code with a
/// different clock trait, implement that trait for a wrapper around `SteppedClock`, with [`elapsed`](Self::elapsed) and
/// [`wall`](Self::wall).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_ratelimit::{Clock, TokenBucket};
/// use pintle_testing::SteppedClock;
///
/// let clock = SteppedClock::new();
/// let mut bucket = TokenBucket::new(1.0, 1, clock.now());
/// assert!(bucket.try_accept(clock.now()) && !bucket.try_accept(clock.now()));
/// clock.advance(Duration::from_secs(1));
/// assert!(bucket.try_accept(clock.now()));
/// assert_eq!(clock.wall().to_string(), "2027-01-15T08:00:01Z");
/// ```
#[derive(Clone, Debug)]
pub struct SteppedClock {
    /// The manual clock that all sleepers wait on. The time of this clock is the sum of all steps.
    steps: ManualClock,
    start: Instant,
    /// tokio's time when this clock was created, or `None` if this clock does not follow tokio's clock.
    tokio: Option<Instant>,
    /// The wall-clock time at the start of the monotonic clock.
    wall: Arc<Mutex<Timestamp>>,
}

impl SteppedClock {
    /// Creates a clock that advances only when a test steps it. The wall clock starts at 2027-01-15T08:00:00Z.
    #[expect(clippy::new_without_default, reason = "each new clock is independent of the others")]
    pub fn new() -> Self {
        let steps = ManualClock::new();
        let wall = Timestamp::constant(1_800_000_000, 0);
        Self { start: steps.now(), steps, tokio: None, wall: Arc::new(Mutex::new(wall)) }
    }

    /// Creates a clock that follows tokio's clock, which may be paused.
    ///
    /// Stepping the clock simulates a suspension of the whole process. Stepping this clock does not affect tokio's
    /// timers.
    pub fn beside_tokio() -> Self {
        Self { tokio: Some(TokioClock.now()), ..Self::new() }
    }

    /// Advances the monotonic clock and the wall clock, and wakes all sleepers whose deadline has passed.
    pub fn advance(&self, by: Duration) {
        self.steps.advance(by);
    }

    /// Moves the wall clock, but not the monotonic clock. A forward jump simulates a suspended machine, or a user who
    /// sets the clock forward. A backward jump simulates a user who sets the clock back.
    ///
    /// # Panics
    ///
    /// Panics if the wall clock would exceed the range of a [`Timestamp`].
    pub fn jump_wall(&self, by: SignedDuration) {
        let mut wall = self.wall.lock();
        *wall += by;
    }

    /// Returns the time on the monotonic clock since the clock was created.
    pub fn elapsed(&self) -> Duration {
        self.now() - self.start
    }

    /// Returns the current wall-clock time.
    ///
    /// # Panics
    ///
    /// Panics if the time exceeds the range of a [`Timestamp`].
    pub fn wall(&self) -> Timestamp {
        let elapsed = self.elapsed();
        *self.wall.lock() + elapsed
    }

    /// Returns the number of tasks and threads that are sleeping on this clock. A test can poll this number to wait
    /// until the code under test is sleeping.
    pub fn sleepers(&self) -> usize {
        self.steps.sleepers()
    }

    fn with_tokios(&self) -> Duration {
        self.tokio.map_or(Duration::ZERO, |start| TokioClock.now() - start)
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Instant {
        self.steps.now() + self.with_tokios()
    }

    fn park_until(&self, deadline: Option<Instant>) {
        self.steps.park_until(deadline.map(|deadline| deadline - self.with_tokios()));
    }
}

impl Timer for SteppedClock {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let clock = self.clone();
        Box::pin(async move {
            if clock.tokio.is_none() {
                return clock.steps.sleep_until(deadline).await;
            }
            while clock.now() < deadline {
                tokio::select! {
                    () = tokio::time::sleep(deadline - clock.now()) => {}
                    // Wake up at the next step, even if the step is very short.
                    () = clock.steps.sleep_until(clock.steps.now() + Duration::from_nanos(1)) => {}
                }
            }
        })
    }
}
