//! Handles numbers, unpaired surrogates and error messages like Go's JSON package instead of `serde_json`.

use serde_json::{Error, Number};

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

/// If the text before `at` ends with an incomplete literal, such as `nul`, returns the complete literal and its next
/// expected character.
fn literal_before(text: &str, at: usize) -> Option<(&'static str, char)> {
    let before = text.get(..at)?;
    let start = before.len() - before.chars().rev().take_while(char::is_ascii_lowercase).count();
    let begun = before.get(start..).filter(|begun| !begun.is_empty())?;
    let literal = ["null", "true", "false"].into_iter().find(|literal| literal.starts_with(begun))?;
    literal[begun.len()..].chars().next().map(|expected| (literal, expected))
}

/// Returns Go's error message for text that is not JSON.
pub(super) fn go_error(error: &Error, text: &str) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let line = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = line + error.column().saturating_sub(1);
    let message = error.to_string();
    let Some(found) = text.as_bytes().get(at).copied() else { return message };
    let is = |start: &str| message.starts_with(start);
    let place = if is("trailing characters") {
        "after top-level value".into()
    } else if let Some((literal, expected)) = literal_before(text, at) {
        format!("in literal {literal} (expecting '{expected}')")
    } else if is("key must be a string") || (is("trailing comma") && found == b'}') {
        "looking for beginning of object key string".into()
    } else if is("expected `:`") {
        "after object key".into()
    } else if is("expected `,` or `}`") {
        "after object key:value pair".into()
    } else if is("expected `,` or `]`") {
        "after array element".into()
    } else if is("control character") {
        "in string literal".into()
    } else if is("invalid number") {
        "in numeric literal".into()
    } else {
        "looking for beginning of value".into()
    };
    format!("invalid character {} {place}", quoted(found))
}

/// Quotes a byte as in the error messages of Go's JSON decoder.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'\\' => r"'\\'".into(),
        b'\n' => r"'\n'".into(),
        b'\r' => r"'\r'".into(),
        b'\t' => r"'\t'".into(),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
