//! Selectable fields.

use serde_json::{Value, json};

use crate::columns::{Segment, find, segments};

const MAX_FIELDS: usize = 8;
const SCALARS: [&str; 3] = ["string", "boolean", "integer"];

/// Returns a definition's selectable fields, or an error if the API server would reject them.
pub(crate) fn fields(paths: &[&str], schema: &Value) -> Result<Vec<Value>, String> {
    if let Some((_, path)) = paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path)) {
        return Err(format!("the selectable field {path} is listed twice; remove one of them"));
    }
    if paths.len() > MAX_FIELDS {
        return Err(format!(
            "there are {} selectable fields, but the API server accepts at most {MAX_FIELDS}; remove {} of them",
            paths.len(),
            paths.len() - MAX_FIELDS
        ));
    }
    paths.iter().map(|path| field(path, schema)).collect()
}

fn field(path: &str, schema: &Value) -> Result<Value, String> {
    let fail = |why: &str| Err(format!("the selectable field {path:?} {why}"));
    let is_plain = |segment: &Segment| matches!(segment, Segment::Field(name) if !name.is_empty());
    if path.contains('\\') || !segments(path).is_some_and(|all| !all.is_empty() && all.iter().all(is_plain)) {
        return fail(
            "is not a path of field names; write a path such as \".spec.domain\", without brackets and backslashes",
        );
    }
    if path == ".metadata" || path.starts_with(".metadata.") {
        return fail(
            "is in the metadata; remove it, because selectors always know metadata.name and metadata.namespace",
        );
    }
    let Some(found) = find(path, schema) else { return fail("is not in the schema") };
    match found["type"].as_str() {
        Some(name) if SCALARS.contains(&name) => Ok(json!({ "jsonPath": path })),
        Some(name) => fail(&format!(
            "has the type {name}, but the API server only selects by strings, booleans and integers; remove it, or \
             select a field with one of these types"
        )),
        None => fail("has no type in the schema; remove it, or give the field the type String, bool or an integer"),
    }
}
