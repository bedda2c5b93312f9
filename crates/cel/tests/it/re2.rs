//! Tests of patterns. The expected results are from Go's package `regexp`.

use pintle_cel::{Activation, Environment, Type};

const ANSWERS: &str = include_str!("re2.txt");

#[test]
fn patterns_are_read_as_in_go() {
    let environment = Environment::new().variable("text", Type::String).variable("pattern", Type::String);
    let program = environment.compile("text.matches(pattern)").unwrap();
    let matches = |text: &str, pattern: &str| {
        let activation = Activation::new().bind("text", text).bind("pattern", pattern);
        program.test(&activation, 1_000_000).map_err(|error| error.to_string())
    };
    let mut texts = Vec::<String>::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in ANSWERS.lines().filter(|line| !line.starts_with("# ")) {
        let mut fields = line.split('\t');
        match [(); 3].map(|()| fields.next().unwrap_or_default()) {
            ["text", text, _] => texts.push(serde_json::from_str(text).unwrap()),
            ["accepted", pattern, expected] => {
                count += 1;
                for (text, expected) in texts.iter().zip(expected.chars()) {
                    let found = matches(text, pattern);
                    if found != Ok(expected == '1') {
                        wrong.push(format!("{pattern} on {text:?}: {found:?}, expected {expected}"));
                    }
                }
            }
            ["refused", pattern, expected] => {
                count += 1;
                let found = matches("", pattern);
                if found != Err(expected.to_owned()) {
                    wrong.push(format!("{pattern}: {found:?}, expected {expected}"));
                }
            }
            other => panic!("unknown line: {other:?}"),
        }
    }
    assert!(count > 300 && wrong.is_empty(), "{} of {count} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn repeated_classes_of_unicode_characters_match() {
    let environment = Environment::new().variable("text", Type::String).variable("pattern", Type::String);
    let pattern = r"^[\p{L}\p{N}]{1,253}$";
    let constant = format!("text.matches(r'{pattern}')");
    for expression in [&*constant, "text.matches(pattern)"] {
        let program = environment.compile(expression).unwrap();
        let texts = ["", "Zo\u{eb}", "Zo\u{eb}!", &"\u{e9}".repeat(253), &"\u{e9}".repeat(254)];
        let found = texts.map(|text| {
            let activation = Activation::new().bind("text", text).bind("pattern", pattern);
            program.test(&activation, 1_000).map_err(|error| error.to_string())
        });
        assert_eq!(found, [Ok(false), Ok(true), Ok(false), Ok(true), Ok(false)], "{expression}");
    }
}
