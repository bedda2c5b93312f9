//! Compares the results of expressions with recorded results of cel-go.

use pintle_cel::{Activation, Environment, Program, Type, Value};

const ANSWERS: &str = include_str!("answers.txt");
/// kube-apiserver's cost limit for one expression.
const BUDGET: u64 = 1_000_000;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the result and cost of an evaluation in the format of `answers.txt`.
fn evaluate(program: &Program, data: &serde_json::Value) -> (String, String) {
    match program.evaluate(&Activation::new().bind("self", data), BUDGET) {
        Ok(result) => (format!("value {}", json_text(&result.value.to_string())), result.cost.to_string()),
        Err(error) => (format!("error {}", json_text(error.message())), error.cost().to_string()),
    }
}

fn json_text(text: &str) -> String {
    Value::string(text).to_json().unwrap().to_string()
}

fn answer(environment: &Environment, expression: &str, data: &serde_json::Value) -> [String; 3] {
    match environment.compile(expression) {
        Ok(program) => {
            let (result, cost) = evaluate(&program, data);
            let estimate = program.estimate();
            [result, cost, format!("{} {}", estimate.min, estimate.max)]
        }
        Err(error) if error.is_in_constant() => {
            let message = format!("program instantiation failed: {error}");
            [format!("constant {}", json_text(&message)), "-".into(), "-".into()]
        }
        Err(error) => [format!("issues {}", json_text(&error.to_string())), "-".into(), "-".into()],
    }
}

#[test]
fn results_messages_and_costs_are_those_of_cel_go() {
    let environment = Environment::new().variable("self", Type::Dyn).variable("oldSelf", Type::Dyn);
    let mut wrong = Vec::new();
    for line in ANSWERS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [expression, data, result, cost, estimate] = *fields else { panic!("{line}") };
        let expression = json(expression).as_str().unwrap().to_string();
        let [found, found_cost, found_estimate] = answer(&environment, &expression, &json(data));
        if [&*found, &*found_cost, &*found_estimate] != [result, cost, estimate] {
            wrong.push(format!(
                "{expression}\n  expected {result} {cost} {estimate}\n  found    {found} {found_cost} {found_estimate}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}
