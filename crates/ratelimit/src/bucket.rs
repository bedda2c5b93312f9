//! A token bucket.

use std::time::{Duration, Instant};

/// A token bucket that gains `qps` tokens per second, up to `burst` tokens. The bucket starts full.
///
/// The bucket uses saturating integer arithmetic, so that rounding errors do not accumulate, and high rates and long
/// pauses do not overflow. If a caller passes a time that is earlier than in a previous call, the bucket uses the
/// latest time of all calls.
///
/// - If `qps` is infinite or above 10^18, a token is always available, with any `burst`.
/// - If `qps` is zero, negative or NaN, the bucket starts with `burst` tokens and gains no more tokens.
/// - If `burst` is 0 and `qps` is finite, the bucket never has a token.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, StdClock, TokenBucket};
/// use std::time::Duration;
///
/// let start = StdClock.now();
/// let mut bucket = TokenBucket::new(10.0, 1, start);
/// assert!(bucket.try_accept(start));
/// assert!(!bucket.try_accept(start), "the burst is used up");
/// assert_eq!(bucket.wait_for_one(start), Duration::from_millis(100));
/// assert!(bucket.try_accept(start + Duration::from_millis(100)));
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    qps: f64,
    burst: u32,
    /// The number of tokens gained per nanosecond, in units of `1 / ONE`, or `None` if the rate is unlimited.
    per_nano: Option<i128>,
    /// The number of tokens in the bucket, at most `burst`, in units of `1 / ONE`. The level is negative if callers
    /// have reserved tokens that the bucket has not gained yet.
    level: i128,
    /// The time at which `level` was computed, or `None` before the first use of the bucket.
    at: Option<Instant>,
}

/// The fixed-point scale of `level`. With this scale, an `i128` holds even the largest burst, and can represent rates
/// down to one token in a million years.
const ONE: i128 = 1 << 80;

impl TokenBucket {
    /// Creates a bucket with `burst` tokens at `now`.
    pub fn new(qps: f64, burst: u32, now: Instant) -> Self {
        Self { at: Some(now), ..Self::full(qps, burst) }
    }

    /// Creates a bucket that is full when it is first used. Use this constructor if the current time is not yet known.
    pub fn full(qps: f64, burst: u32) -> Self {
        let per_nano = if qps >= 1e18 {
            None
        } else if qps > 0.0 {
            // Round the rate up, so that no token becomes available late. For example, at 10 tokens per second, a token
            // must be available after exactly 1/10 s.
            Some((qps * (ONE as f64 / 1e9)).ceil() as i128)
        } else {
            Some(0)
        };
        Self { qps, burst, per_nano, level: i128::from(burst) * ONE, at: None }
    }

    /// Returns the configured rate, in tokens per second.
    pub fn qps(&self) -> f64 {
        self.qps
    }

    /// Returns the maximum number of tokens in the bucket.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// Takes a token and returns `true` if a token is currently available.
    pub fn try_accept(&mut self, now: Instant) -> bool {
        let accepted = self.wait_for_one(now).is_zero();
        if accepted {
            self.take();
        }
        accepted
    }

    /// Reserves a token even if none is available, and returns the time until the reserved token becomes available. If
    /// the bucket can never gain the token, returns [`Duration::MAX`] without reserving anything.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let wait = self.wait_for_one(now);
        if wait < Duration::MAX {
            self.take();
        }
        wait
    }

    /// Returns a [reserved](Self::reserve) token to the bucket. The reservation then no longer delays other callers.
    pub fn give_back(&mut self) {
        if self.per_nano.is_some() {
            self.level = (self.level + ONE).min(i128::from(self.burst) * ONE);
        }
    }

    /// Returns the time until a token becomes available, without taking the token. Returns zero if a token is currently
    /// available, or [`Duration::MAX`] if the bucket will never have a token.
    pub fn wait_for_one(&mut self, now: Instant) -> Duration {
        self.wait(0, now)
    }

    /// Returns the number of available tokens without taking any, or [`u32::MAX`] if the rate is unlimited.
    pub fn tokens(&mut self, now: Instant) -> u32 {
        let Some(per_nano) = self.per_nano else { return u32::MAX };
        self.advance(now, per_nano);
        u32::try_from(self.level / ONE).unwrap_or(0)
    }

    /// Returns the time at which a token would be available if callers returned `given_back` reserved tokens. Returns
    /// `None` if the bucket will never have a token.
    pub(crate) fn earned_at(&mut self, given_back: usize, now: Instant) -> Option<Instant> {
        let wait = self.wait(given_back, now);
        let now = self.at.map_or(now, |at| now.max(at));
        if wait == Duration::MAX { None } else { now.checked_add(wait) }
    }

    /// Takes a token, even one that the bucket has not gained yet.
    pub(crate) fn take(&mut self) {
        if self.per_nano.is_some() {
            self.level -= ONE;
        }
    }

    fn wait(&mut self, given_back: usize, now: Instant) -> Duration {
        let Some(per_nano) = self.per_nano else { return Duration::ZERO };
        self.advance(now, per_nano);
        let missing = ONE - self.level - given_back as i128 * ONE;
        if missing <= 0 {
            Duration::ZERO
        } else if self.burst == 0 || per_nano == 0 {
            Duration::MAX
        } else {
            // Round the wait up, so that the token is available at its end.
            let nanos = (missing + per_nano - 1) / per_nano;
            u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
        }
    }

    fn advance(&mut self, now: Instant, per_nano: i128) {
        let at = *self.at.get_or_insert(now);
        if let Some(elapsed) = now.checked_duration_since(at) {
            let elapsed = i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX);
            let earned = elapsed.saturating_mul(per_nano);
            self.level = self.level.saturating_add(earned).min(i128::from(self.burst) * ONE);
            self.at = Some(now);
        }
    }
}
