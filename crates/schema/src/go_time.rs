//! Parses and formats times like Go's package `time`.

use std::fmt::Write;

use jiff::SignedDuration;
use jiff::civil::DateTime;

/// The layout of a time, as in Go's package `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Seconds,
    Microseconds,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        }
    }

    pub(crate) fn format(self, time: DateTime) -> String {
        let sign = if time.year() < 0 { "-" } else { "" };
        let (year, month, day) = (time.year().unsigned_abs(), time.month(), time.day());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        let mut text = format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if self == Self::Microseconds {
            let _ = write!(text, ".{:06}", time.subsec_nanosecond() / 1_000);
        }
        text + "Z"
    }
}

/// Parses a time, and returns it in UTC. Returns errors with Go's messages. Unlike in Go, a time is out of range if its
/// year is 10000 in UTC.
pub(crate) fn parse(text: &str, layout: Layout) -> Result<DateTime, String> {
    parts(text, layout).map_err(|fault| {
        let fault = match fault {
            Fault::Unparsable(rest, element) => {
                format!(" as \"{}\": cannot parse {} as \"{element}\"", layout.text(), quoted(rest))
            }
            Fault::OutOfRange(part) => format!(": {part} out of range"),
            Fault::ExtraText(rest) => format!(": extra text: {}", quoted(rest)),
        };
        format!("parsing time {}{fault}", quoted(text))
    })
}

enum Fault<'a> {
    /// The remaining text, and the layout element that was expected at its start.
    Unparsable(&'a str, &'static str),
    /// The part of the time that is out of range.
    OutOfRange(&'static str),
    ExtraText(&'a str),
}

struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn literal(&mut self, element: &'static str) -> Result<(), Fault<'a>> {
        self.0 = self.0.strip_prefix(element).ok_or(Fault::Unparsable(self.0, element))?;
        Ok(())
    }

    fn number(&mut self, least: usize, most: usize, element: &'static str) -> Result<i16, Fault<'a>> {
        let count = digits(self.0).min(most);
        if count < least {
            return Err(Fault::Unparsable(self.0, element));
        }
        let (number, rest) = self.0.split_at(count);
        self.0 = rest;
        number.parse().map_err(|_| Fault::Unparsable(number, element))
    }

    fn two_digits(&mut self, element: &'static str, part: &'static str, most: i16) -> Result<i16, Fault<'a>> {
        self.number(2, 2, element).and_then(|number| within(number, most, part))
    }

    /// Parses a fraction of a second with any number of digits, and returns the nanoseconds.
    fn any_fraction(&mut self) -> i32 {
        let Some(text) = self.0.strip_prefix(['.', ',']) else { return 0 };
        let (fraction, rest) = text.split_at(digits(text));
        if !fraction.is_empty() {
            self.0 = rest;
        }
        nanoseconds(fraction).unwrap_or(0)
    }

    /// Parses a fraction with six characters. As in Go, the first character can be a sign.
    fn six_digits(&mut self) -> Result<i32, Fault<'a>> {
        let unparsable = Fault::Unparsable(self.0, ".000000");
        let Some((fraction, rest)) = self.0.strip_prefix(['.', ',']).and_then(|text| text.split_at_checked(6)) else {
            return Err(unparsable);
        };
        let is_negative = fraction.starts_with('-');
        let unsigned = fraction.strip_prefix(['-', '+']).unwrap_or(fraction);
        if digits(unsigned) < unsigned.len() {
            return Err(unparsable);
        }
        self.0 = rest;
        match unsigned.parse::<i32>() {
            Ok(microseconds) if !is_negative || microseconds == 0 => Ok(microseconds * 1_000),
            Ok(_) => Err(Fault::OutOfRange("fractional second")),
            Err(_) => Err(unparsable),
        }
    }

    /// Parses `Z` or an offset such as `+01:00`, and returns the offset from UTC.
    fn zone(&mut self) -> Result<SignedDuration, Fault<'a>> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.0.strip_prefix('Z') {
            self.0 = rest;
            return Ok(SignedDuration::ZERO);
        }
        let whole = Fault::Unparsable(self.0, ELEMENT);
        let Some((zone, rest)) = self.0.split_at_checked(6).filter(|(zone, _)| zone.as_bytes()[3] == b':') else {
            return Err(whole);
        };
        let number = |range| zone.get(range).filter(|text| digits(text) == 2)?.parse::<i16>().ok();
        let hours = number(1..3);
        let minutes = hours.and_then(|_| number(4..6));
        // Go accepts an offset of 24 hours and 60 minutes. Go checks the range of a number before it parses the
        // remaining offset.
        within(minutes.unwrap_or(0), 60, "time zone offset minute")?;
        within(hours.unwrap_or(0), 24, "time zone offset hour")?;
        let (Some(hours), Some(minutes)) = (hours, minutes) else { return Err(whole) };
        let offset = SignedDuration::from_mins(i64::from(hours) * 60 + i64::from(minutes));
        let offset = match zone.as_bytes()[0] {
            b'+' => offset,
            b'-' => -offset,
            _ => return Err(whole),
        };
        self.0 = rest;
        Ok(offset)
    }
}

fn parts(text: &str, layout: Layout) -> Result<DateTime, Fault<'_>> {
    let mut rest = Rest(text);
    let year = rest.number(4, 4, "2006")?;
    rest.literal("-")?;
    let month = rest.two_digits("01", "month", 12)?;
    if month == 0 {
        return Err(Fault::OutOfRange("month"));
    }
    rest.literal("-")?;
    let day = rest.number(2, 2, "02")?;
    rest.literal("T")?;
    // Go accepts an hour with a single digit.
    let hour = rest.number(1, 2, "15").and_then(|hour| within(hour, 23, "hour"))?;
    rest.literal(":")?;
    let minute = rest.two_digits("04", "minute", 59)?;
    rest.literal(":")?;
    let second = rest.two_digits("05", "second", 59)?;
    let nanosecond = match layout {
        Layout::Seconds => rest.any_fraction(),
        Layout::Microseconds => rest.six_digits()?,
    };
    let offset = rest.zone()?;
    if !rest.0.is_empty() {
        return Err(Fault::ExtraText(rest.0));
    }
    let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(|part| part as i8);
    let local = DateTime::new(year, month, day, hour, minute, second, nanosecond);
    let utc = local.and_then(|local| local.checked_sub(offset));
    utc.map_err(|_| Fault::OutOfRange("day"))
}

fn within<'a>(number: i16, most: i16, part: &'static str) -> Result<i16, Fault<'a>> {
    if number > most { Err(Fault::OutOfRange(part)) } else { Ok(number) }
}

/// Returns the number of digits at the start of a text.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Converts the digits of a fraction to nanoseconds. Go ignores all digits after the ninth.
fn nanoseconds(fraction: &str) -> Option<i32> {
    let used = &fraction[..fraction.len().min(9)];
    let scale = 10_i32.pow(9 - used.len() as u32);
    used.parse::<i32>().ok().map(|number| number * scale)
}

/// Quotes a text like Go's package `time`, which escapes each byte of a non-ASCII character.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'\x7f' => quoted.push(char::from(byte)),
            _ => _ = write!(quoted, "\\x{byte:02x}"),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected results are from Go's `time.Parse`.
    #[test]
    fn times_are_parsed_like_in_go() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
            ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.1234567891Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05+24:60", "2026-01-01T02:04:05Z"),
            ("2026-01-02T03:04:05-01:60", "2026-01-02T05:04:05Z"),
        ] {
            let found = parse(text, Layout::Seconds).map(|time| Layout::Seconds.format(time));
            assert_eq!(found.as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
            ("2026-01-02T03:04:05,000001+01:00", "2026-01-02T02:04:05.000001Z"),
            ("2026-01-02T03:04:05.+12345Z", "2026-01-02T03:04:05.012345Z"),
        ] {
            let found = parse(text, Layout::Microseconds).map(|time| Layout::Microseconds.format(time));
            assert_eq!(found.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_name_the_first_part_that_go_rejects() {
        for (text, expected) in [
            ("x", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\""),
            ("\u{e9}", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\\xc3\\xa9\" as \"2006\""),
            ("2026-01-01", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\""),
            ("2026-1-01T00:00:00Z", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"1-01T00:00:00Z\" as \"01\""),
            ("2026-01-01t00:00:00Z", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"t00:00:00Z\" as \"T\""),
            ("2026-01-01T00:00:00", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\""),
            ("2026-01-01T00:00:00.X", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \".X\" as \"Z07:00\""),
            ("2026-01-01T00:00:00.5X", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"X\" as \"Z07:00\""),
            ("2026-01-01T00:00:00+0100", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"+0100\" as \"Z07:00\""),
            ("2026-13-01T00:00:00Z", ": month out of range"),
            ("2026-00-01T00:00:00Z", ": month out of range"),
            ("2026-02-30T00:00:00Z", ": day out of range"),
            ("2026-02-00T00:00:00Z", ": day out of range"),
            ("2026-02-01T24:00:00Z", ": hour out of range"),
            ("2026-02-01T23:59:60Z", ": second out of range"),
            ("2026-02-01T00:00:00+25:00", ": time zone offset hour out of range"),
            ("2026-02-01T00:00:00+01:61", ": time zone offset minute out of range"),
            ("2026-02-01T00:00:00+25:61", ": time zone offset minute out of range"),
            ("2026-02-01T00:00:00+25:xx", ": time zone offset hour out of range"),
            ("2026-02-01T00:00:00x25:00", ": time zone offset hour out of range"),
            ("2026-02-01T00:00:00Za", ": extra text: \"a\""),
        ] {
            let expected = format!("parsing time {}{expected}", quoted(text));
            assert_eq!(parse(text, Layout::Seconds), Err(expected), "{text}");
        }
        for (text, expected) in [
            ("2026-01-01T00:00:00Z", "cannot parse \"Z\" as \".000000\""),
            ("2026-01-01T00:00:00.12345Z", "cannot parse \".12345Z\" as \".000000\""),
            ("2026-01-01T00:00:00.1234567Z", "cannot parse \"7Z\" as \"Z07:00\""),
            ("2026-01-01T00:00:00.-12345Z", "fractional second out of range"),
        ] {
            let error = parse(text, Layout::Microseconds).unwrap_err();
            assert!(error.ends_with(expected), "{error}");
        }
    }
}
