//! API timestamps.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use jiff::civil::Date;
use jiff::fmt::temporal::Pieces;
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::test_clock::now;

/// A timestamp that is serialized with a precision of seconds, like Kubernetes' `metav1.Time`. The format is RFC 3339
/// in UTC, such as `2026-11-20T08:30:00Z`. Times after [`Timestamp::MAX`], such as `9999-12-31T23:59:59Z`, which some
/// programs use for "never", are read as [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

/// A timestamp that is serialized with a precision of microseconds, like Kubernetes' `metav1.MicroTime`. The serialized
/// form always has six fractional digits, such as `2026-11-20T08:30:00.000000Z`. Very late times are read as for [`Time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MicroTime(pub Timestamp);

impl Time {
    /// Returns the current time of the system clock. In a run of a `pintle_testkit::Kit`, this function returns the time
    /// of the run's server instead, which advances with the paused clock. Threads that an operator starts, for example
    /// with `spawn_blocking`, still get the time of the system clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{Condition, ConditionStatus, Time};
    ///
    /// let ready = Condition {
    ///     condition_type: "Ready".into(),
    ///     status: ConditionStatus::True,
    ///     last_transition_time: Some(Time::now()),
    ///     ..Condition::default()
    /// };
    /// assert!(ready.last_transition_time <= Some(Time::now()));
    /// ```
    pub fn now() -> Self {
        Self(now())
    }

    /// Returns the duration from `earlier` to `self`, or zero if `earlier` is later than `self`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use pintle_meta::Time;
    ///
    /// let (now, hour) = (Time::now(), Duration::from_secs(3_600));
    /// let next = now + hour;
    /// assert_eq!((next.duration_since(now), now.duration_since(next)), (hour, Duration::ZERO));
    /// assert_eq!(next - hour, now);
    /// ```
    pub fn duration_since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0.duration_since(earlier.0)).unwrap_or_default()
    }
}

/// The result is at most the latest time that [`Timestamp`] supports.
impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.checked_add(duration).unwrap_or(Timestamp::MAX))
    }
}

/// The result is at least the earliest time that [`Timestamp`] supports.
impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.checked_sub(duration).unwrap_or(Timestamp::MIN))
    }
}

impl MicroTime {
    /// Returns the current time, like [`Time::now`].
    pub fn now() -> Self {
        Self(now())
    }
}

macro_rules! timestamp {
    ($Time:ident, $unit:expr, $format:literal) => {
        impl From<Timestamp> for $Time {
            fn from(timestamp: Timestamp) -> Self {
                Self(timestamp)
            }
        }

        impl fmt::Display for $Time {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, truncated(self.0, $unit))
            }
        }

        impl Serialize for $Time {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $Time {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                parse(deserializer).map(Self)
            }
        }
    };
}

timestamp!(Time, Unit::Second, "{:.0}");
timestamp!(MicroTime, Unit::Microsecond, "{:.6}");

/// Parses any RFC 3339 timestamp, including fractional seconds and UTC offsets.
fn parse<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = Timestamp;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
            text.parse().or_else(|error| latest(text).ok_or(error)).map_err(E::custom)
        }
    }

    deserializer.deserialize_str(Text)
}

/// Returns [`Timestamp::MAX`] if `text`, which is not a [`Timestamp`], is a valid time that is too late.
fn latest(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let is_complete = pieces.time().is_some() && pieces.offset().is_some() && pieces.time_zone_annotation().is_none();
    (is_complete && pieces.date().year() == Date::MAX.year()).then_some(Timestamp::MAX)
}

/// Truncates the time to the serialized precision, like Go. Rounding could turn the current time into a time in the
/// future.
fn truncated(timestamp: Timestamp, unit: Unit) -> Timestamp {
    let rule = TimestampRound::new().smallest(unit).mode(RoundMode::Trunc);
    timestamp.round(rule).unwrap_or(timestamp)
}

/// Formats a duration like Go, for example `1h0m0s`, `1.5s` or `500ms`.
pub fn go_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let (seconds, rest) = (all / 1_000_000_000, all % 1_000_000_000);
    let decimal = |whole: u64, part: u64, digits: usize| {
        let part = format!("{part:0digits$}");
        format!("{whole}.{part}").trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let text = match (all, seconds) {
        (0, _) => "0s".into(),
        (..1_000, _) => format!("{all}ns"),
        (..1_000_000, _) => format!("{}µs", decimal(all / 1_000, all % 1_000, 3)),
        (_, 0) => format!("{}ms", decimal(all / 1_000_000, all % 1_000_000, 6)),
        (_, ..60) => format!("{}s", decimal(seconds, rest, 9)),
        (_, ..3600) => format!("{}m{}s", seconds / 60, decimal(seconds % 60, rest, 9)),
        _ => format!("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, decimal(seconds % 60, rest, 9)),
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_truncated_and_written_with_all_digits() {
        let moment: Timestamp = "2026-11-20T09:30:00.9876549+01:00".parse().unwrap();
        assert_eq!(serde_json::to_string(&Time(moment)).unwrap(), r#""2026-11-20T08:30:00Z""#);
        assert_eq!(serde_json::to_string(&MicroTime(moment)).unwrap(), r#""2026-11-20T08:30:00.987654Z""#);
        let whole: MicroTime = serde_json::from_str(r#""2026-11-20T08:30:00Z""#).unwrap();
        assert_eq!(whole.to_string(), "2026-11-20T08:30:00.000000Z");
    }

    #[test]
    fn too_late_times_are_the_latest_timestamp() {
        for text in ["9999-12-31T23:59:59Z", "9999-12-30T22:00:01Z", "9999-12-30T12:00:00.5-12:00"] {
            let text = serde_json::to_value(text).unwrap();
            assert_eq!(Time::deserialize(&text).unwrap(), Time(Timestamp::MAX), "{text}");
            assert_eq!(MicroTime::deserialize(&text).unwrap(), MicroTime(Timestamp::MAX), "{text}");
        }
        let before: Time = serde_json::from_str(r#""9999-12-31T09:59:59+12:00""#).unwrap();
        assert!(before.0 < Timestamp::MAX);
        for text in ["9999-12-31T23:59:59", "9999-12-31", "9999-12-32T00:00:00Z", "9999-12-31T23:59:59Z[Asia/Tokyo]"] {
            assert!(Time::deserialize(serde_json::to_value(text).unwrap()).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_formatted_as_in_go() {
        let second = 1_000_000_000;
        for (nanoseconds, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (second / 2, "500ms"),
            (second * 3 / 2, "1.5s"),
            (-60 * second, "-1m0s"),
            (3_600 * second, "1h0m0s"),
            (i64::MAX, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(go_duration(nanoseconds), expected);
        }
    }
}
