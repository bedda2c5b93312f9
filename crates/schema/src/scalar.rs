//! Reads scalar values and formats them like Go.

use std::borrow::Cow;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use jiff::{Timestamp, Unit};
use pintle_json::Json;

use super::quantity;
use super::sink::Primitive;
use super::types::Scalar;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScalarError<'a> {
    /// The value has the wrong JSON type or is out of range.
    Type(Primitive<'a>),
    /// The value is a string in the wrong format. The string is Go's error message.
    Form(String),
}

impl Scalar {
    /// Returns the Go name of the type.
    pub(super) fn go_name(self) -> &'static str {
        match self {
            Self::String | Self::Quantity | Self::ResourceQuantity | Self::Time | Self::MicroTime | Self::Duration => {
                "string"
            }
            Self::Bool => "bool",
            Self::Int32 | Self::IntOrString => "int32",
            Self::Int64 => "int64",
            Self::Number => "float64",
            Self::Bytes => "[]uint8",
            Self::Raw => "interface {}",
        }
    }

    /// Returns the zero value that Go writes for an unset scalar.
    pub(super) fn zero(self) -> Json {
        match self {
            Self::String => "".into(),
            Self::Bool => false.into(),
            Self::Int32 | Self::Int64 | Self::Number | Self::IntOrString => 0.into(),
            Self::Quantity | Self::ResourceQuantity => "0".into(),
            Self::Duration => "0s".into(),
            Self::Time | Self::MicroTime | Self::Bytes | Self::Raw => Json::Null,
        }
    }

    /// Reads a value other than null and formats it like Go.
    pub(super) fn read(self, found: Primitive<'_>) -> Result<Json, ScalarError<'_>> {
        match (self, found) {
            (Self::String | Self::IntOrString | Self::Duration, Primitive::Text(text)) => Ok(text.into()),
            (Self::Bool, Primitive::Bool(value)) => Ok(value.into()),
            (Self::Int32 | Self::IntOrString, found) => match whole(&found).and_then(|value| i32::try_from(value).ok())
            {
                Some(value) => Ok(value.into()),
                None => Err(ScalarError::Type(found)),
            },
            (Self::Int64, found) => whole(&found).map(Into::into).ok_or(ScalarError::Type(found)),
            (Self::Number, found @ Primitive::Number(_)) | (Self::Raw, found) => Ok(found.into_value()),
            (Self::Quantity | Self::ResourceQuantity, Primitive::Text(text)) => self.amount(&text),
            (Self::Quantity | Self::ResourceQuantity, Primitive::Number(number)) => self.amount(&number.to_string()),
            (Self::Time, Primitive::Text(text)) => time(&text),
            (Self::MicroTime, Primitive::Text(text)) => micro_time(&text),
            (Self::Bytes, Primitive::Text(text)) => bytes(text),
            (_, found) => Err(ScalarError::Type(found)),
        }
    }

    fn amount(self, text: &str) -> Result<Json, ScalarError<'static>> {
        let written = match self {
            Self::ResourceQuantity => quantity::written_in_list(text),
            _ => quantity::written(text),
        };
        written.map(Into::into).map_err(|why| ScalarError::Form(why.into()))
    }
}

/// Returns the number as an integer, or `None` if it has a decimal point or an exponent.
fn whole(found: &Primitive<'_>) -> Option<i64> {
    match found {
        Primitive::Number(number) if !number.is_f64() => number.as_i64(),
        _ => None,
    }
}

/// Validates base64 text and removes its line breaks.
fn bytes(mut text: Cow<'_, str>) -> Result<Json, ScalarError<'static>> {
    if text.contains(['\r', '\n']) {
        text = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    }
    match STANDARD.decode(&*text) {
        Ok(_) => Ok(text.into()),
        Err(DecodeError::InvalidByte(at, _)) => {
            Err(ScalarError::Form(format!("illegal base64 data at input byte {at}")))
        }
        // Go reports the start of the incomplete group of four characters.
        Err(_) => Err(ScalarError::Form(format!("illegal base64 data at input byte {}", text.len() / 4 * 4))),
    }
}

/// Parses an RFC 3339 time and drops fractions of a second.
fn time(text: &str) -> Result<Json, ScalarError<'static>> {
    let stamp = stamp(text)?;
    let whole = Timestamp::from_second(stamp.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(stamp);
    Ok(whole.to_string().into())
}

/// Parses an RFC 3339 time with exactly six fractional digits.
fn micro_time(text: &str) -> Result<Json, ScalarError<'static>> {
    let digits = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    if digits != 6 {
        return Err(unparsable(text, "2006-01-02T15:04:05.000000Z07:00"));
    }
    let stamp =
        stamp(text)?.round(Unit::Microsecond).map_err(|_| unparsable(text, "2006-01-02T15:04:05.000000Z07:00"))?;
    Ok(format!("{stamp:.6}").into())
}

fn stamp(text: &str) -> Result<Timestamp, ScalarError<'static>> {
    let unparsable = || unparsable(text, "2006-01-02T15:04:05Z07:00");
    // jiff accepts some texts that RFC 3339 does not allow: a space instead of the `T`, times without
    // seconds, and zones in brackets.
    let strict =
        text.as_bytes().get(10) == Some(&b'T') && text.as_bytes().get(16) == Some(&b':') && !text.contains('[');
    if strict { text.parse().map_err(|_| unparsable()) } else { Err(unparsable()) }
}

fn unparsable(text: &str, layout: &str) -> ScalarError<'static> {
    let (rest, element) = unparsable_part(text, layout);
    ScalarError::Form(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"))
}

/// Returns the rest of the text from which Go cannot parse the next element of the layout, and this element.
fn unparsable_part<'a>(text: &'a str, layout: &str) -> (&'a str, &'static str) {
    const ELEMENTS: [&str; 11] = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];
    let fraction = layout.contains(".000000").then_some(".000000");
    let mut rest = text;
    for element in ELEMENTS.into_iter().chain(fraction) {
        let is_digit =
            |(wanted, found): (u8, u8)| if wanted.is_ascii_digit() { found.is_ascii_digit() } else { wanted == found };
        let fits = rest.len() >= element.len() && element.bytes().zip(rest.bytes()).all(is_digit);
        match rest.get(element.len()..).filter(|_| fits) {
            Some(after) => rest = after,
            None => return (rest, element),
        }
    }
    (rest, "Z07:00")
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn scalars_are_read_as_in_go() {
        for (scalar, value, read) in [
            (Scalar::Int32, json!(5), Some(json!(5))),
            (Scalar::Int32, json!(3_000_000_000_i64), None),
            (Scalar::Int32, json!(2.0), None),
            (Scalar::Int64, json!(9_007_199_254_740_993_i64), Some(json!(9_007_199_254_740_993_i64))),
            (Scalar::Int64, json!("5"), None),
            (Scalar::Number, json!(3.0), Some(json!(3))),
            (Scalar::IntOrString, json!("80%"), Some(json!("80%"))),
            (Scalar::IntOrString, json!(80), Some(json!(80))),
            (Scalar::IntOrString, json!(1.5), None),
            (Scalar::Quantity, json!(2000), Some(json!("2k"))),
            (Scalar::Quantity, json!("1500u"), Some(json!("1500u"))),
            (Scalar::ResourceQuantity, json!("1500u"), Some(json!("2m"))),
            (Scalar::Quantity, json!("x"), None),
            (Scalar::Time, json!("2024-01-02T03:04:05.999+02:00"), Some(json!("2024-01-02T01:04:05Z"))),
            (Scalar::Time, json!("2024-01-02"), None),
            (Scalar::Time, json!(""), None),
            (Scalar::MicroTime, json!("2024-01-02T03:04:05.000000Z"), Some(json!("2024-01-02T03:04:05.000000Z"))),
            (Scalar::MicroTime, json!("2024-01-02T05:04:05.123456+02:00"), Some(json!("2024-01-02T03:04:05.123456Z"))),
            (Scalar::MicroTime, json!("2024-01-02T03:04:05Z"), None),
            (Scalar::MicroTime, json!("2024-01-02T03:04:05.123Z"), None),
            (Scalar::MicroTime, json!(""), None),
            (Scalar::Bytes, json!("aGk="), Some(json!("aGk="))),
            (Scalar::Bytes, json!("aGk"), None),
            (Scalar::Bool, json!("true"), None),
        ] {
            let found = match &value {
                Json::Bool(value) => Primitive::Bool(*value),
                Json::Number(number) => Primitive::Number(number.clone()),
                other => Primitive::Text(other.as_str().unwrap().into()),
            };
            assert_eq!(scalar.read(found).ok(), read, "{scalar:?} {value}");
        }
    }
    #[test]
    fn errors_name_the_first_part_that_go_rejects() {
        for (text, rest, element) in [
            ("x", "x", "2006"),
            ("2026-01-01", "", "T"),
            ("2026-1-01T00:00:00Z", "1-01T00:00:00Z", "01"),
            ("2026-01-01T00:00:00", "", "Z07:00"),
        ] {
            let expected = format!("cannot parse {rest:?} as {element:?}");
            assert!(matches!(time(text), Err(ScalarError::Form(why)) if why.ends_with(&expected)), "{text}");
        }
        let without_fraction = micro_time("2026-01-01T00:00:00Z");
        assert!(
            matches!(without_fraction, Err(ScalarError::Form(why)) if why.ends_with("cannot parse \"Z\" as \".000000\""))
        );
        for (text, at) in [("a b", 1), ("Failed", 4), ("YQ", 0)] {
            let expected = format!("illegal base64 data at input byte {at}");
            assert!(matches!(bytes(text.into()), Err(ScalarError::Form(why)) if why == expected), "{text}");
        }
    }
}
