//! Validates numbers like Go's validation library.

use std::cmp::Ordering;

use pintle_apimachinery::validate::FieldErrorType;
use pintle_json::{Json, go_float};

use super::Validation;
use crate::field_path::FieldPath;
use crate::structural::Structural;

impl Validation {
    pub(super) fn validate_number(&mut self, schema: &Structural, value: &Json, path: FieldPath<'_>) {
        let Some(number) = value.as_f64() else { return };
        // A float cannot represent each 64-bit integer exactly.
        if schema.format == "int32" || !value.is_i64() {
            self.check_range("Checked", schema, number, path);
        }
        let limits = &schema.limits;
        if let Some(factor) = limits.multiple_of {
            let is_native = self.check_range("MultipleOf", schema, factor, path);
            self.validate_multiple(value.as_i64().filter(|_| is_native).ok_or(number), factor, path);
        }
        for (name, limit, is_exclusive, forbidden, words) in [
            ("Minimum boundary", limits.minimum, limits.exclusive_minimum, Ordering::Less, "greater than"),
            ("Maximum boundary", limits.maximum, limits.exclusive_maximum, Ordering::Greater, "less than"),
        ] {
            let Some(limit) = limit else { continue };
            let is_integer = self.check_range(name, schema, limit, path) && value.is_i64();
            // kube-apiserver truncates the limits of integers.
            let limit = if is_integer { limit.trunc() } else { limit };
            let order = number.partial_cmp(&limit);
            if order == Some(forbidden) || is_exclusive && order == Some(Ordering::Equal) {
                let value = if is_integer { value } else { &number.into() };
                let limit = if is_integer { limit.to_string() } else { go_float(limit) };
                let or_equal = if is_exclusive { "" } else { " or equal to" };
                let why = format_args!("{path} in body should be {words}{or_equal} {limit}");
                self.report(FieldErrorType::Invalid, path, value, why);
            }
        }
    }

    /// Returns `true` if the schema's type and format can represent `number`, and reports an error otherwise.
    fn check_range(&mut self, name: &str, schema: &Structural, number: f64, path: FieldPath<'_>) -> bool {
        const I64_BOUND: f64 = 9_223_372_036_854_775_808.0;
        let is_whole = number.fract() == 0.0;
        let (type_name, format) = (schema.type_name.as_str(), schema.format.as_str());
        let fits = match (type_name, format) {
            ("integer", "int32") => is_whole && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
            ("integer", _) => is_whole && number.abs() < I64_BOUND,
            ("number", "float") => number.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let format = match format {
                "int32" | "int64" | "float" | "double" => format!("with format {format}"),
                _ => "(default format)".into(),
            };
            self.report_without_path(format_args!("{name} value must be of type {type_name} {format} in {path}"));
        }
        fits
    }

    /// Validates `multipleOf`. `value` is an integer, or a float as an error. kube-apiserver truncates the factor of an
    /// integer, so for factors below 1, it rejects `1` and accepts `1.0`.
    fn validate_multiple(&mut self, value: Result<i64, f64>, factor: f64, path: FieldPath<'_>) {
        #[expect(clippy::cast_possible_truncation, reason = "kube-apiserver truncates it, too")]
        let whole = factor as i64;
        let (is_multiple, value, shown) = match value {
            Ok(_) if whole <= 0 => {
                let why = format_args!("factor MultipleOf declared for {path} must be positive: {whole}");
                return self.report(FieldErrorType::Invalid, path, &whole.into(), why);
            }
            Ok(value) => (value % whole == 0, value.into(), whole.to_string()),
            Err(value) => {
                let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
                (is_integer(quotient), value.into(), go_float(factor))
            }
        };
        if !is_multiple {
            let why = format_args!("{path} in body should be a multiple of {shown}");
            self.report(FieldErrorType::Invalid, path, &value, why);
        }
    }
}

/// Returns `true` if Go's validation library treats the number as an integer: its absolute value is less than 2^53, and
/// its relative distance to the next lower integer is less than 1e-9.
pub(super) fn is_integer(number: f64) -> bool {
    const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
    let whole = number.trunc();
    number.abs() <= MAX_SAFE && (number == whole || whole >= 1.0 && (number - whole) / (number + whole) < 1e-9)
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::tests::messages;

    /// The expected messages are from kube-apiserver 1.36.1.
    #[test]
    fn multiples_are_validated_as_in_go() {
        for (factor, value, factor_in_error) in [
            (json!(0.5), json!(1.5), None),
            (json!(0.5), json!(0.0), None),
            (json!(0.5), json!(1.25), Some("0.5")),
            (json!(0.1), json!(0.3), None),
            (json!(2), json!(4), None),
            (json!(2), json!(3), Some("2")),
            (json!(2), json!(4.0), None),
            (json!(2), json!(1e20), Some("2")),
            (json!(2_000_000), json!(3_000_000.0), Some("2e+06")),
            (json!(2_000_000), json!(3_000_000), Some("2000000")),
            (json!(2), json!(9_007_199_254_740_993_i64), Some("2")),
            (json!(2.5), json!(7.5), None),
            (json!(2.5), json!(4), None),
            (json!(2.5), json!(5), Some("2")),
        ] {
            let found = messages(&json!({"type": "number", "multipleOf": factor}), &value);
            let expected = factor_in_error.map(|factor| format!("a in body should be a multiple of {factor}"));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{factor} {value}: {found:?}");
            assert!(found.iter().zip(expected).all(|(found, expected)| found.ends_with(&expected)), "{found:?}");
        }
    }

    /// The expected messages are from kube-apiserver 1.36.1.
    #[test]
    fn floats_and_integers_have_different_errors() {
        let range =
            |name| format!("<nil>: Invalid value: \"\": {name} value must be of type integer (default format) in a");
        for (schema, value, expected) in [
            (json!({"type": "integer"}), json!(3.0), vec![]),
            (json!({"type": "integer", "format": "int32"}), json!(2_147_483_647.0), vec![]),
            (
                json!({"type": "integer"}),
                json!(9_007_199_254_740_992.0),
                vec!["a: Invalid value: \"number\": a in body must be of type integer: \"number\"".into()],
            ),
            (
                json!({"type": "number", "maximum": 1_000_000}),
                json!(12_345_678.9),
                vec!["a: Invalid value: 1.23456789e+07: a in body should be less than or equal to 1e+06".into()],
            ),
            (
                json!({"type": "integer", "maximum": 1_000_000}),
                json!(3_000_000),
                vec!["a: Invalid value: 3000000: a in body should be less than or equal to 1000000".into()],
            ),
            (
                json!({"type": "number", "multipleOf": 0.5}),
                json!(3),
                vec!["a: Invalid value: 0: factor MultipleOf declared for a must be positive: 0".into()],
            ),
            (json!({"type": "integer", "multipleOf": 0.5}), json!(3), vec![range("MultipleOf")]),
            (json!({"type": "integer", "maximum": 1e300}), json!(3), vec![range("Maximum boundary")]),
            (json!({"type": "integer", "minimum": 0.5}), json!(1), vec![range("Minimum boundary")]),
            (json!({"type": "integer", "minimum": -9.3e18}), json!(1), vec![range("Minimum boundary")]),
            (json!({"type": "integer", "minimum": -9.2e18, "maximum": 9.2e18}), json!(1), vec![]),
            (json!({"enum": [1]}), json!(1e7), vec!["a: Unsupported value: 1e+07: supported values: \"1\"".into()]),
        ] {
            assert_eq!(messages(&schema, &value), expected, "{schema} {value}");
        }
    }

    #[test]
    fn limits_of_integers_are_truncated() {
        // The expected messages are from kube-apiserver 1.36.1.
        for (keyword, limit, value, expected) in [
            ("maximum", 1.5, json!(2), Some("a in body should be less than or equal to 1")),
            ("maximum", 1.5, json!(1), None),
            ("minimum", 0.5, json!(0), None),
            ("minimum", 0.5, json!(0.25), Some("a in body should be greater than or equal to 0.5")),
            ("multipleOf", 2.5, json!(4), None),
        ] {
            let found = messages(&json!({"type": "number", keyword: limit}), &value);
            let found: Vec<_> =
                found.iter().map(|found| found.rsplit_once("value: ").map_or("", |(_, why)| why)).collect();
            let found: Vec<_> = found.iter().filter_map(|why| why.split_once(": ")).map(|(_, why)| why).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{keyword} {value}");
        }
    }
}
