//! The delays after failures.

use std::time::{Duration, Instant};

/// How long to wait after failures: longer each time, and from the start again after a time without any.
///
/// The default is client-go's: 0.8 s, doubling up to 30 s, each with up to as much again by chance, and a fresh start after
/// 2 minutes. The minutes count from the last failure, so that what fails for good keeps to its longest delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first delay.
    pub base: Duration,
    /// By how much each delay exceeds the one before.
    pub factor: f64,
    /// The longest delay, before chance is added.
    pub cap: Duration,
    /// The largest share of the delay that chance adds: 1.0 for up to as much again.
    pub jitter: f64,
    /// After this long without a failure, the next delay is the first again.
    pub reset_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

/// A server may ask for more time than the back-off gives, but not for this much more.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// The state of a [`Backoff`].
#[derive(Debug)]
pub(super) struct Delays {
    backoff: Backoff,
    next: Duration,
    /// When the last delay ended.
    until: Option<Instant>,
}

impl Delays {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { backoff, next: backoff.base, until: None }
    }

    /// The delay after a failure at `now`, no shorter than what the server asks for, unless it asks for too much.
    pub(super) fn next(&mut self, now: Instant, asked: Option<Duration>, random: &mut fastrand::Rng) -> Duration {
        let Backoff { base, factor, cap, jitter, reset_after } = self.backoff;
        if self.until.is_some_and(|until| now.saturating_duration_since(until) > reset_after) {
            self.next = base;
        }
        let delay = self.next.min(cap);
        self.next = saturating_mul(delay, factor).min(cap);
        let delay =
            saturating_mul(delay, 1.0 + jitter * random.f64()).max(asked.unwrap_or_default().min(LONGEST_ASKED));
        self.until = now.checked_add(delay);
        delay
    }
}

/// Durations from outside may be anything; a year is as good as forever.
fn saturating_mul(duration: Duration, factor: f64) -> Duration {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(YEAR).min(YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(delays: &mut Delays, now: Instant) -> u128 {
        delays.next(now, None, &mut fastrand::Rng::with_seed(1)).as_millis()
    }

    #[test]
    fn delays_double_up_to_the_cap_and_start_again_after_a_quiet_time() {
        let mut delays = Delays::new(Backoff { jitter: 0.0, ..Backoff::default() });
        let mut now = Instant::now();
        for expected in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            assert_eq!(millis(&mut delays, now), expected);
            now += Duration::from_millis(expected as u64);
        }
        now += Duration::from_secs(120);
        assert_eq!(millis(&mut delays, now), 30_000, "two minutes are not more than two minutes");
        now += Duration::from_millis(30_000 + 120_001);
        assert_eq!(millis(&mut delays, now), 800);
    }

    #[test]
    fn what_fails_for_good_keeps_its_longest_delay() {
        let mut delays = Delays::new(Backoff::default());
        let (mut now, mut random) = (Instant::now(), fastrand::Rng::with_seed(7));
        for round in 0..200 {
            let delay = delays.next(now, None, &mut random);
            let expected = Duration::from_millis(800 << round.min(6)).min(Duration::from_secs(30));
            assert!(delay >= expected && delay < expected * 2, "round {round}: {delay:?}");
            now += delay + Duration::from_secs(5);
        }
    }

    #[test]
    fn the_server_may_ask_for_more_but_not_for_less() {
        let (now, mut random) = (Instant::now(), fastrand::Rng::with_seed(7));
        let mut delays = Delays::new(Backoff { jitter: 0.0, ..Backoff::default() });
        assert_eq!(delays.next(now, Some(Duration::from_secs(7)), &mut random), Duration::from_secs(7));
        assert_eq!(delays.next(now, Some(Duration::from_millis(1)), &mut random), Duration::from_millis(1600));
        assert_eq!(delays.next(now, Some(Duration::MAX), &mut random), Duration::from_secs(600));
    }
}
