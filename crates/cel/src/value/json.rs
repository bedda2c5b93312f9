//! Converts values to JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Fields, Number, Value as Json};

use super::{Key, Opaque, Value};
use crate::error::Failure;
use crate::node::{Node, Scalar};
use crate::time;

const MAX_DEPTH: usize = 256;
/// The maximum size of a value as JSON: the number of values plus the number of bytes in all strings. The JSON can be
/// much larger than the value in memory, because a value can refer to the same data several times.
const MAX_SIZE: usize = 8 << 20;

impl Value<'_> {
    /// Converts the value to JSON. Objects created by the expression become JSON objects. Absent optional values become
    /// `null`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be represented as JSON, if a map has a key that is not a string, or if
    /// values are nested deeper than 256 levels. Also returns an error if the number of values plus the number of bytes
    /// in all strings exceeds about eight million.
    pub fn to_json(&self) -> Result<Json, Failure> {
        let mut left = MAX_SIZE;
        json(self, MAX_DEPTH, &mut left)
    }
}

fn json(value: &Value<'_>, depth: usize, left: &mut usize) -> Result<Json, Failure> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Failure::new("values are nested too deep to convert to JSON"));
    };
    let text = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    count(left, text)?;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Double(value) => {
            let number = Number::from_f64(*value);
            Json::Number(number.ok_or_else(|| Failure::new(format!("JSON has no number {value}")))?)
        }
        Value::String(text) => Json::String(text.to_string()),
        Value::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
        Value::Duration(nanos) => Json::String(time::duration_text(*nanos)),
        Value::Timestamp(time) => Json::String(time.to_string()),
        Value::List(list) => Json::Array(list.items().map(|item| json(&item?, depth, left)).collect::<Result<_, _>>()?),
        Value::Map(map) => match map.node() {
            Some((node, _)) => copied(node, depth, left)?,
            None => {
                let mut fields = Fields::new();
                for (key, value) in map.entries() {
                    let Key::String(name) = &key else {
                        return Err(Failure::new(format!("JSON has no key {}", key.value())));
                    };
                    count(left, name.len())?;
                    if let Some(value) = value? {
                        fields.insert(name.to_string(), json(&value, depth, left)?);
                    }
                }
                Json::Object(fields)
            }
        },
        Value::Optional(Some(value)) => json(value, depth, left)?,
        Value::Object(object) => {
            let fields = object.fields().map(|(name, value)| Ok((name.to_string(), json(value, depth, left)?)));
            Json::Object(fields.collect::<Result<_, _>>()?)
        }
        Value::Opaque(Opaque::Ip(address)) => Json::String(address.to_string()),
        Value::Opaque(Opaque::Cidr(cidr)) => Json::String(cidr.to_string()),
        Value::Opaque(Opaque::Quantity(quantity)) => Json::String(quantity.to_string()),
        Value::Opaque(Opaque::Semver(version)) => Json::String(version.to_string()),
        Value::Opaque(Opaque::Url(url)) => Json::String(url.text().into()),
        Value::Type(_) | Value::Opaque(_) => {
            return Err(Failure::new(format!("JSON has no value of type {}", value.type_of())));
        }
    })
}

fn copied(node: &dyn Node, depth: usize, left: &mut usize) -> Result<Json, Failure> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Failure::new("values are nested too deep to convert to JSON"));
    };
    count(left, if let Scalar::String(text) = node.scalar() { text.len() } else { 0 })?;
    Ok(match node.scalar() {
        Scalar::Null => Json::Null,
        Scalar::Bool(value) => Json::Bool(value),
        Scalar::Int(value) => Json::from(value),
        Scalar::Uint(value) => Json::from(value),
        Scalar::Double(value) => Number::from_f64(value).map_or(Json::Null, Json::Number),
        Scalar::String(text) => Json::String(text.into()),
        Scalar::List => {
            let items = (0..node.len()).filter_map(|index| node.item(index));
            Json::Array(items.map(|item| copied(item, depth, left)).collect::<Result<_, _>>()?)
        }
        Scalar::Map => {
            let fields = node.fields().map(|(name, field)| {
                count(left, name.len())?;
                Ok((name.to_string(), copied(field, depth, left)?))
            });
            Json::Object(fields.collect::<Result<_, _>>()?)
        }
    })
}

fn count(left: &mut usize, text: usize) -> Result<(), Failure> {
    *left = left.checked_sub(1 + text).ok_or_else(|| Failure::new("the value is too large to convert to JSON"))?;
    Ok(())
}
