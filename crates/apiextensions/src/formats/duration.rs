//! Durations in Go's format (`1h30m`), or any string with a number and a unit (`3 hours`, `PT1H`).

const GO_UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const WHOLE_UNITS: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
/// A word that begins with one of these prefixes is a unit of time.
const UNIT_PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];

pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || numbers_with_units(text).unwrap_or(false)
}

/// Returns `true` for a list of numbers with units. The sum of the durations in nanoseconds must fit into 64 bits.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let limit = (1_u128 << 63) - u128::from(!text.starts_with('-'));
    let mut sum = 0_u128;
    while let Some((amount, after)) = first_number(rest) {
        sum = sum.saturating_add(amount);
        rest = after;
        if rest.is_empty() {
            return sum <= limit;
        }
    }
    false
}

/// Converts the first number and its unit to nanoseconds, and also returns the remaining string.
fn first_number(text: &str) -> Option<(u128, &str)> {
    let (whole, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let fraction = rest.strip_prefix('.').unwrap_or("");
    let fraction = &fraction[..fraction.bytes().take_while(u8::is_ascii_digit).count()];
    let rest = rest.strip_prefix('.').map_or(rest, |rest| &rest[fraction.len()..]);
    let (unit, rest) = rest.split_at(rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len()));
    let (_, nanos) = GO_UNITS.iter().find(|(name, _)| *name == unit)?;
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u128>().unwrap_or(u128::MAX) };
    // Ignore the digits of the fraction after the fifteenth, which represent less than a nanosecond.
    let digits = &fraction[..fraction.len().min(15)];
    let part = digits.parse::<u128>().unwrap_or(0) * nanos / 10_u128.pow(digits.len() as u32);
    Some((whole.saturating_mul(*nanos).saturating_add(part), rest))
}

/// Returns `true` if a known unit follows a number in the text, or `None` if a number is too large.
fn numbers_with_units(text: &str) -> Option<bool> {
    let (mut rest, mut found) = (text, false);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let (number, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let unit = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let unit = &unit[..unit.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(unit.len())];
        if !unit.is_empty() {
            number.parse::<i64>().ok()?;
            let unit = unit.to_lowercase();
            found |= WHOLE_UNITS.contains(&&*unit) || UNIT_PREFIXES.iter().any(|prefix| unit.starts_with(prefix));
        }
        rest = after;
    }
    Some(found)
}
