//! Compares the values of random expressions with the results of the crate `cel`.

use pintle_cel::{Activation, Environment};
use proptest::prelude::*;

/// A strategy that generates parenthesized expressions of one type.
type Text = BoxedStrategy<String>;

fn ints() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (-20_i64..20).prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec![i64::MAX, i64::MIN + 1, 1 << 62, 3_037_000_500]).prop_map(|number| number.to_string()),
    ]
}

fn strings() -> impl Strategy<Value = String> {
    "[abc]{0,4}".prop_map(|text| format!("'{text}'"))
}

/// Generates random expressions of the types int, bool, string and list of int. `depth` is the nesting depth.
///
/// The generated expressions do not contain empty list literals. As in cel-go, the first operator that uses an item
/// of an empty list literal determines the item type.
fn expressions(depth: u32) -> [Text; 4] {
    if depth == 0 {
        let lists = prop::collection::vec(ints(), 1..5).prop_map(|items| format!("[{}]", items.join(", ")));
        return [
            ints().boxed(),
            prop::bool::ANY.prop_map(|value| value.to_string()).boxed(),
            strings().boxed(),
            lists.boxed(),
        ];
    }
    let [int, bool, string, list] = expressions(depth - 1);
    let operator = |names: &'static [&'static str], side: &Text| {
        (prop::sample::select(names), side.clone(), side.clone())
            .prop_map(|(name, left, right)| format!("({left} {name} {right})"))
    };
    let conditional = |side: &Text| {
        (bool.clone(), side.clone(), side.clone()).prop_map(|(test, yes, no)| format!("({test} ? {yes} : {no})"))
    };
    let call = |names: &'static [&'static str], receiver: &Text, arg: &Text| {
        (prop::sample::select(names), receiver.clone(), arg.clone())
            .prop_map(|(name, receiver, arg)| format!("{receiver}.{name}({arg})"))
    };
    let size = |of: &Text| of.clone().prop_map(|of| format!("size({of})"));
    let fold = |names: &'static [&'static str], body: &'static str| {
        (prop::sample::select(names), list.clone(), int.clone())
            .prop_map(move |(name, list, int)| format!("{list}.{name}(x, {})", body.replace('@', &int)))
    };
    let ints = prop_oneof![
        operator(&["+", "-", "*", "/", "%"], &int),
        conditional(&int),
        size(&string),
        size(&list),
        int.clone().prop_map(|int| format!("-({int})")),
        (list.clone(), int.clone()).prop_map(|(list, index)| format!("{list}[{index}]")),
    ];
    let bools = prop_oneof![
        operator(&["&&", "||", "==", "!="], &bool),
        operator(&["<", "<=", ">", ">=", "==", "!="], &int),
        operator(&["<", "<=", ">", ">=", "==", "!="], &string),
        operator(&["==", "!="], &list),
        // Append an item, because in an empty list `x in []` is false, as in cel-go, even if the evaluation of `x`
        // fails.
        (int.clone(), list.clone()).prop_map(|(int, list)| format!("({int} in ({list} + [0]))")),
        call(&["startsWith", "endsWith", "contains"], &string, &string),
        fold(&["all", "exists", "exists_one"], "x % 3 < @"),
        bool.clone().prop_map(|bool| format!("!({bool})")),
        conditional(&bool),
    ];
    let strings = prop_oneof![
        operator(&["+"], &string),
        conditional(&string),
        int.clone().prop_map(|int| format!("string({int})"))
    ];
    let lists = prop_oneof![
        operator(&["+"], &list),
        conditional(&list),
        fold(&["map"], "x + @"),
        fold(&["filter"], "x < @"),
        prop::collection::vec(int.clone(), 1..4).prop_map(|items| format!("[{}]", items.join(", "))),
    ];
    [ints.boxed(), bools.boxed(), strings.boxed(), lists.boxed()]
}

fn any_expression() -> Text {
    let [ints, bools, strings, lists] = expressions(3);
    prop_oneof![ints, bools, strings, lists].boxed()
}

/// Evaluates an expression, and returns the result in a form that both crates share. Returns `None` for an error.
fn ours(text: &str) -> Option<String> {
    let program = match Environment::new().compile(text) {
        Err(error) if error.is_in_constant() => return None,
        program => program.unwrap_or_else(|error| panic!("{text}\n{error}")),
    };
    program.evaluate(&Activation::new(), 10_000_000).ok().map(|evaluation| evaluation.value.to_string())
}

fn theirs(text: &str) -> Option<String> {
    let program = cel::Program::compile(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    program.execute(&cel::Context::default()).ok().map(|value| shown(&value))
}

fn shown(value: &cel::Value) -> String {
    match value {
        cel::Value::Int(number) => number.to_string(),
        cel::Value::Bool(value) => value.to_string(),
        cel::Value::String(text) => format!("{text:?}"),
        cel::Value::List(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        other => panic!("unexpected {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_expressions_have_the_value_of_the_peer(text in any_expression()) {
        prop_assert_eq!(ours(&text), theirs(&text), "{}", text);
    }
}
