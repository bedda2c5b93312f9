//! Texts, times and durations with a limited size.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;

/// The maximum length of a text, in characters. Error messages must be shortened, because they may contain whole
/// responses.
const LONGEST: usize = 400;

/// Returns the text, truncated to 400 characters. Control characters are removed, except for line breaks and tabs.
pub(super) fn shortened(text: &str) -> String {
    let mut rest = text.chars();
    let clean = |char: char| if char.is_control() && char != '\n' && char != '\t' { '\u{fffd}' } else { char };
    let mut short: String = rest.by_ref().take(LONGEST).map(clean).collect();
    if rest.next().is_some() {
        short.pop();
        short.push('…');
    }
    short
}

pub(super) fn now() -> SystemTime {
    SystemTime::now()
}

/// Formats a time as RFC 3339 with milliseconds. A time outside of RFC 3339's range becomes the nearest valid time.
pub(super) fn time(time: SystemTime) -> String {
    let limit = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    format!("{:.3}", Timestamp::try_from(time).unwrap_or(limit))
}

/// Converts an instant to wall-clock time. `now` is the current wall-clock time.
pub(super) fn time_of(instant: Instant, now: SystemTime) -> String {
    let ago = tokio::time::Instant::now().into_std().saturating_duration_since(instant);
    time(now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Returns a duration in seconds, rounded to microseconds.
pub(super) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_shortened_at_a_character() {
        assert_eq!(shortened("short\n\u{1b}[31m\0"), "short\n\u{fffd}[31m\u{fffd}");
        let long = shortened(&"ü".repeat(LONGEST + 1));
        assert_eq!((long.chars().count(), long.ends_with("ü…")), (LONGEST, true));
        assert_eq!(shortened(&"ü".repeat(LONGEST)), "ü".repeat(LONGEST));
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time(SystemTime::UNIX_EPOCH + Duration::from_micros(1_500)), "1970-01-01T00:00:00.001Z");
        assert!(time(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 50)).starts_with("9999-12-"));
        assert_eq!(seconds(Duration::from_nanos(1_234_567_891)), 1.234_568);
    }
}
