//! Generates numbers.

use fastrand::Rng;
use serde_json::{Number, Value};

/// The maximum absolute value of a generated number if the schema has no bounds.
const SMALL: f64 = 10.0;
/// The maximum absolute value of a generated integer. A double represents all integers up to this maximum exactly, so
/// all Kubernetes clients support them.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// Returns a number that is valid for `schema`. The number is often small, and sometimes equal to a bound in the
/// schema.
pub(super) fn number(schema: &Value, random: &mut Rng) -> Value {
    let is_integer = schema["type"] == "integer";
    let bound = |name: &str| schema[name].as_f64();
    let (format_least, format_most) = match schema["format"].as_str() {
        Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (-SAFE, SAFE),
    };
    let step = bound("multipleOf").filter(|step| *step > 0.0).or(is_integer.then_some(1.0));
    let margin = step.unwrap_or(1e-6);
    let inside = |name: &str| if schema[name] == true { margin } else { 0.0 };
    let least = bound("minimum").map_or(format_least, |least| least + inside("exclusiveMinimum"));
    let most = bound("maximum").map_or(format_most, |most| most - inside("exclusiveMaximum"));
    let number = match random.u8(..8) {
        0 if least > -SAFE => least,
        1 if most < SAFE => most,
        _ => {
            let from = least.max(0.0_f64.min(most - SMALL));
            from + random.f64() * (most.min(from + SMALL) - from)
        }
    };
    let number = step.map_or(number, |step| {
        let down = (number / step).floor() * step;
        if down < least { down + step } else { down }
    });
    if is_integer { (number as i64).into() } else { Number::from_f64(number).map_or(Value::Null, Value::Number) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_respect_bounds_and_steps() {
        for (schema, is_valid) in [
            (
                json!({"type": "integer", "minimum": -3, "maximum": 4}),
                (|n| (-3.0..=4.0).contains(&n)) as fn(f64) -> bool,
            ),
            (json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 1}), |n| n == 1.0),
            (json!({"type": "integer", "minimum": 7, "multipleOf": 5}), |n| n >= 10.0 && n % 5.0 == 0.0),
            (json!({"type": "integer", "format": "int32"}), |n| n.abs() <= 2_147_483_648.0),
            (json!({"type": "number", "maximum": -1.5}), |n| n <= -1.5),
        ] {
            for seed in 0..200 {
                let value = number(&schema, &mut Rng::with_seed(seed));
                assert!(is_valid(value.as_f64().unwrap()), "{schema} {value}");
            }
        }
    }
}
