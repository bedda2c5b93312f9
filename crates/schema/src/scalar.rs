//! Reads scalar values and formats them like Go.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_json::Json;

use super::go_base64::decode_base64;
use super::go_time::{self, Layout};
use super::quantity;
use super::sink::Primitive;
use super::types::Scalar;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScalarError<'a> {
    /// The value has the wrong JSON type or is out of range.
    Type(Primitive<'a>),
    /// The value is a string in the wrong format. This variant contains Go's error message.
    Form(String),
}

impl Scalar {
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
            (Self::Time, Primitive::Text(text)) => time(&text, Layout::Seconds),
            (Self::MicroTime, Primitive::Text(text)) => time(&text, Layout::Microseconds),
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

/// Parses a time, and writes it in UTC like Go. A type with a precision of seconds drops the fraction.
fn time(text: &str, layout: Layout) -> Result<Json, ScalarError<'static>> {
    go_time::parse(text, layout).map(|time| layout.format(time).into()).map_err(ScalarError::Form)
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
}
