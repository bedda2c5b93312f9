//! Adds a schema's defaults to a custom resource, and normalizes nulls and numbers as kube-apiserver does.

use pintle_json::Json;

use super::structural::Structural;
use super::weight;

/// Drops nulls in fields that are not nullable and have no default. Call `drop_nulls` for each decoded object, except
/// for the body of a server-side apply.
pub(crate) fn drop_nulls(schema: &Structural, value: &mut Json) {
    match value {
        Json::Object(members) => {
            members.retain(|key, member| {
                let stays = |schema: &Structural| takes_null(schema) || schema.default.is_some();
                !member.is_null() || schema.member(key).is_none_or(stays)
            });
            for (key, member) in members.iter_mut() {
                if let Some(schema) = schema.member(key) {
                    drop_nulls(schema, member);
                }
            }
        }
        Json::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| drop_nulls(schema, item));
            }
        }
        _ => {}
    }
}

fn takes_null(schema: &Structural) -> bool {
    schema.nullable
}

/// The maximum total size of the defaults for one object, in bytes. An object with more defaults would be too large for
/// the store.
const MAX_DEFAULTED: usize = 8 << 20;

/// Adds the defaults of fields that are absent, or that are null although the schema does not allow null.
///
/// The fields of a missing object get no defaults. Stops when the total size of the added defaults exceeds a limit,
/// because a small body can use the same long default thousands of times.
pub(crate) fn default(schema: &Structural, value: &mut Json) {
    fill(schema, value, &mut { MAX_DEFAULTED });
}

fn fill(schema: &Structural, value: &mut Json, left: &mut usize) {
    if *left == 0 {
        return;
    }
    match value {
        Json::Object(members) => {
            for (name, schema) in schema.defaulted() {
                let Some(default) = &schema.default else { continue };
                let is_present = |member: &Json| !member.is_null() || takes_null(schema);
                if !members.get(name).is_some_and(is_present) {
                    *left = left.saturating_sub(name.len() + weight::of_value(default));
                    members.insert(name.clone(), default.clone());
                }
                if *left == 0 {
                    return;
                }
            }
            for (key, member) in members.iter_mut() {
                if let Some(schema) = schema.member(key) {
                    fill_present(schema, member, left);
                }
            }
        }
        Json::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| fill_present(schema, item, left));
            }
        }
        _ => {}
    }
}

fn fill_present(schema: &Structural, value: &mut Json, left: &mut usize) {
    if let Some(default) = replacement(schema, value).filter(|_| *left > 0) {
        *left = left.saturating_sub(weight::of_value(default));
        *value = default.clone();
    }
    fill(schema, value, left);
}

/// Returns the default that replaces a null, if the schema does not allow null.
fn replacement<'s>(schema: &'s Structural, value: &Json) -> Option<&'s Json> {
    schema.default.as_ref().filter(|_| value.is_null() && !takes_null(schema))
}

pub(crate) fn is_defaulted(schema: &Structural, value: &Json) -> bool {
    match value {
        Json::Object(members) => {
            let filled = |(name, _): (&String, &Structural)| members.contains_key(name);
            schema.defaulted().all(filled)
                && members.iter().all(|(key, member)| match schema.member(key) {
                    Some(schema) if member.is_null() => schema.nullable,
                    Some(schema) => is_defaulted(schema, member),
                    None => true,
                })
        }
        Json::Array(items) => {
            let is_filled =
                |schema: &Structural, item| replacement(schema, item).is_none() && is_defaulted(schema, item);
            schema.items.as_ref().is_none_or(|schema| items.iter().all(|item| is_filled(schema, item)))
        }
        _ => true,
    }
}

/// Converts each float without a fraction to an integer, as kube-apiserver stores it.
pub(crate) fn normalise_numbers(value: &mut Json) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Json::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT) {
                #[expect(clippy::cast_possible_truncation, reason = "an integer that a float represents exactly")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Json::Array(items) => items.iter_mut().for_each(normalise_numbers),
        Json::Object(members) => members.values_mut().for_each(normalise_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;
    use pintle_json::json;

    use super::super::pattern::Patterns;
    use super::*;

    #[test]
    fn defaulting_stops_when_the_size_limit_is_reached() {
        let fills = |count: usize| {
            let default = |at: usize| (format!("m{at}"), json!({"type": "integer", "default": 0}));
            let properties: pintle_json::Map = (0..count).map(default).collect();
            let items = json!({"type": "object", "properties": properties});
            let schema = Structural::read(&json!({"type": "array", "items": items}), &mut Patterns::default());
            let mut value = Json::from(vec![json!({}); count]);
            let mut left = 1_000;
            fill(&schema, &mut value, &mut left);
            assert!(left == 0 && value[0]["m0"] == 0 && value[count - 1] == json!({}));
        };
        assert!(is_linear(400, fills));
    }
}
