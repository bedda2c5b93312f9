//! Tests with expressions, data and schemas that an attacker could use to block or crash the evaluator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_cel::{Activation, Environment, Schema, Type};
use serde_json::{Value as Json, json};

const BUDGET: u64 = 200_000;

fn run(expression: &str, data: &Json) -> String {
    let start = Instant::now();
    let environment = Environment::new().variable("self", Type::Dyn);
    let result = match environment.compile(expression) {
        Ok(program) => {
            let _ = program.estimate();
            match program.evaluate(&Activation::new().bind("self", data), BUDGET) {
                Ok(result) => result.value.to_string(),
                Err(error) => error.to_string(),
            }
        }
        Err(error) => error.to_string(),
    };
    let shown: String = expression.chars().take(60).collect();
    assert!(start.elapsed() < Duration::from_secs(20), "{shown} took {:?}", start.elapsed());
    result
}

#[test]
fn deep_expressions_do_not_overflow_the_stack() {
    for (open, inner, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{'a': ", "1", "}"),
        ("!(", "true", ")"),
        ("-(", "1", ")"),
        ("dyn(", "1", ")"),
        ("true ? ", "1", " : 2"),
        ("[1].map(x, ", "1", ")"),
        ("[1].all(x, ", "true", ")"),
        ("[1].exists_one(x, ", "true", ")"),
        ("[1].transformMap(i, x, ", "1", ")"),
        ("optional.of(1).optMap(x, ", "1", ")"),
        ("[1].sortBy(x, ", "1", ")"),
        ("self.a[", "'a'", "]"),
        ("size([", "1", "])"),
        ("Object{a: ", "1", "}"),
    ] {
        for depth in [10, 50, 100, 200, 249, 250, 1_000, 7_000] {
            run(&format!("{}{inner}{}", open.repeat(depth), close.repeat(depth)), &json!({"a": {"a": "a"}}));
        }
    }
}

#[test]
fn long_chains_do_not_overflow_the_stack() {
    for part in [
        ".a",
        "['a']",
        ".?a",
        "[?'a']",
        " + self",
        " == self",
        " && self",
        " || self",
        " * self",
        " ? 1 : self",
        ".f()",
        ".map(x, x)",
        ".optMap(x, x)",
        ".filter(x, true)",
        ".or(self)",
        " in self",
        ".size()",
        ".trim()",
    ] {
        for length in [10, 25, 100, 248, 249, 250, 5_000] {
            run(&format!("self{}", part.repeat(length)), &json!({"a": 1}));
        }
    }
    for part in
        ["!", "-", "(", "[", "{", "a.", "a(", "a[", "'", "\"\"\"", "r'", "b\"", "?", "1e", "0x", "\\", "`", "\u{e9}"]
    {
        run(&part.repeat(50_000), &json!(null));
    }
}

#[test]
fn receivers_that_macros_repeat_do_not_explode() {
    for part in [".optMap(x, x)", ".optFlatMap(x, optional.of(x))"] {
        for count in [5, 10, 30, 80] {
            run(&format!("optional.of(1){}", part.repeat(count)), &json!(null));
        }
    }
}

#[test]
fn patterns_in_repeated_receivers_are_parsed_once() {
    let pattern = "(a|b)".repeat(1_900);
    for pattern in [pattern.clone(), pattern + "("] {
        let receiver = format!("optional.of('x'.matches('{pattern}'))");
        run(&format!("{receiver}{}.hasValue()", ".optMap(v, v)".repeat(14)), &json!(null));
    }
}

#[test]
fn types_that_double_do_not_explode() {
    let expression = format!("optional.of(1){}", ".optMap(x, {x: x})".repeat(24));
    run(&expression, &json!(null));
    for count in [15, 60] {
        let doubled = format!("optional.of(1){}", ".optMap(x, {x: x})".repeat(count));
        assert!(run(&format!("1 + {doubled}"), &json!(null)).len() < 1_000_000);
        let mismatches = format!("{doubled}.optMap(x, {})", vec!["x"; 5_000].join(" && "));
        assert!(run(&mismatches, &json!(null)).len() < 10_000_000);
        let entries: String = (0..2_000).map(|index| format!("{index}: 1, ")).collect();
        assert!(run(&format!("{doubled}.optMap(x, {{-1: x, {entries}}})"), &json!(null)).len() < 10_000_000);
    }
    run(&format!("[{}]", "[[],{}],".repeat(8_000)), &json!(null));
    run(&format!("[{}]", "{[]:[]},".repeat(8_000)), &json!(null));
}

#[test]
fn free_loops_end() {
    let many: Vec<_> = (0..20_000).collect();
    let query: String = (0..50_000).map(|index| format!("k{index}=v&")).collect();
    let data = json!({
        "l": many, "s": "x".repeat(200_000), "o": {"l": many}, "upper": "A".repeat(200_000),
        "q": format!("https://a.b/?{query}"), "ab": "ab".repeat(400_000),
    });
    for expression in [
        "self.l.filter(a, self.l.filter(b, self.l.filter(c, false).size() > 0).size() > 0)",
        "self.l.all(a, self.l.all(b, true))",
        "lists.range(100000).map(i, self.s.size()).size()",
        "lists.range(100000).map(i, self.o == self.o).size()",
        "lists.range(100000).all(i, self.l in [self.l])",
        "self.l.map(i, self.l).flatten().size()",
        "self.l.distinct().size()",
        "self.l.map(i, string(i)).join(self.s).size()",
        "self.s.replace('', self.s).size()",
        "self.s.replace('x', self.s).size()",
        "self.s.split('').map(c, self.s).join('').size()",
        "lists.range(9223372036854775807)",
        "'%.999999999f'.format([1.0])",
        "lists.range(1000).map(i, 'a'.matches('x{1,' + string(i) + '}')).size()",
        "'a'.matches('((a{0,100}){0,100}){0,100}')",
        "'a'.matches('(?i)\\\\pL{900}')",
        "self.l.sort().isSorted()",
        "lists.range(300000).all(i, self.s in ['a', 'b'])",
        "lists.range(300000).all(i, {'1':1,'2':1,'3':1,'4':1,'5':1,'6':1,'7':1,'8':1,'9':1}[?self.s] == optional.none())",
        "lists.range(300000).all(i, self.s in {'1':1,'2':1,'3':1,'4':1,'5':1,'6':1,'7':1,'8':1,'9':1})",
        "lists.range(30000).transformMap(i, x, self.s + string(x), x).size()",
        "self.upper.findAll('.*[^A-Z]|[A-Z]').size()",
        "url(self.q).getQuery().size()",
        "self.ab.matches('(a|b)*a(a|b){900}c')",
        "self.ab.findAll('(a|b)*a(a|b){400}c').size()",
        "self.l.map(i, self.l).flatten().size()",
        "lists.range(300000).all(i, [?self.l] == [] || true)",
        "lists.range(300000).all(i, {?'a': self.l} == {} || true)",
        "lists.range(300000).all(i, [self.l].join() == '' || true)",
        "lists.range(300000).all(i, self.o[self.s] == 1)",
        "lists.range(10000).map(i, self.s.split('')).size()",
    ] {
        run(expression, &data);
    }
    let zeros = "0, ".repeat(20_000);
    run(&format!("lists.range(40000).map(i, [{zeros} i]).size()"), &data);
    run(&format!("lists.range(300000).all(i, true{})", " && true".repeat(10_000)), &data);
    let entries: String = (0..3_000).map(|index| format!("{index}: i, ")).collect();
    run(&format!("lists.range(40000).map(i, {{{entries}}}).size()"), &data);
    let removed: String = (0..3_000).map(|index| format!("?{index}: optional.none(), ")).collect();
    run(&format!("lists.range(40000).map(i, {{{entries}{removed}}}).size()"), &data);
}

#[test]
fn many_patterns_are_refused() {
    let patterns: Vec<_> = (0..3_000).map(|index| format!("'a'.matches('\\\\pL{{9}}{index}')")).collect();
    assert!(run(&patterns.join(" || "), &json!(null)).contains("too many patterns"));
    let patterns: Vec<_> = (0..400).map(|index| format!("'a'.matches('a{index}')")).collect();
    assert_eq!(run(&patterns.join(" || "), &json!(null)), "false");
}

#[test]
fn extreme_values_do_not_panic() {
    for expression in [
        "quantity('1e2147483647').compareTo(quantity('1e-2147483648'))",
        "quantity('1e2147483647').add(quantity('1n')).asApproximateFloat()",
        "quantity('0e2147483647').isInteger()",
        "quantity('9e2147483647').sub(quantity('-9e2147483647')).sign()",
        "format.datetime().validate('2020-01-01t00:00:00+0\u{e9}\u{e9}00')",
        "format.datetime().validate('2020-01-01t00:00:00+\u{e9}:\u{e9}')",
        "format.dns1123LabelPrefix().validate('\u{e9}-')",
        "timestamp('0001-01-01T00:00:00Z') - duration('2562047h47m16.854775807s')",
        "timestamp('9999-12-31T23:59:59.999999999Z') + duration('1ns')",
        "timestamp('9999-12-31T23:59:59Z').getHours('+999999999:59')",
        "timestamp('0001-01-01T00:00:00+24:60')",
        "duration('-9223372036854775808ns') - duration('1ns')",
        "-(-9223372036854775808)",
        "-9223372036854775808 / -1",
        "-9223372036854775808 % -1",
        "int(-9223372036854775808.0)",
        "'abc'.substring(-1)",
        "'abc'.indexOf('c', 9223372036854775807)",
        "[1].slice(0, 9223372036854775807)",
        "[[1]].flatten(9223372036854775807)",
        "'%.9223372036854775807f'.format([1.0])",
        "'a'.replace('', 'b', 9223372036854775807)",
        "'a,b'.split(',', -9223372036854775808)",
        "semver('18446744073709551615.0.0').major()",
        "cidr('::/0').masked().containsIP('::1')",
        "lists.range(-9223372036854775808)",
        "[1, 2][9223372036854775807]",
        "[1, 2][1e300]",
        "1e308 * 10.0 == 1e308 * 10.0 / 1.0",
    ] {
        run(expression, &json!(null));
    }
    let numbers: Vec<_> =
        (0..200).map(|index| if index % 3 == 0 { "0.0/0.0".into() } else { format!("{index}.5") }).collect();
    run(&format!("[{}].sort()", numbers.join(", ")), &json!(null));
    run(&format!("[{}].sortBy(x, -x)", numbers.join(", ")), &json!(null));
    let range = Environment::new().compile("lists.range(9223372036854775807)").unwrap();
    assert!(range.evaluate(&Activation::new(), u64::MAX).is_err());
}

#[test]
fn lists_that_double_stay_small() {
    let doubled = |start: &str, count: usize| {
        format!("optional.of({start}){}.value()", ".optFlatMap(x, optional.of(x + x))".repeat(count))
    };
    run(&doubled("[0, 1]", 15), &json!(null));
    let nested = (0..60).fold("x.size()".to_string(), |inner, _| format!("optional.of(x + x).optMap(x, {inner})"));
    run(&format!("optional.of([0, 1]).optMap(x, {nested})"), &json!(null));
    let nested = (0..60).fold("x.size()".to_string(), |inner, _| format!("optional.of(x + x).optMap(x, {inner})"));
    assert!(run(&format!("optional.of('ab').optMap(x, {nested})"), &json!(null)).contains("cost limit exceeded"));
}

#[test]
fn deep_data_is_refused_or_compared() {
    // Leak the deeply nested value, because dropping it would overflow the stack.
    let deep = |depth: usize| -> &'static Json {
        Box::leak(Box::new((0..depth).fold(json!(1), |inner, _| Json::Array(vec![inner]))))
    };
    assert_eq!(run("self == self", deep(100)), "true");
    assert!(run("self == self", deep(5_000)).contains("cost limit exceeded"));
    assert!(run("'%s'.format([self])", deep(5_000)).contains("too deep"));
    assert!(run("self.flatten(10000)", deep(5_000)) == "[1]");
    assert!(run("self", deep(5_000)).len() < 1_000);
    run("self.map(x, x).size()", deep(5_000));
    run("[self].indexOf(self)", deep(5_000));
    run("self in [self]", deep(5_000));
}

#[test]
fn deep_and_odd_schemas_are_read() {
    let list =
        |inner: Json| Json::Object([("type".into(), "array".into()), ("items".into(), inner)].into_iter().collect());
    let deep: &'static Json = Box::leak(Box::new((0..5_000).fold(json!({"type": "string"}), |inner, _| list(inner))));
    assert!(Schema::new(deep).cel_type().is_none());
    let long = "n".repeat(500);
    let leaves: serde_json::Map<_, _> = (0..20_000).map(|leaf| (leaf.to_string(), json!({"type": "object"}))).collect();
    let leaves = json!({"type": "object", "properties": leaves});
    let wide = (0..100).fold(leaves, |inner, _| json!({"type": "object", "properties": {&long: inner}}));
    let environment = Environment::new().data("self", &Arc::new(Schema::new(&wide)));
    assert!(environment.compile(&format!("has(self.{long})")).is_ok());
    assert!(environment.compile(&format!("has(self.{long}.{long}.{long}.{long})")).is_err());
    let object = |inner| json!({"type": "object", "properties": {"a": inner}});
    let deep = (0..150).fold(json!({"type": "string"}), |inner, _| object(inner));
    let environment = Environment::new().data("self", &Arc::new(Schema::resource(&deep)));
    assert!(environment.compile("self.a.a.a.a == oldSelf").is_err());
    for odd in [
        json!(null),
        json!([]),
        json!({"type": 1}),
        json!({"type": "object", "properties": []}),
        json!({"type": "array"}),
    ] {
        let schema = Schema::resource(&odd);
        let _ = (schema.cel_type(), schema.max_cardinality(), schema.value(&odd));
    }
    for limit in [json!(-1), json!(u64::MAX), json!(1.5), json!("x")] {
        let schema =
            Schema::new(&json!({"type": "array", "maxItems": limit, "items": {"type": "string", "maxLength": limit}}));
        let program =
            Environment::new().data("self", &Arc::new(schema)).compile("self.all(x, x.matches('a+'))").unwrap();
        assert!(program.estimate().max > 0);
    }
}
