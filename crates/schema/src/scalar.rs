//! Reads scalar values and formats them like Go.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pintle_json::Json;

use super::go_base64::decode_base64;
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
            (Self::Bytes, Primitive::Text(text)) => bytes(&text),
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

/// Validates base64 text, and encodes the bytes again, like Go. Go accepts line breaks and unused bits, but does not
/// write them.
fn bytes(text: &str) -> Result<Json, ScalarError<'static>> {
    decode_base64(text).map(|bytes| STANDARD.encode(bytes).into()).map_err(ScalarError::Form)
}

/// Parses an RFC 3339 time and drops fractions of a second.
fn time(text: &str) -> Result<Json, ScalarError<'static>> {
    let stamp = stamp(text, SECONDS)?;
    let whole = Timestamp::from_second(stamp.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(stamp);
    Ok(whole.to_string().into())
}

/// Parses an RFC 3339 time with exactly six fractional digits.
fn micro_time(text: &str) -> Result<Json, ScalarError<'static>> {
    Ok(format!("{:.6}", stamp(text, MICROSECONDS)?).into())
}

/// Go's layout of a time with a precision of seconds.
const SECONDS: &str = "2006-01-02T15:04:05Z07:00";

/// Go's layout of a time with a precision of microseconds.
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

fn stamp(text: &str, layout: &str) -> Result<Timestamp, ScalarError<'static>> {
    // jiff accepts texts that Go does not, such as times without seconds.
    match time_fault(text, layout) {
        Some(fault) => Err(unparsable(text, layout, fault)),
        None => text.parse().map_err(|_| unparsable(text, layout, TimeFault::OutOfRange("day"))),
    }
}

/// Returns Go's error message for a time that it cannot parse.
fn unparsable(text: &str, layout: &str, fault: TimeFault<'_>) -> ScalarError<'static> {
    let fault = match fault {
        TimeFault::Unparsable(rest, element) => format!(" as {layout:?}: cannot parse {rest:?} as {element:?}"),
        TimeFault::OutOfRange(part) => format!(": {part} out of range"),
        TimeFault::ExtraText(rest) => format!(": extra text: {rest:?}"),
    };
    ScalarError::Form(format!("parsing time {text:?}{fault}"))
}

/// The first reason why Go cannot parse a time.
enum TimeFault<'a> {
    /// The rest of the text, and the element of the layout that it does not start with.
    Unparsable(&'a str, &'static str),
    /// The part of the time that is out of range.
    OutOfRange(&'static str),
    /// The text after the time.
    ExtraText(&'a str),
}

/// Returns the first fault of a time, except for a day that its month does not have.
fn time_fault<'a>(text: &'a str, layout: &str) -> Option<TimeFault<'a>> {
    const ELEMENTS: [(&str, &str, u32); 11] = [
        ("2006", "", 0),
        ("-", "", 0),
        ("01", "month", 12),
        ("-", "", 0),
        ("02", "", 0),
        ("T", "", 0),
        ("15", "hour", 23),
        (":", "", 0),
        ("04", "minute", 59),
        (":", "", 0),
        ("05", "second", 59),
    ];
    let has_fraction = layout == MICROSECONDS;
    let mut rest = text;
    for (element, part, most) in ELEMENTS.into_iter().chain(has_fraction.then_some((".000000", "", 0))) {
        let Some((found, after)) = element_of(rest, element) else {
            return Some(TimeFault::Unparsable(rest, element));
        };
        let least = u32::from(part == "month");
        if !part.is_empty() && found.parse().is_ok_and(|number: u32| number < least || number > most) {
            return Some(TimeFault::OutOfRange(part));
        }
        rest = after;
    }
    // Go accepts a fraction that the layout does not contain.
    if let Some(digits) = rest.strip_prefix('.').filter(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
        && !has_fraction
    {
        rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let zone = match rest.strip_prefix('Z') {
        Some(extra) => Some(("00:00", extra)),
        None => rest.strip_prefix(['+', '-']).and_then(|offset| element_of(offset, "07:00")),
    };
    match zone {
        None => Some(TimeFault::Unparsable(rest, "Z07:00")),
        Some((offset, _)) if offset[..2] > *"24" => Some(TimeFault::OutOfRange("time zone offset hour")),
        Some((_, "")) => None,
        Some((_, extra)) => Some(TimeFault::ExtraText(extra)),
    }
}

/// Splits `text` after an element of a layout. A digit of the element matches any digit.
fn element_of<'a>(text: &'a str, element: &str) -> Option<(&'a str, &'a str)> {
    let (found, after) = text.split_at_checked(element.len())?;
    let fits =
        |(wanted, found): (u8, u8)| if wanted.is_ascii_digit() { found.is_ascii_digit() } else { wanted == found };
    element.bytes().zip(found.bytes()).all(fits).then_some((found, after))
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
            (Scalar::Bytes, json!("aG\nl="), Some(json!("aGk="))),
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
            ("2026-01-01T00:00:00.5X", "X", "Z07:00"),
            ("2026-01-01T00:00:00+0100", "+0100", "Z07:00"),
        ] {
            let expected = format!("cannot parse {rest:?} as {element:?}");
            assert!(matches!(time(text), Err(ScalarError::Form(why)) if why.ends_with(&expected)), "{text}");
        }
        for (text, expected) in [
            ("2026-13-01T00:00:00Z", "month out of range"),
            ("2026-02-30T00:00:00Z", "day out of range"),
            ("2026-02-01T24:00:00Z", "hour out of range"),
            ("2026-02-01T23:59:60Z", "second out of range"),
            ("2026-02-01T00:00:00Za", "extra text: \"a\""),
            ("2026-02-01T00:00:00+25:00", "time zone offset hour out of range"),
        ] {
            let expected = format!("parsing time {text:?}: {expected}");
            assert!(matches!(time(text), Err(ScalarError::Form(why)) if why == expected), "{text}");
        }
        let without_fraction = micro_time("2026-01-01T00:00:00Z");
        assert!(
            matches!(without_fraction, Err(ScalarError::Form(why)) if why.ends_with("cannot parse \"Z\" as \".000000\""))
        );
    }
}
