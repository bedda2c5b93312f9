//! Conversions between types.

use pintle_json::go_float;

use super::{Function, Returned};
use crate::error::Failure;
use crate::meter::Meter;
use crate::opaque::Opaque;
use crate::time::{self, Timestamp};
use crate::types::Type;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "dyn" => unchanged,
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "type" => type_of,
        "uint" => to_uint,
        _ => return None,
    })
}

fn wrong<T>(from: &Value<'_>, to: &Type) -> Result<T, Failure> {
    Err(Failure::new(format!("type conversion error from '{}' to '{}'", from.type_of().name(), to.name())))
}

/// Runs a conversion that parses or copies a text, and counts its work.
fn counted<'a>(meter: &mut Meter, text: &[u8], convert: impl FnOnce() -> Result<Value<'a>, Failure>) -> Returned<'a> {
    Some(meter.text(text.len()).and_then(|()| convert()))
}

fn unchanged<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    args.first().cloned().map(Ok)
}

fn type_of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    args.first().map(|value| Ok(Value::Type(value.type_of())))
}

fn to_bool<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Bool(value)] => Some(Ok(Value::Bool(*value))),
        [value @ Value::String(text)] => Some(match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => wrong(value, &Type::Bool),
        }),
        _ => None,
    }
}

fn to_bytes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Bytes(bytes)] => Some(Ok(Value::Bytes(bytes.clone()))),
        [Value::String(text)] => counted(meter, text.as_bytes(), || Ok(Value::Bytes(text.as_bytes().into()))),
        _ => None,
    }
}

fn to_double<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Double(value)] => Some(Ok(Value::Double(*value))),
        [Value::Int(value)] => Some(Ok(Value::Double(*value as f64))),
        [Value::Uint(value)] => Some(Ok(Value::Double(*value as f64))),
        [value @ Value::String(text)] => counted(meter, text.as_bytes(), || {
            parse_float(text).map_or_else(|| wrong(value, &Type::Double), |number| Ok(Value::Double(number)))
        }),
        _ => None,
    }
}

/// Parses a floating-point number like Go, with optional underscores between the digits. Unlike Go, this function
/// rejects hexadecimal numbers.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let mut parts = text.split('_').peekable();
    while let Some(part) = parts.next() {
        if let Some(next) = parts.peek()
            && !(part.ends_with(|c: char| c.is_ascii_digit()) && next.starts_with(|c: char| c.is_ascii_digit()))
        {
            return None;
        }
    }
    let text = &*text.replace('_', "");
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let special = ["inf", "infinity", "nan"].iter().any(|name| digits.eq_ignore_ascii_case(name));
    let valid = special || digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = valid.then(|| text.parse().ok()).flatten()?;
    (special || number.is_finite()).then_some(number)
}

fn to_int<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let overflow = || Failure::new("integer overflow");
    let [value] = args else { return None };
    Some(match value {
        Value::Int(number) | Value::Duration(number) => Ok(Value::Int(*number)),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        Value::Double(number) => {
            if *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_808.0 {
                Ok(Value::Int(*number as i64))
            } else {
                Err(overflow())
            }
        }
        Value::Timestamp(time) => Ok(Value::Int(time.seconds())),
        Value::String(text) => {
            return counted(meter, text.as_bytes(), || {
                let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
                let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                let number = plain.then(|| text.parse().ok()).flatten();
                number.map_or_else(|| wrong(value, &Type::Int), |number| Ok(Value::Int(number)))
            });
        }
        _ => return None,
    })
}

fn to_uint<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let overflow = || Failure::new("unsigned integer overflow");
    let [value] = args else { return None };
    Some(match value {
        Value::Uint(number) => Ok(Value::Uint(*number)),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) => {
            if *number >= 0.0 && *number < 18_446_744_073_709_551_616.0 {
                Ok(Value::Uint(*number as u64))
            } else {
                Err(overflow())
            }
        }
        Value::String(text) => {
            return counted(meter, text.as_bytes(), || {
                let plain = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = plain.then(|| text.parse().ok()).flatten();
                number.map_or_else(|| wrong(value, &Type::Uint), |number| Ok(Value::Uint(number)))
            });
        }
        _ => return None,
    })
}

fn to_string<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [value @ Value::Bytes(bytes)] => {
            counted(meter, bytes, || text(value).unwrap_or_else(|| wrong(value, &Type::String)))
        }
        [value] => text(value),
        _ => None,
    }
}

/// Converts a value to a string. Returns `None` if values of this type cannot be converted to a string.
pub(super) fn text<'a>(value: &Value<'a>) -> Returned<'a> {
    Some(Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(value) => value.to_string().into(),
        Value::Int(value) => value.to_string().into(),
        Value::Uint(value) => value.to_string().into(),
        Value::Double(value) => go_float(*value).into(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::string(text),
            Err(_) => return Some(Err(Failure::new("invalid UTF-8 in bytes, cannot convert to string"))),
        },
        Value::Duration(nanos) => time::duration_text(*nanos).into(),
        Value::Timestamp(time) => time.to_string().into(),
        Value::Opaque(Opaque::Ip(address)) => address.to_string().into(),
        Value::Opaque(Opaque::Cidr(cidr)) => cidr.to_string().into(),
        _ => return None,
    }))
}

fn to_duration<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Duration(*nanos))),
        [value @ Value::Int(_)] => Some(wrong(value, &Type::Duration)),
        [value @ Value::String(text)] => counted(meter, text.as_bytes(), || {
            let nanos = time::parse_duration(text);
            nanos.map_or_else(|| wrong(value, &Type::Duration), |nanos| Ok(Value::Duration(nanos)))
        }),
        _ => None,
    }
}

fn to_timestamp<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Timestamp(time)] => Some(Ok(Value::Timestamp(*time))),
        [Value::Int(seconds)] => Some(Timestamp::new(*seconds, 0).map(Value::Timestamp)),
        [value @ Value::String(text)] => counted(meter, text.as_bytes(), || match Timestamp::parse(text) {
            Some(time) => time.map(Value::Timestamp),
            None => wrong(value, &Type::Timestamp),
        }),
        _ => None,
    }
}
