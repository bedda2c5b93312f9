use serde_json::Value;

use super::structural::Structural;

/// Fills in what a custom resource left out and its schema has a default for, and drops nulls that may not be.
///
/// A default appears only where the object around it is there.
pub(crate) fn default(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, member| {
                let stays =
                    |schema: &Structural| schema.nullable || schema.preserve_unknown && schema.type_name.is_empty();
                !member.is_null() || schema.member(key).is_none_or(stays)
            });
            for (name, schema) in &schema.properties {
                if let (Some(default), false) = (&schema.default, members.contains_key(name)) {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (key, member) in members.iter_mut() {
                if let Some(schema) = schema.member(key) {
                    self::default(schema, member);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| self::default(schema, item));
            }
        }
        _ => {}
    }
}

/// Whether [`default`] would change nothing.
pub(crate) fn is_defaulted(schema: &Structural, value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            let filled =
                |(name, schema): (&String, &Structural)| schema.default.is_none() || members.contains_key(name);
            schema.properties.iter().all(filled)
                && members.iter().all(|(key, member)| match schema.member(key) {
                    Some(schema) if member.is_null() => schema.nullable,
                    Some(schema) => is_defaulted(schema, member),
                    None => true,
                })
        }
        Value::Array(items) => {
            schema.items.as_ref().is_none_or(|schema| items.iter().all(|item| is_defaulted(schema, item)))
        }
        _ => true,
    }
}

/// Writes numbers as a real server stores them: without a fraction that is zero.
pub(crate) fn normalise_numbers(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT) {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number in the range of exact ones")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise_numbers),
        Value::Object(members) => members.values_mut().for_each(normalise_numbers),
        _ => {}
    }
}
