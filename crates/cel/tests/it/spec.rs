//! The conformance tests of cel-spec.
//!
//! `own.textproto` contains additional tests in the same format. To also run cel-spec's own tests, clone
//! <https://github.com/google/cel-spec> and set `PINTLE_CEL_SPEC` to its folder `tests/simple/testdata`. The page
//! docs/CEL.md contains the results.

mod literal;
mod reader;

use std::collections::BTreeMap;
use std::path::Path;

use pintle_cel::{Activation, Environment, Program, Value};

use reader::Message;

/// The minimum number of tests that must pass in each file.
const RATES: &str = include_str!("spec/rates.txt");
const BUDGET: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Miss {
    /// The test needs protobuf messages or enums.
    Messages,
    /// The test expects an evaluation error, but the type checker already rejects the expression.
    Refused,
    /// The test evaluates an expression without a type check, but the type checker of this crate rejects the
    /// expression.
    Unchecked,
    /// The test uses lists or maps of mixed types, which Kubernetes rejects.
    Mixed,
    /// The test uses a function, a macro or syntax that Kubernetes 1.36 does not support.
    Absent,
    /// The test resolves names in a CEL container, or declares its own functions.
    Names,
    /// The test requires a cel-go version or cel-go options that Kubernetes 1.36 does not use.
    Version,
}

#[test]
fn own_tests_pass() {
    let (passed, misses) = run(include_str!("spec/own.textproto"), &mut |name, miss, found| {
        panic!("{name}: {miss:?} {found}");
    });
    assert!(passed > 20 && misses.is_empty());
}

#[allow(clippy::print_stdout, reason = "the table is the purpose")]
#[test]
fn cel_spec_passes_at_the_recorded_rates() {
    let Some(folder) = std::env::var_os("PINTLE_CEL_SPEC") else { return };
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "textproto"));
    files.sort();
    let mut worse = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (passed, misses) = run(&std::fs::read_to_string(&path).unwrap(), &mut |test, miss, found| {
            println!("{name}/{test}\t{miss:?}\t{found}");
        });
        let total = passed + misses.values().sum::<usize>();
        println!("| {name} | {passed} | {total} | {misses:?} |");
        if passed < expected(&path) {
            worse.push(name);
        }
    }
    assert!(worse.is_empty(), "fewer tests pass than before: {worse:?}");
}

fn expected(path: &Path) -> usize {
    let rates = RATES.lines().filter_map(|line| line.split_once(' '));
    let found = rates.into_iter().find(|(name, _)| path.file_stem().is_some_and(|stem| *stem == **name));
    found.map_or(0, |(_, count)| count.parse().unwrap())
}

/// Runs the tests of a file. Returns the number of passed tests, and the number of failed tests by reason.
fn run(text: &str, report: &mut dyn FnMut(&str, Miss, &str)) -> (usize, BTreeMap<Miss, usize>) {
    let file = reader::read(text).unwrap();
    let (mut passed, mut misses) = (0, BTreeMap::new());
    for section in file.messages("section") {
        for test in section.messages("test") {
            match check(test) {
                Ok(()) => passed += 1,
                Err(found) => {
                    let miss = classify(test, &found);
                    report(&test.text("name").unwrap_or_default(), miss, &found.replace('\n', " "));
                    *misses.entry(miss).or_default() += 1;
                }
            }
        }
    }
    (passed, misses)
}

fn classify(test: &Message, found: &str) -> Miss {
    let container = test.text("container").unwrap_or_default();
    let shown = format!("{} {container} {test:?}", test.text("expr").unwrap_or_default());
    let has = |parts: &[&str]| parts.iter().any(|part| shown.contains(part));
    if has(&[
        "TestAllTypes",
        "google.protobuf",
        "message_type",
        "object_value",
        "enum_value",
        "wrapper",
        "proto2",
        "proto3",
    ]) {
        Miss::Messages
    } else if expects_failure(test) && found.starts_with("ERROR") && !found.contains("undeclared") {
        Miss::Refused
    } else if test.flag("disable_check") {
        Miss::Unchecked
    } else if !container.is_empty() || has(&["\"function\""]) {
        Miss::Names
    } else if found.contains("expected type") {
        Miss::Mixed
    } else if found.contains("undeclared reference") || found.contains("unsupported syntax") {
        Miss::Absent
    } else {
        Miss::Version
    }
}

fn expects_failure(test: &Message) -> bool {
    test.message("eval_error").is_some() || test.message("any_eval_errors").is_some()
}

/// Runs a test. If the result is wrong, returns an error that describes the wrong result.
fn check(test: &Message) -> Result<(), String> {
    let mut environment = Environment::new();
    for declaration in test.messages("type_env") {
        let name = declaration.text("name").unwrap_or_default();
        let declared = declaration.message("ident").and_then(|ident| ident.message("type"));
        let declared = declared.and_then(literal::cel_type).ok_or("the type of a variable is not supported")?;
        environment = environment.variable(&name, declared);
    }
    let program = environment.compile(&test.text("expr").unwrap_or_default());
    let fails = expects_failure(test);
    let program = match program {
        Err(error) if fails && error.is_in_constant() => return Ok(()),
        program => program.map_err(|error| error.to_string())?,
    };
    let typed = test.message("typed_result");
    if let Some(expected) = typed.and_then(|typed| typed.message("deduced_type")) {
        let expected = literal::cel_type(expected).ok_or("the deduced type is not supported")?;
        if *program.result_type() != expected {
            return Err(format!("deduced {}", program.result_type()));
        }
    }
    if test.flag("check_only") {
        return Ok(());
    }
    evaluate(test, &program, typed.and_then(|typed| typed.message("result")).or(test.message("value")), fails)
}

fn evaluate(test: &Message, program: &Program, expected: Option<&Message>, fails: bool) -> Result<(), String> {
    let mut activation = Activation::new();
    for binding in test.messages("bindings") {
        let name = binding.text("key").unwrap_or_default();
        let value = binding.message("value").and_then(|value| value.message("value"));
        activation = activation.bind(&name, value_of(value.ok_or("a binding has no value")?)?);
    }
    let found = program.evaluate(&activation, BUDGET);
    if fails {
        return found.map_or(Ok(()), |found| Err(found.value.to_string()));
    }
    let found = found.map_err(|error| error.to_string())?.value;
    let expected = match expected {
        Some(expected) => value_of(expected)?,
        None => Value::Bool(true),
    };
    let same_type = found.type_of().to_string() == expected.type_of().to_string();
    let equal = found.equals(&expected).unwrap_or(false) || found.to_string() == expected.to_string();
    if same_type && equal { Ok(()) } else { Err(format!("{found}, expected {expected}")) }
}

fn value_of(message: &Message) -> Result<Value<'static>, String> {
    let expression = literal::expression(message).ok_or("the value is not supported")?;
    let program = Environment::new().compile(&expression).map_err(|error| error.to_string())?;
    let evaluation = program.evaluate(&Activation::new(), BUDGET).map_err(|error| error.to_string())?;
    Ok(evaluation.value)
}
