//! Handles numbers and unpaired surrogates like Go's JSON package instead of `serde_json`.

use serde_json::Number;

/// Returns the number that Go writes after decoding `number`. Go keeps 64-bit integers and converts all other numbers
/// to floats. Go writes a float with an integral value as an integer, with the float's shortest digits and padding
/// zeros. Go later decodes the written integer as an integer if it fits into 64 bits.
pub(super) fn plain_number(number: Number) -> Number {
    if number.as_i64().is_some() {
        return number;
    }
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 1e19 => match float.to_string().parse::<i64>() {
            Ok(whole) => whole.into(),
            Err(_) => Number::from_f64(float).unwrap_or(number),
        },
        Some(float) => Number::from_f64(float).unwrap_or(number),
        None => number,
    }
}

/// Returns the number that Go decodes: a signed 64-bit integer if `number` has no fraction and no exponent and fits, and
/// a float otherwise. A float that Go writes as an integer above the range of `i64` becomes this integer, so it equals the
/// stored number. A negative zero becomes 0, because Go reads the stored `-0` back as an integer.
pub(super) fn decoded_number(number: Number) -> Number {
    let Some(float) = number.as_f64().filter(|_| !number.is_i64()) else { return number };
    // Write only numbers between the bounds of `i64` and `u64`, because the text of a large float has 300 digits.
    let text = (9e18..2e19).contains(&float).then(|| float.to_string());
    match text.and_then(|text| text.parse::<u64>().ok()) {
        Some(whole) if i64::try_from(whole).is_err() => whole.into(),
        _ => Number::from_f64(float + 0.0).unwrap_or(number),
    }
}

/// Replaces each escape sequence for an unpaired surrogate with `\ufffd`.
pub(super) fn replace_lone_surrogates(text: &str) -> String {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let width = match (unit(at), rest.chars().next()) {
            (Some(0xd800..=0xdbff), _) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                at += 6;
                continue;
            }
            (Some(_), _) => 6,
            // Skip both characters of any other escape sequence, because the text `\\ud800` would otherwise look like
            // an escaped surrogate.
            (None, Some('\\')) => rest.chars().take(2).map(char::len_utf8).sum(),
            (None, first) => first.map_or(1, char::len_utf8),
        };
        out.push_str(&rest[..width]);
        at += width;
    }
    out
}
