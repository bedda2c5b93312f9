//! The allowed values of the schema keyword `enum`.

use std::collections::HashSet;

use pintle_json::Json;

/// The values that an `enum` allows. The values are in a hash table, because an `enum` can have tens of thousands of
/// values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    /// The allowed values in the order of the schema.
    pub(super) all: Vec<Json>,
    exact: HashSet<Json>,
}

impl Allowed {
    pub(super) fn new(values: &[Json]) -> Self {
        Self { all: values.to_vec(), exact: values.iter().cloned().collect() }
    }

    /// Returns `true` if `value` is allowed. As in Go, this method first converts `value` to the type of the allowed
    /// value. For example, an `enum` with 2 allows 2.5, and an `enum` with "a" allows 97. Values inside lists and
    /// objects are compared without a conversion.
    pub(super) fn has(&self, value: &Json) -> bool {
        self.exact.contains(value)
            || as_integer(value).is_some_and(|whole| self.exact.contains(&whole.into()))
            || as_character(value).is_some_and(|text| self.exact.contains(&text.into()))
    }
}

fn as_integer(value: &Json) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    let float = value.as_f64().filter(|float| value.is_f64() && float.abs() < BOUND)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is within the bounds, and the fraction is dropped on purpose"
    )]
    let whole = float as i64;
    Some(whole)
}

fn as_character(value: &Json) -> Option<String> {
    let point = value.as_i64()?;
    let known = u32::try_from(point).ok().and_then(char::from_u32);
    Some(known.unwrap_or(char::REPLACEMENT_CHARACTER).into())
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn values_are_converted_to_the_allowed_type() {
        let allowed = Allowed::new(&[json!(2), json!(3.5), json!("a"), json!({"a": 2})]);
        for (value, expected) in [
            (json!(2), true),
            (json!(2.0), true),
            (json!(2.5), true),
            (json!(-2.5), false),
            (json!(3), false),
            (json!(3.5), true),
            (json!(3.6), false),
            (json!("a"), true),
            (json!(97), true),
            (json!(98), false),
            (json!("2"), false),
            (json!({"a": 2}), true),
            (json!({"a": 2.0}), false),
            (json!(1e300), false),
            (json!(null), false),
        ] {
            assert_eq!(allowed.has(&value), expected, "{value}");
        }
    }
}
