//! Waits until an observed condition is met.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::violation::Violation;

pub(crate) const LIMIT: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(20);
/// The interval between two observations is the time since the start divided by this number. Therefore, even a long
/// wait has only a few hundred observations.
const PART: u32 = 50;

/// Returns the interval until the next observation. `since` is the time since the start of the wait.
pub(crate) fn interval(since: Duration) -> Duration {
    INTERVAL.max(since / PART)
}

/// Observes a value repeatedly until `accept` returns `true`, and returns the accepted value. Waits for at most two
/// minutes on tokio's clock. To set another timeout, use [`eventually_within`].
///
/// The interval between two observations is 20 ms in the first second, and later 2 % of the time since the start.
///
/// # Examples
///
/// ```
/// use pintle_testkit::eventually;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pintle_testkit::Violation> {
/// let mut count = 0;
/// let observe = async || {
///     count += 1;
///     count
/// };
/// assert_eq!(eventually("three observations", observe, |count| *count == 3).await?, 3);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns an error if `accept` does not return `true` within the timeout. The error contains the last value.
///
/// # Cancel safety
///
/// This function is cancel safe if the futures that `observe` returns are cancel safe.
pub async fn eventually<T: Debug>(
    what: &str,
    observe: impl AsyncFnMut() -> T,
    accept: impl FnMut(&T) -> bool,
) -> Result<T, Violation> {
    eventually_within(LIMIT, what, observe, accept).await
}

/// Works like [`eventually`], with the timeout `within`. The value is observed at least once, and once more at the end
/// of the timeout.
///
/// # Errors
///
/// Returns an error if `accept` does not return `true` within the timeout. The error contains the last value.
///
/// # Cancel safety
///
/// This function is cancel safe if the futures that `observe` returns are cancel safe.
pub async fn eventually_within<T: Debug>(
    within: Duration,
    what: &str,
    mut observe: impl AsyncFnMut() -> T,
    mut accept: impl FnMut(&T) -> bool,
) -> Result<T, Violation> {
    let start = Instant::now();
    let end = start + within;
    loop {
        let is_last = Instant::now() >= end;
        let observed = observe().await;
        if accept(&observed) {
            return Ok(observed);
        }
        if is_last {
            let observed = format!("{observed:?}");
            return Err(Violation::NotInTime { what: what.into(), within, observed, errors: Vec::new() });
        }
        sleep_until(end.min(Instant::now() + interval(start.elapsed()))).await;
    }
}

/// Checks that `accept` returns `true` for each observed value during the given time on tokio's clock. Returns the last
/// value. The value is observed at least once, and once more at the end of the given time. The intervals between
/// observations are the same as in [`eventually`].
///
/// # Errors
///
/// Returns an error if `accept` returns `false`. The error contains the rejected value.
///
/// # Cancel safety
///
/// This function is cancel safe if the futures that `observe` returns are cancel safe.
pub async fn consistently<T: Debug>(
    during: Duration,
    what: &str,
    mut observe: impl AsyncFnMut() -> T,
    mut accept: impl FnMut(&T) -> bool,
) -> Result<T, Violation> {
    let start = Instant::now();
    loop {
        let is_last = start.elapsed() >= during;
        let observed = observe().await;
        if !accept(&observed) {
            let observed = format!("{observed:?}");
            return Err(Violation::NotConsistent { what: what.into(), after: start.elapsed(), observed });
        }
        if is_last {
            return Ok(observed);
        }
        sleep_until((start + during).min(Instant::now() + interval(start.elapsed()))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_show_the_condition_and_the_last_value() {
        let late = eventually("the answer", async || Some(41), |value| *value == Some(42)).await;
        assert_eq!(late.unwrap_err().to_string(), "the answer: not within 120 s; last observed: Some(41)");
        let start = Instant::now();
        let mut count = 0;
        let observe = async || {
            count += 1;
            start.elapsed().as_secs()
        };
        let broken = consistently(Duration::from_secs(9), "it is early", observe, |seconds| *seconds < 4).await;
        let broken = broken.unwrap_err().to_string();
        assert!(
            broken.starts_with("it is early: no longer true after 4") && broken.ends_with("observed: 4"),
            "{broken}"
        );
        assert!((50..200).contains(&count), "{count} observations");
    }
}
