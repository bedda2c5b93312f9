//! Determines the type of a plain scalar with the YAML 1.1 rules of kubectl's YAML library for Go.

use serde_json::Number;
use zeroize::Zeroizing;

/// The meaning of a scalar. `Text` has no field, because a string's value is the text of the scalar.
#[derive(Debug, PartialEq)]
pub(super) enum Meaning {
    Null,
    Bool(bool),
    Number(Number),
    /// Infinity or NaN, which JSON cannot represent.
    NoJson,
    Text,
}

pub(super) fn resolve(text: &str) -> Meaning {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Meaning::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => Meaning::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => Meaning::Bool(false),
        _ if is_endless(text) => Meaning::NoJson,
        _ => number(text).map_or(Meaning::Text, Meaning::Number),
    }
}

fn is_endless(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return None;
    }
    // Erase this copy from memory, because the text may be a token that looks like a number.
    let plain = Zeroizing::new(text.replace('_', ""));
    integer(&plain).or_else(|| float(&plain))
}

fn integer(text: &str) -> Option<Number> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Reject a second sign, which `from_str_radix` would accept.
    let amount =
        u64::from_str_radix(digits, radix).ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_hexdigit()))?;
    if is_negative { 0_i64.checked_sub_unsigned(amount).map(Number::from) } else { Some(amount.into()) }
}

fn float(text: &str) -> Option<Number> {
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|_| has_digit && is_plain).and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Running kubectl has produced the expected values.
    #[test]
    fn plain_scalars_resolve_as_in_kubectl() {
        let number = |value: serde_json::Value| match value {
            serde_json::Value::Number(number) => Meaning::Number(number),
            _ => Meaning::Text,
        };
        for (text, value) in [
            ("0777", serde_json::json!(511)),
            ("0o17", serde_json::json!(15)),
            ("0x1F", serde_json::json!(31)),
            ("-0x1f", serde_json::json!(-31)),
            ("0b11", serde_json::json!(3)),
            ("1_000", serde_json::json!(1000)),
            ("+5", serde_json::json!(5)),
            ("08", serde_json::json!(8.0)),
            ("1e3", serde_json::json!(1000.0)),
            (".5", serde_json::json!(0.5)),
            ("1.", serde_json::json!(1.0)),
            ("18446744073709551616", serde_json::json!(18446744073709551616.0)),
            ("-9223372036854775808", serde_json::json!(i64::MIN)),
        ] {
            assert_eq!(resolve(text), number(value), "{text}");
        }
        for text in ["2001-01-01", "1:30", "-", "+", ".", "--5", "+-5", "0x", "0x+1", "e3", "1.2.3", "inf", "yES", "a"]
        {
            assert_eq!(resolve(text), Meaning::Text, "{text}");
        }
        for text in [".inf", "-.INF", ".NaN"] {
            assert_eq!(resolve(text), Meaning::NoJson, "{text}");
        }
        for (text, meaning) in [("y", true), ("On", true), ("NO", false), ("off", false)] {
            assert_eq!(resolve(text), Meaning::Bool(meaning), "{text}");
        }
        assert_eq!([resolve(""), resolve("~")], [Meaning::Null, Meaning::Null]);
    }
}
