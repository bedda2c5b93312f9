//! Estimates the cost of validating a custom resource. The server offloads validations with a high cost.

use pintle_json::Json;

use super::structural::{Additional, Structural};

/// The costs of a branch, of an `enum` value or required member, and of one byte of a default. A cost of 1 corresponds
/// to the time to process one byte of a request body.
const OF_BRANCH: usize = 2 << 10;
const OF_WORD: usize = 1 << 8;
const OF_DEFAULTED: usize = 1 << 6;

/// Returns the maximum cost of validating one value of a request body, excluding the cost of its bytes. Uses the most
/// expensive position in the schema, because every value of the body can be at this position.
pub(super) fn of_schema(schema: &Structural) -> usize {
    let branches = schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of).chain(schema.not.as_deref());
    let branches = branches.map(|branch| OF_BRANCH + of_schema(branch)).sum::<usize>();
    let allowed = schema.limits.values.iter().flat_map(|allowed| &allowed.all);
    let allowed = allowed.map(|value| OF_WORD + of_value(value)).sum::<usize>();
    let defaults = schema.defaulted().filter_map(|(_, schema)| schema.default.as_ref());
    let defaults = defaults.map(|default| OF_DEFAULTED * of_value(default)).sum::<usize>();
    let additional = match &schema.additional {
        Some(Additional::Schema(schema)) => Some(&**schema),
        _ => None,
    };
    let within = schema.properties.values().chain(additional).chain(schema.items.as_deref());
    let within = within.map(of_schema).max().unwrap_or(0);
    branches + allowed + schema.required.len() * OF_WORD + defaults + within
}

/// Returns the approximate size of a value in memory, in bytes.
pub(super) fn of_value(value: &Json) -> usize {
    let parts = match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(of_value).sum(),
        Json::Object(members) => members.iter().map(|(name, value)| name.len() + of_value(value)).sum(),
        _ => 0,
    };
    size_of::<Json>() + parts
}
