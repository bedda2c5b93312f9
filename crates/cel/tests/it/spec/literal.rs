//! Converts values and types in the test data to CEL expressions and types.

use pintle_cel::Type;

use super::reader::{Field, Message};

/// Converts a `cel.expr.Value` to an expression. Returns `None` for messages and enums, which this crate does not
/// support.
pub(super) fn expression(value: &Message) -> Option<String> {
    let (name, field) = value.0.first()?;
    Some(match (name.as_str(), field) {
        ("null_value", _) => "null".into(),
        ("bool_value" | "int64_value", Field::Word(word)) => word.clone(),
        ("uint64_value", Field::Word(word)) => format!("{word}u"),
        ("double_value", Field::Word(word)) => format!("double('{word}')"),
        ("string_value", Field::Text(bytes)) => quoted(std::str::from_utf8(bytes).ok()?),
        ("bytes_value", Field::Text(bytes)) => {
            let digits: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("b'{digits}'")
        }
        ("type_value", Field::Text(name)) => String::from_utf8(name.clone()).ok()?,
        ("list_value", Field::Message(list)) => {
            let items: Option<Vec<_>> = list.messages("values").map(dynamic).collect();
            format!("[{}]", items?.join(", "))
        }
        ("map_value", Field::Message(map)) => {
            let entry = |entry: &Message| {
                Some(format!("{}: {}", dynamic(entry.message("key")?)?, dynamic(entry.message("value")?)?))
            };
            let entries: Option<Vec<_>> = map.messages("entries").map(entry).collect();
            format!("{{{}}}", entries?.join(", "))
        }
        ("object_value", Field::Message(object)) => time(object)?,
        _ => return None,
    })
}

/// Wraps a value in `dyn(…)`. A list or map literal with items of mixed types compiles only if its items are
/// wrapped.
fn dynamic(value: &Message) -> Option<String> {
    expression(value).map(|value| format!("dyn({value})"))
}

fn quoted(text: &str) -> String {
    let escaped: String = text.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    format!("'{escaped}'")
}

/// Extracts the timestamp or duration from a protobuf `Any`.
fn time(object: &Message) -> Option<String> {
    let (name, field) = object.0.first()?;
    let Field::Message(time) = field else { return None };
    let part = |name| time.text(name).unwrap_or("0".into());
    match name.rsplit('/').next()? {
        "google.protobuf.Timestamp" => {
            Some(format!("timestamp({}) + duration('{}ns')", part("seconds"), part("nanos")))
        }
        "google.protobuf.Duration" => {
            Some(format!("duration('{}s') + duration('{}ns')", part("seconds"), part("nanos")))
        }
        _ => None,
    }
}

/// Converts a `cel.expr.Type` to a type of this crate. Returns `None` for messages and wrappers.
pub(super) fn cel_type(message: &Message) -> Option<Type> {
    let (name, field) = message.0.first()?;
    Some(match (name.as_str(), field) {
        ("dyn", _) => Type::Dyn,
        ("null", _) => Type::Null,
        ("primitive", Field::Word(word)) => match word.as_str() {
            "BOOL" => Type::Bool,
            "INT64" => Type::Int,
            "UINT64" => Type::Uint,
            "DOUBLE" => Type::Double,
            "STRING" => Type::String,
            "BYTES" => Type::Bytes,
            _ => return None,
        },
        ("well_known", Field::Word(word)) => match word.as_str() {
            "ANY" => Type::Dyn,
            "TIMESTAMP" => Type::Timestamp,
            "DURATION" => Type::Duration,
            _ => return None,
        },
        ("list_type", Field::Message(list)) => Type::list(cel_type(list.message("elem_type")?)?),
        ("map_type", Field::Message(map)) => {
            Type::map(cel_type(map.message("key_type")?)?, cel_type(map.message("value_type")?)?)
        }
        ("abstract_type", Field::Message(other)) if other.text("name")? == "optional_type" => {
            Type::optional(cel_type(other.message("parameter_types")?)?)
        }
        _ => return None,
    })
}
