//! Error messages of Go's JSON package.

use serde_json::Error;

/// If the text before `at` ends with an incomplete literal, such as `nul`, returns the complete literal and its next
/// expected character.
fn literal_before(text: &str, at: usize) -> Option<(&'static str, char)> {
    let before = text.get(..at)?;
    let start = before.len() - before.chars().rev().take_while(char::is_ascii_lowercase).count();
    let begun = before.get(start..).filter(|begun| !begun.is_empty())?;
    let literal = ["null", "true", "false"].into_iter().find(|literal| literal.starts_with(begun))?;
    literal[begun.len()..].chars().next().map(|expected| (literal, expected))
}

/// The start of the error for a number that does not fit into a float, from this crate and from `serde_json`.
const OUT_OF_RANGE: &str = "number out of range";

/// Returns the number whose last character is before `end`.
fn number_before(text: &str, end: usize) -> &str {
    let text = text.get(..end).unwrap_or(text);
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    &text[text.trim_end_matches(is_part).len()..]
}

/// Returns Go's error message for text that is not JSON. Returns the message of `error` if `text` is JSON that does not
/// fit into a type or exceeds a limit.
pub fn go_error(error: &Error, text: &str) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let line = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = line + error.column().saturating_sub(1);
    let message = error.to_string();
    let is = |start: &str| message.starts_with(start);
    if is(OUT_OF_RANGE) {
        let number = number_before(text, at + 1);
        return format!("json: cannot unmarshal number {number} into Go value of type float64");
    }
    // Go has other limits, and does not report these errors as invalid characters.
    if error.is_data() || is("recursion limit") {
        return message;
    }
    let Some(found) = text.as_bytes().get(at).copied() else { return message };
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

#[cfg(test)]
mod tests {
    use super::go_error;
    use crate::Json;

    #[test]
    fn messages_are_those_of_go() {
        for (text, expected) in [
            ("{bad", "invalid character 'b' looking for beginning of object key string"),
            ("m", "invalid character 'm' looking for beginning of value"),
            ("{\"a\":1", "unexpected end of JSON input"),
            ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
            ("{\"a\":\n[-1.5E+400]}", "json: cannot unmarshal number -1.5E+400 into Go value of type float64"),
        ] {
            let error = serde_json::from_str::<Json>(text).unwrap_err();
            assert_eq!(go_error(&error, text), expected);
        }
    }

    #[test]
    fn limits_are_not_invalid_characters() {
        let text = "[".repeat(200);
        let error = serde_json::from_str::<serde_json::Value>(&text).unwrap_err();
        assert_eq!(go_error(&error, &text), error.to_string());
        let error = serde_json::from_str::<u8>("{}").unwrap_err();
        assert_eq!(go_error(&error, "{}"), error.to_string());
    }
}
