//! Durations in Go's format.

use std::time::Duration;

const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    // Go accepts both the micro sign and the Greek letter mu.
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Parses a Go duration such as `1m30s`. A negative duration becomes zero. Returns Go's error message if the string is
/// invalid.
pub fn go_duration(text: &str) -> Result<Duration, &'static str> {
    const INVALID: &str = "invalid duration";
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(INVALID);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| INVALID)?;
        rest = &rest[digits..];
        let unit = UNITS.iter().find_map(|(unit, length)| Some((rest.strip_prefix(unit)?, length)));
        let (tail, length) = match unit {
            Some(unit) => unit,
            None if rest.is_empty() => return Err("missing unit in duration"),
            None => return Err("unknown unit in duration"),
        };
        seconds += number * length;
        rest = tail;
    }
    // As in Go, the maximum duration is 292 years.
    if seconds > i64::MAX as f64 / 1e9 {
        return Err(INVALID);
    }
    Ok(if negative { Duration::ZERO } else { Duration::try_from_secs_f64(seconds).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_like_in_go() {
        for (text, seconds) in [
            ("0", Ok(0.0)),
            ("5s", Ok(5.0)),
            ("1m30s", Ok(90.0)),
            ("+1.5h", Ok(5400.0)),
            ("-3s", Ok(0.0)),
            ("250ms", Ok(0.25)),
            ("1us1\u{b5}s1\u{3bc}s", Ok(0.000_003)),
            (".5s", Ok(0.5)),
            ("5", Err("missing unit in duration")),
            ("5x", Err("unknown unit in duration")),
            ("s", Err("invalid duration")),
            ("", Err("invalid duration")),
            ("-", Err("invalid duration")),
            (".s", Err("invalid duration")),
            ("1..5s", Err("invalid duration")),
            ("99999999999h", Err("invalid duration")),
        ] {
            let read = go_duration(text).map(|duration| (duration.as_secs_f64() * 1e6).round() / 1e6);
            assert_eq!(read, seconds, "{text}");
        }
    }
}
