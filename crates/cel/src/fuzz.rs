//! Functions for the fuzz targets in `crates/fuzz/` and for the tests below. Each function panics if an invariant of
//! this crate is violated for its input.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "failed checks panic")]

mod grammar;

use std::sync::Arc;

use crate::activation::Activation;
use crate::environment::Environment;
use crate::program::Program;
use crate::re2::Pattern;
use crate::schema::Schema;
use crate::types::Type;

/// The cost budget of an evaluation, which is a tenth of kube-apiserver's limit for one expression. An evaluation with
/// this budget takes at most a few tens of milliseconds.
const BUDGET: u64 = 100_000;
/// The maximum length of a result as text, in bytes. A fuzz target panics if a result is longer. The limit on results
/// also detects types that become too large, because error messages contain the names of types.
const LONGEST: usize = 64 << 20;

/// Compiles an expression with a dynamically typed variable. Checks that the position of each compile error is within
/// the expression.
pub fn cel_expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let environment = Environment::new().variable("self", Type::Dyn).variable("a.b", Type::list(Type::String));
    compile(&environment.with_patches(), text);
}

fn compile(environment: &Environment, text: &str) -> Option<Program> {
    let length = text.chars().count() as u32;
    match environment.compile(text) {
        Ok(program) => {
            let estimate = program.estimate();
            assert!(estimate.min <= estimate.max, "{text:?}: {estimate:?}");
            Some(program)
        }
        Err(error) => {
            assert!(error.to_string().len() < LONGEST);
            assert!(!error.issues().is_empty());
            for issue in error.issues() {
                assert!(issue.offset().is_none_or(|at| at <= length), "{text:?}: {issue:?}");
            }
            None
        }
    }
}

/// Reads a schema from the first line and JSON data from the second line. Compiles and evaluates each further line as a
/// validation rule.
pub fn cel_rule(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let (Some(schema), Some(data), Some(rule)) = (lines.next(), lines.next(), lines.next()) else { return };
    let (Ok(schema), Ok(data)) = (serde_json::from_slice(schema), serde_json::from_slice(data)) else { return };
    let (schema, data): (serde_json::Value, serde_json::Value) = (schema, data);
    let Ok(rule) = std::str::from_utf8(rule) else { return };
    let schema = Arc::new(Schema::resource(&schema));
    assert!(schema.max_cardinality() > 0);
    let Some(program) = compile(&Environment::new().data("self", &schema), rule) else { return };
    evaluate(&program, &Activation::new().bind_result("self", schema.value(&data)));
}

/// Generates an expression from the bytes and evaluates it on data with extreme values, such as the smallest integer.
pub fn cel_evaluation(bytes: &[u8]) {
    let text = grammar::expression(bytes);
    let environment = Environment::new().variable("self", Type::Dyn);
    let data = serde_json::json!({"a": [1, 2.5, "x", null, true, {"b": []}], "s": "\u{e9}1:%d/\u{0}", "n": i64::MIN});
    let Some(program) = compile(&environment, &text) else { return };
    evaluate(&program, &Activation::new().bind("self", &data));
}

/// Searches the text after the first line for the pattern in the first line, with and without an automaton. Panics if
/// the two results differ. Checks nothing if the pattern or the search exceeds its limit.
pub fn cel_pattern(bytes: &[u8]) {
    const MAX_INSTRUCTIONS: u64 = 10_000;
    const MAX_STEPS: usize = 1_000_000;
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (pattern, text) = text.split_once('\n').unwrap_or((text, ""));
    let parsed = [1 << 16, 0].map(|max_bytes| Pattern::parse(pattern, max_bytes));
    let [Ok(automaton), Ok(machine)] = parsed else {
        assert!(parsed.iter().all(Result::is_err), "{pattern:?} is valid only with one of both");
        return;
    };
    if automaton.instructions() > MAX_INSTRUCTIONS {
        return;
    }
    let searches = [automaton, machine].map(|pattern| pattern.search(text, MAX_STEPS).expect("a valid pattern"));
    if let [Some(first), Some(second)] = searches {
        assert_eq!(first.is_match, second.is_match, "{pattern:?} in {text:?}");
        assert!(second.steps <= MAX_STEPS);
    }
}

/// Evaluates an expression twice and checks that the results are equal. Also checks that the evaluation fails if the
/// budget is lower than its cost.
fn evaluate(program: &Program, activation: &Activation<'_>) {
    let first = program.evaluate(activation, BUDGET);
    let second = program.evaluate(activation, BUDGET);
    let cost = match (&first, &second) {
        (Ok(first), Ok(second)) => {
            assert_eq!(first.value.to_string(), second.value.to_string());
            assert_eq!(first.cost, second.cost);
            assert!(first.value.to_string().len() < LONGEST);
            let _ = first.value.to_json();
            first.cost
        }
        (Err(first), Err(second)) => {
            assert_eq!(first, second);
            assert!(first.message().len() < LONGEST);
            if first.is_out_of_budget() {
                return;
            }
            first.cost()
        }
        _ => panic!("one evaluation fails and another one does not: {first:?} {second:?}"),
    };
    assert!(cost <= BUDGET);
    if let Some(less) = cost.checked_sub(1) {
        assert!(program.evaluate(activation, less).is_err_and(|error| error.is_out_of_budget()));
    }
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn any_expression_compiles_or_has_findings() {
        replay("cel_expression", cel_expression);
    }

    #[test]
    fn any_rule_is_evaluated_within_its_budget() {
        replay("cel_rule", cel_rule);
    }

    #[test]
    fn any_function_takes_extreme_values() {
        replay("cel_evaluation", cel_evaluation);
    }

    #[test]
    fn any_pattern_matches_with_both_matchers_alike() {
        replay("cel_pattern", cel_pattern);
    }
}
