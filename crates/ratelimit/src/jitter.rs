//! Random pauses and duration arithmetic.

use std::time::Duration;

/// A source of random pauses, which keep many retries from happening at the same time. Equal seeds produce equal
/// pauses.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::Jitter;
/// use std::time::Duration;
///
/// let mut jitter = Jitter::new(7);
/// let pauses: Vec<Duration> = (0..5).map(|_| jitter.up_to(Duration::from_millis(250))).collect();
/// assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(250)));
/// assert_ne!(pauses[0], pauses[1]);
/// ```
#[derive(Clone, Debug)]
pub struct Jitter {
    random: fastrand::Rng,
}

impl Jitter {
    /// Creates a source of random pauses with the given seed.
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed) }
    }

    /// Returns a random pause that is uniformly distributed between zero and `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        scale(longest, self.random.f64())
    }
}

/// Returns `duration * factor`, saturating at [`Duration::MAX`]. Treats a negative or NaN factor as 0.
pub(crate) fn scale(duration: Duration, factor: f64) -> Duration {
    if factor > 0.0 && !duration.is_zero() {
        Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
    } else {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_saturates() {
        let second = Duration::from_secs(1);
        for (duration, factor, expected) in [
            (second, 2.0, 2 * second),
            (second, 0.0, Duration::ZERO),
            (second, -1.0, Duration::ZERO),
            (second, f64::NAN, Duration::ZERO),
            (second, f64::INFINITY, Duration::MAX),
            (Duration::ZERO, f64::INFINITY, Duration::ZERO),
            (Duration::MAX, 2.0, Duration::MAX),
            (Duration::MAX, 1.0, Duration::MAX),
        ] {
            assert_eq!(scale(duration, factor), expected, "{duration:?} * {factor}");
        }
    }
}
