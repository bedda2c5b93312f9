//! Compiles the CEL selectors of device requests and device classes.

use std::sync::{Arc, LazyLock};

use pintle_apimachinery::validate::FieldError;
use pintle_cel::{CompileBudget, Environment, Schema, Type};
use pintle_json::{Json, json};

const DEVICE: &str = "kubernetes.DRADevice";
const MAX_LENGTH: usize = 10 * 1024;
const MAX_DOMAIN: usize = 63;
const MAX_IDENTIFIER: usize = 32;
/// The maximum estimated cost of a selector.
const MAX_COST: u64 = 1_000_000;
/// The maximum number of steps for compiling all selectors of an object, which is four times the maximum for one
/// expression.
const MAX_STEPS: u32 = 16_000_000;

/// The environment with the variable `device`. Attributes and capacities are maps of maps, keyed by domain and name.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let named = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
    let fields = [
        ("driver", Type::String),
        ("attributes", named(Type::Dyn)),
        ("capacity", named(Type::object("kubernetes.Quantity"))),
        ("allowMultipleAllocations", Type::Bool),
    ];
    // An `enum` limits the bytes of a text. A `maxLength` would limit its characters, which count as four bytes each.
    let text = |length| json!({"type": "string", "enum": ["x".repeat(length)]});
    let map = |keys: usize, values: Json| {
        let keys = text(keys);
        json!({"type": "object", "maxProperties": 32, "propertyNames": keys, "additionalProperties": values})
    };
    let [attributes, capacity] =
        [text(64), json!({"type": "integer"})].map(|values| map(MAX_DOMAIN, map(MAX_IDENTIFIER, values)));
    let properties = json!({"driver": text(MAX_DOMAIN), "attributes": attributes, "capacity": capacity});
    let sizes = json!({"type": "object", "properties": properties});
    Environment::new()
        .object(DEVICE, fields)
        .variable("device", Type::object(DEVICE))
        .with_sizes(&Arc::new(Schema::new(&sizes)))
        .with_bindings()
});

/// Creates the budget for compiling all selectors of an object. An object can have 8,192 selectors.
pub(super) fn object_budget() -> CompileBudget {
    CompileBudget::new(MAX_STEPS)
}

/// Returns the error of an invalid selector. The selector must be a boolean expression, and its estimated cost is
/// limited. All selectors of an object share the budget for compiling them.
pub(super) fn expression_error(field: &str, expression: &str, budget: &CompileBudget) -> Option<FieldError> {
    if expression.len() > MAX_LENGTH {
        return Some(FieldError::too_long(field, MAX_LENGTH));
    }
    let program = match ENVIRONMENT.compile_within(expression, budget) {
        Ok(program) => program,
        Err(error) => return Some(FieldError::invalid_text(field, expression, format!("compilation failed: {error}"))),
    };
    match program.result_type() {
        // Attributes have any type, so only an evaluation can find a wrong type.
        Type::Bool | Type::Dyn => {}
        other => {
            let why = format!("must evaluate to bool or the unknown type, not {other}");
            return Some(FieldError::invalid_text(field, expression, why));
        }
    }
    let is_complex = program.estimate().max > MAX_COST;
    is_complex.then(|| FieldError::forbidden(field, "too complex, exceeds cost limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(expression: &str) -> String {
        expression_error("e", expression, &object_budget()).map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn boolean_selectors_of_devices_are_accepted() {
        for expression in [
            "device.driver == 'x'",
            "device.attributes['d'].model",
            "device.attributes['d']['n'] > 3",
            "device.attributes['d'].v.isGreaterThan(semver('1.2.3'))",
            "device.capacity['d'].mem.compareTo(quantity('1Gi')) >= 0",
            "device.allowMultipleAllocations",
            "cel.bind(a, device.attributes['d'], a.x == 1)",
            "device.attributes.all(k, device.attributes.all(l, device.attributes.all(m, k==l && m==k)))",
        ] {
            assert_eq!(error(expression), "", "{expression}");
        }
    }

    #[test]
    fn selector_errors_match_those_of_kube_apiserver() {
        let nested = "device.attributes.all(k, device.attributes[k].all(j, device.attributes.all(m, \
                      device.attributes[m].all(n, j==n))))";
        for (expression, expected) in [
            (
                "device.driver",
                "Invalid value: \"device.driver\": must evaluate to bool or the unknown type, not string",
            ),
            (
                "device",
                "Invalid value: \"device\": must evaluate to bool or the unknown type, not kubernetes.DRADevice",
            ),
            (
                "has(device.x)",
                "Invalid value: \"has(device.x)\": compilation failed: ERROR: <input>:1:4: undefined field 'x'\n | \
                 has(device.x)\n | ...^",
            ),
            (
                "self",
                "Invalid value: \"self\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'self' (in \
                 container '')\n | self\n | ^",
            ),
            (nested, "Forbidden: too complex, exceeds cost limit"),
        ] {
            assert_eq!(error(expression), format!("e: {expected}"), "{expression}");
        }
        assert!(error(&"x".repeat(MAX_LENGTH + 1)).starts_with("e: Too long"));
    }

    #[test]
    fn size_limits_of_devices_match_kube_apiserver() {
        let pairs = |map: &str, condition: &str, count| {
            let conditions = vec![condition; count].join(" && ");
            format!("device.{map}.all(k, device.{map}.all(l, {conditions}))")
        };
        let triples = |map: &str, condition: &str, count| {
            let conditions = vec![condition; count].join(" && ");
            format!("device.{map}.all(k, device.{map}.all(l, device.{map}.all(m, {conditions})))")
        };
        let [attributes, capacities] =
            ["attributes", "capacity"].map(|map| format!("device.{map}[k].x == device.{map}[l].x"));
        let comparison = "device.capacity[k].x.compareTo(device.capacity[l].x) == 0";
        type Build<'a> = &'a dyn Fn(&str, &str, usize) -> String;
        for (build, map, condition, most) in [
            (&triples as Build<'_>, "attributes", "k==l", 3),
            (&triples, "attributes['d']", "k==l", 4),
            (&triples, "capacity", "k==l", 3),
            (&triples, "capacity['d']", "k==l", 4),
            (&triples, "attributes", "k.startsWith(l)", 3),
            (&triples, "attributes", "k==device.driver", 2),
            (&triples, "attributes", "device.allowMultipleAllocations == true", 9),
            (&pairs, "attributes", "k.matches(l)", 8),
            (&pairs, "attributes", attributes.as_str(), 57),
            (&pairs, "capacity", capacities.as_str(), 88),
            (&pairs, "capacity", comparison, 81),
        ] {
            assert_eq!(error(&build(map, condition, most)), "", "{map} {condition}");
            let expected = "e: Forbidden: too complex, exceeds cost limit";
            assert_eq!(error(&build(map, condition, most + 1)), expected, "{map} {condition}");
        }
    }
}
