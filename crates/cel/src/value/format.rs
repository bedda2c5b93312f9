//! Formats values as text.

use std::fmt;

use pintle_json::go_float;

use super::Value;
use crate::go_text::quoted;
use crate::opaque::Opaque;
use crate::time;

const MAX_DEPTH: usize = 256;

/// Writes the value as a CEL literal, as in cel-go. Values below the 256th nesting level are written as `…`.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, f, MAX_DEPTH)
    }
}

impl Value<'_> {
    /// Formats a map key like Go's `%v`.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::String(text) => text.to_string(),
            Self::Double(value) => go_float(*value),
            Self::Uint(value) => value.to_string(),
            other => other.to_string(),
        }
    }

    /// Returns the name of the Go type that cel-go uses for the value.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::List(_) => "*types.baseList",
            Self::Map(_) => "*types.baseMap",
            Self::Optional(_) => "*types.Optional",
            Self::Type(_) => "*types.Type",
            Self::Object(_) => "*dynamic.ObjectVal",
            Self::Opaque(_) => "cel.Value",
        }
    }
}

fn write(value: &Value<'_>, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    let Some(depth) = depth.checked_sub(1) else { return f.write_str("…") };
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(value) => write!(f, "{value}"),
        Value::Int(value) => write!(f, "{value}"),
        Value::Uint(value) => write!(f, "{value}u"),
        Value::Double(value) => double(*value, f),
        Value::String(text) => f.write_str(&quoted(text)),
        Value::Bytes(bytes) => {
            f.write_str("b\"")?;
            bytes.iter().try_for_each(|byte| write!(f, "\\{byte:03o}"))?;
            f.write_str("\"")
        }
        Value::Duration(nanos) => write!(f, "duration(\"{}\")", time::duration_text(*nanos)),
        Value::Timestamp(time) => write!(f, "timestamp(\"{}\")", time.in_utc()),
        Value::Type(inner) => f.write_str(inner.name()),
        Value::List(list) => {
            f.write_str("[")?;
            for (count, item) in list.items().enumerate() {
                f.write_str(if count == 0 { "" } else { ", " })?;
                match item {
                    Ok(item) => write(&item, f, depth)?,
                    Err(failure) => write!(f, "{failure}")?,
                }
            }
            f.write_str("]")
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.entries().map(|(key, value)| (key.value().to_string(), value)).collect();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            f.write_str("{")?;
            for (count, (text, value)) in entries.iter().enumerate() {
                write!(f, "{}{text}: ", if count == 0 { "" } else { ", " })?;
                match value {
                    Ok(Some(value)) => write(value, f, depth)?,
                    Ok(None) => {}
                    Err(failure) => write!(f, "{failure}")?,
                }
            }
            f.write_str("}")
        }
        Value::Optional(None) => f.write_str("optional.none()"),
        Value::Optional(Some(value)) => {
            f.write_str("optional.of(")?;
            write(value, f, depth)?;
            f.write_str(")")
        }
        Value::Object(object) => {
            write!(f, "{}{{", object.type_name())?;
            for (count, (name, value)) in object.fields().enumerate() {
                write!(f, "{}{name}: ", if count == 0 { "" } else { ", " })?;
                write(value, f, depth)?;
            }
            f.write_str("}")
        }
        Value::Opaque(value) => opaque(value, f),
    }
}

fn double(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        _ if value.is_nan() => f.write_str("double(\"NaN\")"),
        _ if value.is_infinite() => {
            write!(f, "double(\"{}Infinity\")", if value < 0.0 { "-" } else { "" })
        }
        _ => {
            let text = value.to_string();
            write!(f, "{text}{}", if text.contains('.') { "" } else { ".0" })
        }
    }
}

fn opaque(value: &Opaque, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Opaque::Ip(address) => write!(f, "{address}"),
        Opaque::Cidr(cidr) => write!(f, "{cidr}"),
        Opaque::Quantity(quantity) => write!(f, "{quantity}"),
        Opaque::Semver(version) => write!(f, "{version}"),
        Opaque::Url(url) => f.write_str(url.text()),
        Opaque::Format(format) => f.write_str(format.name),
        Opaque::Authorization(_) | Opaque::Decision(_) => f.write_str(value.type_of().name()),
    }
}
