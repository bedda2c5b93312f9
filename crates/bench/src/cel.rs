//! Workloads of the `cel` benchmark. `go/cel` runs the same workloads with cel-go.
//!
//! The rules resemble the validation rules of the Gateway API and of autoscalers. The object satisfies all rules, so no
//! evaluation stops early.

mod writes;

use std::process::ExitCode;

use cel::Context;
use pintle_cel::{Activation, CALL_LIMIT, Environment, Program, Type};
use serde_json::Value;

use crate::answer::{self, Setting};
use crate::meter::{Sample, Tally, measure};

const RULES: &str = include_str!("cel/rules.txt");
const OBJECT: &str = include_str!("cel/object.json");
/// The number of times that each rule is compiled and evaluated.
const COMPILED: usize = 500;
const EVALUATED: usize = 20_000;

/// Runs a workload once.
///
/// # Panics
///
/// Panics if a rule cannot be compiled or the object does not satisfy a rule.
type Work = fn(&Setting) -> Sample;

/// The workloads by name. The names of the workloads that use the crate `cel` begin with `peer-`.
const WORKS: &[(&str, Work)] = &[
    ("compile", |setting| compile(setting, ours)),
    ("peer-compile", |setting| compile(setting, theirs)),
    ("evaluate", |setting| evaluate(setting, |_| true)),
    ("peer-evaluate", |setting| evaluate_peer(setting, |_| true)),
    ("evaluate-fields", |setting| evaluate(setting, |rule| !is_loop(rule))),
    ("peer-evaluate-fields", |setting| evaluate_peer(setting, |rule| !is_loop(rule))),
    ("evaluate-loops", |setting| evaluate(setting, |rule| is_loop(rule) && !is_pattern(rule))),
    ("peer-evaluate-loops", |setting| evaluate_peer(setting, |rule| is_loop(rule) && !is_pattern(rule))),
    ("evaluate-patterns", |setting| evaluate(setting, is_pattern)),
    ("peer-evaluate-patterns", |setting| evaluate_peer(setting, is_pattern)),
    ("write", |setting| writes::writes(setting, true)),
    ("peer-write", |setting| writes::writes(setting, false)),
];

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    answer::main("cel WORK [--quick]", WORKS, |work, setting| Some(work(setting)))
}

fn is_loop(rule: &str) -> bool {
    ["all(", "exists(", "filter(", "map("].iter().any(|part| rule.contains(part))
}

fn is_pattern(rule: &str) -> bool {
    rule.contains("matches('")
}

fn ours(rule: &str) {
    environment().compile(rule).unwrap_or_else(|error| panic!("{error}"));
}

fn theirs(rule: &str) {
    cel::Program::compile(rule).unwrap_or_else(|error| panic!("{error}"));
}

fn environment() -> Environment {
    Environment::new().variable("self", Type::Dyn)
}

/// Compiles all rules. Each operation parses, type-checks and plans one rule.
fn compile(setting: &Setting, compile: impl Fn(&str)) -> Sample {
    RULES.lines().for_each(&compile);
    let rounds = setting.size(COMPILED);
    measure(|| {
        for _ in 0..rounds {
            RULES.lines().for_each(&compile);
        }
        Tally::operations(rounds * RULES.lines().count())
    })
}

fn object() -> Value {
    serde_json::from_str(OBJECT).unwrap_or_else(|error| panic!("{error}"))
}

/// Evaluates compiled rules over JSON. Each operation evaluates one rule with cost tracking.
fn evaluate(setting: &Setting, chosen: impl Fn(&str) -> bool) -> Sample {
    let environment = environment();
    let compiled = RULES.lines().filter(|rule| chosen(rule)).map(|rule| environment.compile(rule));
    let programs: Vec<Program> = compiled.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}"));
    let object = object();
    let activation = Activation::new().bind("self", &object);
    run(setting, &programs, |program| program.test(&activation, CALL_LIMIT) == Ok(true))
}

/// Evaluates the rules with the crate `cel`. The object is converted to this crate's values before the measurement.
fn evaluate_peer(setting: &Setting, chosen: impl Fn(&str) -> bool) -> Sample {
    let compiled = RULES.lines().filter(|rule| chosen(rule)).map(cel::Program::compile);
    let programs: Vec<cel::Program> = compiled.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}"));
    let mut context = Context::default();
    context.add_variable("self", object()).unwrap_or_else(|error| panic!("{error}"));
    run(setting, &programs, |program| program.execute(&context) == Ok(cel::Value::Bool(true)))
}

fn run<P>(setting: &Setting, programs: &[P], holds: impl Fn(&P) -> bool) -> Sample {
    programs.iter().enumerate().for_each(|(index, program)| assert!(holds(program), "rule {index} does not hold"));
    let rounds = setting.size(EVALUATED);
    measure(|| {
        let held: usize = (0..rounds).map(|_| programs.iter().filter(|program| holds(program)).count()).sum();
        assert_eq!(held, rounds * programs.len(), "a rule does not hold");
        Tally::operations(held)
    })
}
