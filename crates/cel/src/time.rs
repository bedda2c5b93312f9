//! Parses, computes and formats timestamps and durations.

use std::cmp::Ordering;
use std::fmt;

use jiff::civil;
use jiff::tz::{Offset, TimeZone};

use crate::error::Failure;

const NANOS: i64 = 1_000_000_000;
/// The first second of the year 1 and the last second of the year 9999, in seconds since 1970.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

fn overflow() -> Failure {
    Failure::new("timestamp overflow")
}

/// A point in time, with the UTC offset for formatting it.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
    /// The UTC offset in seconds. Offsets east of UTC are positive.
    offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

impl Timestamp {
    /// Creates a timestamp from the seconds since 1970-01-01T00:00:00Z and the nanoseconds within the second.
    ///
    /// # Errors
    ///
    /// Returns an error if the year of the timestamp is not between 1 and 9999.
    pub fn new(seconds: i64, nanos: u32) -> Result<Self, Failure> {
        if RANGE.contains(&seconds) {
            Ok(Self { seconds, nanos: nanos % NANOS as u32, offset: 0 })
        } else {
            Err(overflow())
        }
    }

    /// Parses an RFC 3339 timestamp. Returns `None` if the text is not in this format.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, Failure>> {
        let (date, rest) = text.split_at_checked(10)?;
        let date = parse_date(date)?;
        let rest = rest.strip_prefix('T')?;
        let zone = rest.find(['Z', '+', '-'])?;
        let (clock, zone) = rest.split_at(zone);
        let offset = parse_offset(zone)?;
        let (clock, fraction) = match clock.find(['.', ',']) {
            Some(index) => (&clock[..index], Some(&clock[index + 1..])),
            None => (clock, None),
        };
        let mut parts = clock.split(':');
        let hour = part(parts.next()?, 1..=2, 23)?;
        let (minute, second) = (part(parts.next()?, 2..=2, 59)?, part(parts.next()?, 2..=2, 59)?);
        if parts.next().is_some() {
            return None;
        }
        let nanos = fraction.map_or(Some(0), parse_fraction)?;
        let seconds = date + hour * 3600 + minute * 60 + second - i64::from(offset);
        Some(Self::new(seconds, nanos).map(|time| Self { offset, ..time }))
    }

    /// Parses a date. Returns the start of the day in UTC.
    pub(crate) fn parse_date(text: &str) -> Option<Self> {
        Some(Self { seconds: parse_date(text)?, nanos: 0, offset: 0 })
    }

    /// Returns the seconds since 1970-01-01T00:00:00Z.
    pub fn seconds(&self) -> i64 {
        self.seconds
    }

    /// Returns the number of nanoseconds since the start of the second.
    pub fn nanos(&self) -> u32 {
        self.nanos
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.seconds == *RANGE.start() && self.nanos == 0
    }

    pub(crate) fn in_utc(self) -> Self {
        Self { offset: 0, ..self }
    }

    pub(crate) fn plus(self, nanos: i64) -> Result<Self, Failure> {
        let total = i128::from(self.seconds) * i128::from(NANOS) + i128::from(self.nanos) + i128::from(nanos);
        let seconds = i64::try_from(total.div_euclid(i128::from(NANOS))).map_err(|_| overflow())?;
        let moved = Self::new(seconds, total.rem_euclid(i128::from(NANOS)) as u32)?;
        Ok(Self { offset: self.offset, ..moved })
    }

    /// Returns the duration from `other` to this timestamp, in nanoseconds.
    pub(crate) fn since(self, other: Self) -> Result<i64, Failure> {
        let nanos = |time: Self| i128::from(time.seconds) * i128::from(NANOS) + i128::from(time.nanos);
        let span = i64::try_from(nanos(self) - nanos(other)).ok();
        // As in Go, a difference of exactly `i64::MIN` nanoseconds is an overflow.
        span.filter(|span| *span != i64::MIN).ok_or_else(|| Failure::new("integer overflow"))
    }

    /// Converts the timestamp to a date and clock time. `zone` is an IANA time zone name or an offset such as `-02:30`.
    pub(crate) fn civil(self, zone: &str) -> Result<Civil, Failure> {
        Ok(Civil::at(self.seconds.saturating_add(self.offset_in(zone)?)))
    }

    /// Returns the UTC offset of a time zone in seconds. Offsets east of UTC are positive.
    fn offset_in(self, zone: &str) -> Result<i64, Failure> {
        let unknown = || Failure::new(format!("unknown time zone {zone}"));
        if let Some((hours, minutes)) = zone.split_once(':') {
            let (hours, minutes) = (atoi(hours)?, atoi(minutes)?);
            let minutes = if zone.starts_with('-') {
                hours.saturating_mul(60).saturating_sub(minutes)
            } else {
                hours.saturating_mul(60).saturating_add(minutes)
            };
            return Some(minutes.saturating_mul(60)).filter(|offset| offset.abs() < MAX_OFFSET).ok_or_else(unknown);
        }
        if matches!(zone, "" | "UTC" | "Local") {
            return Ok(0);
        }
        // Compare the names, because jiff ignores case in zone names and Go does not.
        let zone = TimeZone::get(zone).ok().filter(|found| found.iana_name() == Some(zone)).ok_or_else(unknown)?;
        // Use jiff's maximum timestamp, shortly before the end of 9999, for later times. The offsets are correct,
        // because no time zone changes its offset after jiff's maximum timestamp.
        let (first, last) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        let time = jiff::Timestamp::from_second(self.seconds.clamp(first, last));
        Ok(i64::from(zone.to_offset(time.unwrap_or_default()).seconds()))
    }
}

/// The maximum absolute value of a numeric offset, in seconds: about a thousand years.
const MAX_OFFSET: i64 = 31_556_952_000;

/// A date and a clock time in the Gregorian calendar.
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// The date and clock time, but moved to the years 1970 to 2369. jiff has no years after 9999, and the calendar
    /// repeats every 400 years.
    pub(crate) in_cycle: civil::DateTime,
}

impl Civil {
    fn at(seconds: i64) -> Self {
        const CYCLE: i64 = 146_097 * 86_400;
        let in_cycle = jiff::Timestamp::from_second(seconds.rem_euclid(CYCLE)).unwrap_or_default();
        let in_cycle = Offset::UTC.to_datetime(in_cycle);
        Self { year: i64::from(in_cycle.year()) + seconds.div_euclid(CYCLE) * 400, in_cycle }
    }
}

/// Writes the timestamp in RFC 3339 format. Trailing zeros of the fraction are omitted.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, in_cycle: time } = Civil::at(self.seconds + i64::from(self.offset));
        write!(f, "{year:04}-{:02}-{:02}", time.month(), time.day())?;
        write!(f, "T{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        if self.nanos != 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        match self.offset / 60 {
            0 => f.write_str("Z"),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }
}

fn part(text: &str, length: std::ops::RangeInclusive<usize>, max: i64) -> Option<i64> {
    let digits = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = digits.then(|| text.parse().ok()).flatten()?;
    (value <= max).then_some(value)
}

/// Parses a date. Returns the seconds from 1970 to the start of the day in UTC.
fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let mut next = |length: usize| part(parts.next()?, length..=length, 9999);
    let (year, month, day) = (next(4)?, next(2)?, next(2)?);
    if parts.next().is_some() {
        return None;
    }
    let date = civil::Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    Some(date.duration_since(civil::date(1970, 1, 1)).as_secs())
}

fn parse_offset(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let (hours, minutes) = text[1..].split_once(':')?;
    let seconds = part(hours, 2..=2, 24)? * 3600 + part(minutes, 2..=2, 60)? * 60;
    i32::try_from(if text.starts_with('-') { -seconds } else { seconds }).ok()
}

/// Converts the digits of a decimal fraction to nanoseconds. Ignores digits after the ninth digit.
fn parse_fraction(digits: &str) -> Option<u32> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").get(..9)?.parse().ok()
}

fn atoi(text: &str) -> Result<i64, Failure> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let value =
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten();
    let quoted = crate::go_text::quoted(text);
    value.ok_or_else(|| Failure::new(format!("strconv.Atoi: parsing {quoted}: invalid syntax")))
}

/// Formats a duration in seconds, like the CEL function `string`.
pub(crate) fn duration_text(nanos: i64) -> String {
    let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / 1e9;
    format!("{seconds}s")
}

/// Parses a duration in Go's format, such as `1h30m` or `-1.5s`. Returns nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(whole_end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len())),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit = unit_nanos(unit)?;
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let scaled = whole.checked_mul(unit).filter(|scaled| *scaled <= 1 << 63)?;
        total = total.checked_add(scaled)?.checked_add(fraction_nanos(fraction, unit))?;
        if total > 1 << 63 {
            return None;
        }
        rest = after;
    }
    if negative { Some((total as i64).wrapping_neg()) } else { i64::try_from(total).ok() }
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Converts the digits of a decimal fraction to nanoseconds. As in Go, stops before the first digit with which the
/// fraction would exceed 2⁶³.
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        let Some(next) = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0'))) else {
            break;
        };
        if next > 1 << 63 {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

/// Parses a time in the OpenAPI format `date-time`: RFC 3339 with an optional time zone.
pub(crate) fn parse_schema_time(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return Timestamp::new(0, 0).ok();
    }
    Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}Z")))?.ok()
}

/// The units of durations in OpenAPI, with their names and lengths in nanoseconds. More letters may follow the last
/// name of a unit, as in `seconds`.
const UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "\u{b5}s", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], NANOS),
    (&["m", "min"], 60 * NANOS),
    (&["h", "hr", "hour"], 3_600 * NANOS),
    (&["d", "day"], 86_400 * NANOS),
    (&["w", "wk", "week"], 604_800 * NANOS),
];

/// Parses a duration in the OpenAPI format `duration`: Go's format, or numbers with unit names such as `3 days`.
pub fn parse_schema_duration(text: &str) -> Option<i64> {
    parse_duration(text).or_else(|| words(text))
}

fn words(text: &str) -> Option<i64> {
    let (mut total, mut found) = (0_i64, false);
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = &rest[start..];
        let (count, after) = digits.split_at(digits.bytes().take_while(u8::is_ascii_digit).count());
        rest = after;
        let unit = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let unit = &unit[..unit.find(|c: char| !c.is_ascii_alphabetic() && c != '\u{b5}').unwrap_or(unit.len())];
        if unit.is_empty() {
            continue;
        }
        let (count, unit) = (count.parse::<i64>().ok()?, unit.to_lowercase());
        let matching = UNITS
            .iter()
            .filter(|(names, _)| names.contains(&&*unit) || names.last().is_some_and(|last| unit.starts_with(last)));
        for (_, nanos) in matching {
            total = total.wrapping_add(count.wrapping_mul(*nanos));
            found = true;
        }
    }
    found.then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_may_have_unit_names_of_any_case() {
        for (text, expected) in
            [("3 Days 5", Some(3 * 86_400 * NANOS)), ("1 MIN2S", Some(62 * NANOS)), ("1y", None), ("5", None)]
        {
            assert_eq!(parse_schema_duration(text), expected, "{text}");
        }
    }
}
