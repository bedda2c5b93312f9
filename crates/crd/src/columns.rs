//! Printer columns, and schema lookups by JSON path.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::declaration::Column;
use crate::schema_object::PRESERVE;

const AGE: &str = ".metadata.creationTimestamp";

/// Returns a definition's printer columns. The column `Age` follows them, because kubectl adds it only to
/// definitions without columns.
pub(crate) fn columns(declared: &[Column], schema: &Value) -> Result<Vec<Value>, String> {
    let age =
        Column { name: "Age", json_path: AGE, column_type: Some("date"), format: None, description: None, priority: 0 };
    let has_age = declared.is_empty() || declared.iter().any(|column| column.json_path == AGE);
    declared.iter().chain((!has_age).then_some(&age)).map(|column| column_json(column, schema)).collect()
}

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

fn column_json(column: &Column, schema: &Value) -> Result<Value, String> {
    if column.name.is_empty() {
        return Err(format!("the column of {} has no name; write a heading", column.json_path));
    }
    for (what, given, known) in [("type", column.column_type, &TYPES[..]), ("format", column.format, &FORMATS)] {
        if let Some(given) = given.filter(|given| !known.contains(given)) {
            let known = known.join(", ");
            let name = column.name;
            return Err(format!("the column {name:?}: {given:?} is no {what} of a column; write one of {known}"));
        }
    }
    let inferred = inferred(column.json_path, schema);
    let column_type = match (column.column_type, inferred) {
        (_, Err(NoType::Absent)) => {
            return Err(format!("the column {:?}: {} is not in the schema", column.name, column.json_path));
        }
        (Some(given), _) => given,
        (None, Ok(inferred)) => inferred,
        (None, Err(NoType::NoScalar)) => {
            let path = column.json_path;
            return Err(format!(
                "the column {:?}: {path} has no scalar type in the schema; add `type = \"string\"`",
                column.name
            ));
        }
    };
    let mut written = json!({"name": column.name, "type": column_type, "jsonPath": column.json_path});
    let options = [("format", column.format.map(Value::from)), ("description", column.description.map(Value::from))];
    let priority = ("priority", (column.priority != 0).then(|| column.priority.into()));
    for (name, value) in options.into_iter().chain([priority]) {
        if let Some(value) = value {
            written[name] = value;
        }
    }
    Ok(written)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoType {
    Absent,
    NoScalar,
}

fn inferred(path: &str, schema: &Value) -> Result<&'static str, NoType> {
    if path == AGE {
        return Ok("date");
    }
    if path.starts_with(".metadata.") {
        return Ok("string");
    }
    let found = find(path, schema).ok_or(NoType::Absent)?;
    match (found["type"].as_str(), found["format"].as_str()) {
        (Some("string"), Some("date-time")) => Ok("date"),
        (Some("string"), _) => Ok("string"),
        (Some("integer"), _) => Ok("integer"),
        (Some("number"), _) => Ok("number"),
        (Some("boolean"), _) => Ok("boolean"),
        _ if found["x-kubernetes-int-or-string"] == true => Ok("string"),
        _ => Err(NoType::NoScalar),
    }
}

/// The schema of a field inside a value that preserves unknown fields.
static FREE: LazyLock<Value> = LazyLock::new(|| json!({ PRESERVE: true }));

/// Returns the schema at `path`, or a schema without a type if `path` is inside a value that preserves unknown
/// fields.
pub(crate) fn find<'a>(path: &str, schema: &'a Value) -> Option<&'a Value> {
    segments(path)?.into_iter().try_fold(schema, |schema, segment| {
        let declared = match segment {
            Segment::Items => schema.get("items"),
            Segment::Field(name) => {
                schema.get("properties").and_then(|all: &'a Value| all.get(name.as_str())).or_else(|| {
                    let rest = schema.get("additionalProperties")?;
                    rest.is_object().then_some(rest)
                })
            }
        };
        declared.or_else(|| (schema[PRESERVE] == true).then_some(&*FREE))
    })
}

pub(crate) enum Segment {
    Field(String),
    /// Brackets with an index, a filter or a wildcard, which select list items.
    Items,
}

/// Splits a JSON path such as `.spec.list[?(@.type=="a.b")].name`. In a member name, a backslash escapes a dot.
pub(crate) fn segments(path: &str) -> Option<Vec<Segment>> {
    let (mut found, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            rest = &inner[inner.find(']')? + 1..];
            found.push(Segment::Items);
            continue;
        }
        let mut name = String::new();
        let mut letters = rest.strip_prefix('.')?.char_indices();
        rest = loop {
            match letters.next() {
                Some((_, '\\')) => name.extend(letters.next().map(|(_, escaped)| escaped)),
                Some((at, '.' | '[')) => break &rest[at + 1..],
                Some((_, letter)) => name.push(letter),
                None => break "",
            }
        };
        found.push(Segment::Field(name));
    }
    Some(found)
}

pub(crate) fn scale(scale: crate::declaration::Scale, schema: &Value) -> Result<Map<String, Value>, String> {
    let paths = [
        ("specReplicasPath", &[".spec."][..], Some(scale.spec_replicas)),
        ("statusReplicasPath", &[".status."], Some(scale.status_replicas)),
        ("labelSelectorPath", &[".spec.", ".status."], scale.label_selector),
    ];
    let paths = paths.into_iter().filter_map(|(name, starts, path)| Some((name, starts, path?)));
    paths
        .map(|(name, starts, path)| match find(path, schema) {
            _ if !starts.iter().any(|start| path.starts_with(start)) || path.contains('[') => {
                let starts = starts.join(" or ");
                Err(format!("the scale subresource: {path} must be a path of fields below {starts}"))
            }
            Some(_) => Ok((name.to_owned(), Value::from(path))),
            None => Err(format!("the scale subresource: {path} is not in the schema")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn type_of_a_column_is_read_from_the_schema() {
        let schema = json!({"type": "object", "properties": {"status": {"properties": {
            "at": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "conditions": {"type": "array", "items": {"properties": {"status": {"type": "string"}}}},
            "a.b": {"type": "boolean"},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "open": {
                "type": "object",
                "properties": {"known": {"type": "integer"}},
                "x-kubernetes-preserve-unknown-fields": true,
            },
        }}}});
        for (path, expected) in [
            (".status.at", Ok("date")),
            (".status.port", Ok("string")),
            (".status.conditions[?(@.type==\"Ready\")].status", Ok("string")),
            (".status.conditions[0].status", Ok("string")),
            (".status.a\\.b", Ok("boolean")),
            (".status.counts.any", Ok("integer")),
            (".metadata.labels.app", Ok("string")),
            (".status.conditions", Err(NoType::NoScalar)),
            (".status.absent", Err(NoType::Absent)),
            (".status.free", Err(NoType::NoScalar)),
            (".status.free.a[0].b", Err(NoType::NoScalar)),
            (".status.open.known", Ok("integer")),
            (".status.open.known.below", Err(NoType::Absent)),
            (".status.open.unknown", Err(NoType::NoScalar)),
            ("status.at", Err(NoType::Absent)),
        ] {
            assert_eq!(inferred(path, &schema), expected, "{path}");
        }
    }
}
