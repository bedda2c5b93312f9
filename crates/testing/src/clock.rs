//! A clock that a test steps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use pintle_ratelimit::{Clock, ManualClock, Sleep, Timer, TokioClock};

/// The two clocks of a process, stepped by a test: the monotonic one, and the wall clock. Clones are the same clock.
///
/// It stands still until it is stepped, or goes with tokio's clock and is stepped beside it. It is a [`Clock`] and a [`Timer`],
/// so it goes wherever limiters and queues ask for one; where other code has a clock trait of its own, that is implemented in two
/// lines over [`elapsed`](Self::elapsed) and [`wall`](Self::wall).
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
    /// All that was stepped. Its sleepers are those of this clock.
    steps: ManualClock,
    start: Instant,
    /// When tokio's clock began to count, if it does.
    tokio: Option<Instant>,
    /// What the wall clock is away from where the monotonic one has come to.
    wall: Arc<Mutex<Timestamp>>,
}

impl SteppedClock {
    /// A clock that stands still. Its wall clock shows 2027-01-15T08:00:00Z.
    #[expect(clippy::new_without_default, reason = "each new clock is different from every other")]
    pub fn new() -> Self {
        let steps = ManualClock::new();
        let wall = Timestamp::constant(1_800_000_000, 0);
        Self { start: steps.now(), steps, tokio: None, wall: Arc::new(Mutex::new(wall)) }
    }

    /// A clock that goes with tokio's, which may be paused.
    ///
    /// A step then is time that passes while the whole process stands still: tokio's own timers know nothing of it.
    pub fn beside_tokio() -> Self {
        Self { tokio: Some(TokioClock.now()), ..Self::new() }
    }

    /// Moves both clocks forward, and wakes all whose deadline has come.
    pub fn advance(&self, by: Duration) {
        self.steps.advance(by);
    }

    /// Moves the wall clock alone. Forward, it is what a machine finds that was suspended, or whose clock was set; back, it was
    /// set back.
    ///
    /// # Panics
    ///
    /// If it would leave the range of a [`Timestamp`].
    pub fn jump_wall(&self, by: SignedDuration) {
        let mut wall = self.wall.lock().unwrap_or_else(PoisonError::into_inner);
        *wall += by;
    }

    /// The time on the monotonic clock since this one was made.
    pub fn elapsed(&self) -> Duration {
        self.now() - self.start
    }

    /// The time on the wall clock.
    ///
    /// # Panics
    ///
    /// If it has left the range of a [`Timestamp`].
    pub fn wall(&self) -> Timestamp {
        let elapsed = self.elapsed();
        *self.wall.lock().unwrap_or_else(PoisonError::into_inner) + elapsed
    }

    /// How many tasks and threads sleep on this clock: lets a test go on once the code under test has gone to sleep.
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
                    // Until the next step, whatever it is.
                    () = clock.steps.sleep_until(clock.steps.now() + Duration::from_nanos(1)) => {}
                }
            }
        })
    }
}
