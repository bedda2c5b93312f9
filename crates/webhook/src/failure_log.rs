//! Logs failed conversions, and combines equal failures in a period into one log line.
//!
//! This is necessary because the API server repeats a failing conversion for each list and watch, without any limit.

use std::collections::HashMap;
use std::mem::take;
use std::time::{Duration, Instant};

use pintle_meta::__private::Mutex;

use crate::shortened::{NAME, PROBLEM, shortened};

/// The minimum time between two log lines about the same version and problem.
const PERIOD: Duration = Duration::from_secs(60);
/// The time for which a problem is remembered after its last log line. A problem that continues is logged again before
/// that, so its number of failures is not lost.
const KEPT: Duration = Duration::from_secs(120);
/// The maximum number of remembered problems. All further problems share one log line.
const MOST: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<HashMap<Failure, Seen>>);

/// The version to which a conversion failed, and the problem without the object's name. Both can contain text from any
/// client, and are therefore shortened.
type Failure = (String, String);

#[derive(Debug)]
struct Seen {
    logged: Instant,
    /// The number of failures since the last log line about this problem.
    since: u64,
}

impl FailureLog {
    /// Logs a failed conversion, unless the same problem with the same version was logged in the last minute. `named` is
    /// the problem with the object's name.
    pub(crate) fn warn(&self, version: &str, problem: &str, named: &str) {
        let version = &*shortened(version, NAME);
        // `Debug` escapes line breaks.
        match self.record(version, problem, Instant::now()) {
            Some(0) => tracing::warn!(?version, problem = ?named, "a conversion failed"),
            Some(since) => tracing::warn!(
                ?version,
                problem = ?named,
                since,
                "conversions still fail; `since` is their number since the last line"
            ),
            None => {}
        }
    }

    /// Records a failed conversion, and returns the number of failures since the last log line if a log line is due.
    fn record(&self, version: &str, problem: &str, now: Instant) -> Option<u64> {
        let mut failures = self.0.lock();
        let mut failure = (shortened(version, NAME).into_owned(), shortened(problem, PROBLEM).into_owned());
        if !failures.contains_key(&failure) {
            failures.retain(|_, seen| now.saturating_duration_since(seen.logged) < KEPT);
            if failures.len() >= MOST {
                failure = Failure::default();
            }
        }
        match failures.get_mut(&failure) {
            None => {
                failures.insert(failure, Seen { logged: now, since: 0 });
                Some(0)
            }
            Some(seen) if now.saturating_duration_since(seen.logged) >= PERIOD => {
                seen.logged = now;
                Some(take(&mut seen.since) + 1)
            }
            Some(seen) => {
                seen.since += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::io::Seek;

    use super::*;

    #[test]
    fn same_failure_is_logged_once_a_minute() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(log.record("v1", "no domain", start), Some(0));
        assert!((0..1_000).all(|_| log.record("v1", "no domain", at(59)).is_none()));
        assert_eq!(log.record("v2", "no domain", at(59)), Some(0), "another version");
        assert_eq!(log.record("v1", "no port", at(59)), Some(0), "another problem");
        assert_eq!(log.record("v1", "no domain", at(60)), Some(1_001));
        assert_eq!(log.record("v1", "no domain", at(61)), None);
        assert_eq!(log.record("v1", "no domain", at(121)), Some(2));
    }

    #[test]
    fn number_of_lines_and_memory_are_bounded() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let record = |number: u32, now| log.record("v1", &format!("problem {number}"), now);
        let logged = (0..10_000).filter(|number| record(*number, start).is_some()).count();
        assert_eq!(logged, MOST + 1);
        assert!(log.0.lock().len() <= MOST + 1);
        assert_eq!(record(20_000, start + KEPT), Some(0), "old entries make room");
        assert_eq!(log.0.lock().len(), 1);
    }

    #[test]
    fn old_problem_is_forgotten_at_the_next_one() {
        let (log, start) = (FailureLog::default(), Instant::now());
        log.record("v1", "no domain", start);
        log.record("v1", "no port", start + PERIOD);
        assert_eq!(log.record("v1", "no domain", start + PERIOD), Some(1), "the count is kept");
        log.record("v2", "no domain", start + PERIOD + KEPT);
        assert_eq!(log.0.lock().len(), 1);
    }

    #[test]
    fn remembered_text_is_short() {
        let (log, long) = (FailureLog::default(), "x".repeat(8 << 20));
        log.record(&long, &long, Instant::now());
        let sizes: Vec<_> = log.0.lock().keys().map(|(version, problem)| (version.len(), problem.len())).collect();
        assert_eq!(sizes, [(NAME + "…".len(), PROBLEM + "…".len())]);
    }

    #[test]
    fn foreign_text_forges_no_log_line() {
        let (log, mut lines) = (FailureLog::default(), tempfile::tempfile().unwrap());
        let writer = std::sync::Mutex::new(lines.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer).finish();
        tracing::subscriber::with_default(subscriber, || log.warn("v1\nWARN", "a", "a\nWARN forged"));
        lines.rewind().unwrap();
        let lines = std::io::read_to_string(lines).unwrap();
        assert!(lines.contains("a conversion failed") && lines.lines().count() == 1, "{lines}");
    }
}
