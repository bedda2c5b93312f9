//! Iterates over the schemas nested in a schema.

use pintle_json::Json;

use crate::field_path::FieldPath;

/// Calls `visit` with the path and the schema of each field, and of the list items or map values.
pub(super) fn fields(schema: &Json, path: FieldPath<'_>, mut visit: impl FnMut(&Json, FieldPath<'_>)) {
    let properties = path.member("properties");
    for (name, property) in schema.members("/properties") {
        visit(property, FieldPath::Key(&properties, name));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(key).filter(|schema| schema.is_object()) {
            visit(schema, path.member(key));
        }
    }
}
