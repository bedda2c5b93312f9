//! Tests of selectors with the test cases of apimachinery (`labels`, `fields` and `metav1`), and with recorded
//! kube-apiserver responses.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn printed(text: &str) -> Result<String, String> {
    text.parse::<LabelSelector>().map(|read| read.to_string()).map_err(|error| error.to_string())
}

#[track_caller]
fn check_label(selector: &str, on: &[(&str, &str)], expected: bool) {
    let read: LabelSelector = selector.parse().unwrap();
    assert_eq!(read.matches(&labels(on)), expected, "{selector:?} on {on:?}");
}

#[test]
fn labels_match_by_comparison_set_and_existence() {
    for (selector, expected) in [
        ("", true),
        (" \t\n", true),
        ("a", true),
        ("!a", false),
        ("! c", true),
        ("a=1", true),
        ("a==1", true),
        ("a = 2", false),
        ("a=01", false),
        ("a!=1", false),
        ("c!=1", true),
        ("b=", true),
        ("b==,a", true),
        ("b!=", false),
        ("a in (1, 2)", true),
        ("a in (2)", false),
        ("a in(1)", true),
        ("a notin (2)", true),
        ("c notin (2)", true),
        ("b in ()", true),
        ("b in (,)", true),
        ("b in (x,)", true),
        ("b in (,x)", true),
        ("a in ()", false),
        ("c in ()", false),
        ("b notin (,)", false),
        ("c notin ()", true),
        ("a=1,n=5", true),
        ("a=1,a=2", false),
        ("a in (1,2),a notin (2)", true),
        ("n>4", true),
        ("n>04", true),
        ("n>5", false),
        ("n<6", true),
        ("n<5", false),
        ("w>1", false),
        ("w<9", false),
        ("c>1", false),
        ("n>0,n<10", true),
        ("in=in", false),
        ("notin notin (in)", true),
    ] {
        check_label(selector, &[("a", "1"), ("b", ""), ("n", "5"), ("w", "x2")], expected);
    }
    check_label("in=in", &[("in", "in")], true);
    check_label("in in (in)", &[("in", "in")], true);
    check_label("in notin (in),notin", &[("notin", "")], true);
    check_label("!in", &[("notin", "")], true);
    check_label("example.com/App", &[("example.com/app", "")], false);
    check_label("n>9223372036854775806", &[("n", "9223372036854775807")], true);
    check_label("n<9223372036854775807", &[("n", "9223372036854775808")], false);
}

#[test]
fn label_selector_prints_canonically() {
    for (text, expected) in [
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("z=c,x=a,y=b", "x=a,y=b,z=c"),
        ("x==a", "x=a"),
        ("x!=a,y=b", "x!=a,y=b"),
        ("x= ,z= ", "x=,z="),
        ("! x", "!x"),
        ("x>1,z<5", "x>1,z<5"),
        ("\rx", "x"),
        ("this-is-a-dns.domain.com/key-with-dash", "this-is-a-dns.domain.com/key-with-dash"),
        ("0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)", "0.1.2.domain/99 notin (10.10.100.1,tick.tack.clock)"),
        ("foo  in\t (abc)", "foo in (abc)"),
        ("x notin\n (def,abc)", "x notin (abc,def)"),
        ("x in (abc,)", "x in (,abc)"),
        ("x in (abc,abc)", "x in (abc)"),
        ("x in ()", "x in ()"),
        ("x in (,,)", "x in ()"),
        ("x in (a,,,,a,,)", "x in (,a)"),
        ("x notin (abc,,def),bar,z in (),w", "bar,w,x notin (,abc,def),z in ()"),
        ("x,y in (a)", "x,y in (a)"),
        ("x notin ( )", "x notin ()"),
        ("x notin (, a)", "x notin (,a)"),
        ("a in (x,y,notin, z,in)", "a in (in,notin,x,y,z)"),
        ("a!=2,a in (1),a,a=1,a,a>0", "a=1,a in (1),a!=2,a,a>0"),
    ] {
        assert_eq!(printed(text).as_deref(), Ok(expected), "{text:?}");
    }
}

#[test]
fn invalid_label_selector_error_names_the_token() {
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                         start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
                         for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let long = "k".repeat(64);
    let in_requirement = |why: &str| format!("unable to parse requirement: {why}");
    for (selector, expected) in [
        ("x,", "found '', expected: identifier after ','".into()),
        (",x", "found ',', expected: !, identifier, or 'end of string'".into()),
        ("x,,y", "found ',', expected: identifier after ','".into()),
        ("(x)", "found '(', expected: !, identifier, or 'end of string'".into()),
        ("!=x", "found '!=', expected: !, identifier, or 'end of string'".into()),
        ("x==1==2", "found '==', expected: ',' or 'end of string'".into()),
        ("!x=1", "found '=', expected: ',' or 'end of string'".into()),
        ("a in (xyz)b notin ()", "found 'b', expected: ',' or 'end of string'".into()),
        ("x in (1))", "found ')', expected: ',' or 'end of string'".into()),
        ("!", in_requirement("found '', expected: identifier")),
        ("!!x", in_requirement("found '!', expected: identifier")),
        ("x===1", in_requirement("found '=', expected: identifier")),
        ("x>=1", in_requirement("found '=', expected: identifier")),
        ("x=a||y=b", in_requirement(&format!("values[0][x]: Invalid value: \"a||y\": {VALUE}"))),
        ("x!in (1)", in_requirement("found '!', expected: in, notin, =, ==, !=, gt, lt")),
        ("x IN (1)", in_requirement("found 'IN', expected: in, notin, =, ==, !=, gt, lt")),
        ("x y", in_requirement("found 'y', expected: in, notin, =, ==, !=, gt, lt")),
        ("x nott in (y)", in_requirement("found 'nott', expected: in, notin, =, ==, !=, gt, lt")),
        ("a (", in_requirement("found '(', expected: in, notin, =, ==, !=, gt, lt")),
        ("a in", in_requirement("found '' expected: '('")),
        ("a in 1", in_requirement("found '1' expected: '('")),
        ("a notin(", in_requirement("found '', expected: ',', ')' or identifier")),
        ("x in (=", in_requirement("found '=', expected: ',', ')' or identifier")),
        ("x in (a b)", in_requirement("found 'b', expected: ',' or ')'")),
        ("x in (1", in_requirement("found '', expected: ',' or ')'")),
        ("x in (a,", in_requirement("found '', expected: ',', or identifier")),
        ("x in (,=)", in_requirement("found '=', expected: ',', or identifier")),
        ("/x", in_requirement("<nil>: Invalid value: \"/x\": prefix part must be non-empty")),
        (&long, in_requirement(&format!("<nil>: Invalid value: {long:?}: name part must be no more than 63 bytes"))),
        ("x='1'", in_requirement(&format!("values[0][x]: Invalid value: \"'1'\": {VALUE}"))),
        ("x=\"1\"", in_requirement(&format!("values[0][x]: Invalid value: \"\\\"1\\\"\": {VALUE}"))),
        (
            "x in (%,$)",
            in_requirement(&format!(
                "[values[0][x]: Invalid value: \"$\": {VALUE}, values[1][x]: Invalid value: \"%\": {VALUE}]"
            )),
        ),
        (
            "x>$",
            in_requirement(&format!(
                "[values[0]: Invalid value: \"$\": for 'Gt', 'Lt' operators, the value must be an integer, \
                 values[0][x]: Invalid value: \"$\": {VALUE}]"
            )),
        ),
        (
            "x<",
            in_requirement("values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ),
        (
            "e\u{301}\u{200b}\u{1}\u{7f}\u{b}\u{e000}\u{f0000}\u{e9}",
            in_requirement(&format!(
                "<nil>: Invalid value: \"e\u{301}\\u200b\\x01\\x7f\\v\\ue000\\U000f0000\u{e9}\": {NAME}"
            )),
        ),
    ] {
        assert_eq!(printed(selector), Err(expected), "{selector:?}");
    }
}

#[test]
fn label_selector_with_nul_is_rejected() {
    for text in ["a,\0b", "\0a", "a\0", "a=1\0,b", "a=1 \0,b"] {
        assert!(printed(text).is_err(), "{text:?}");
    }
}

#[test]
fn built_label_selector_equals_the_parsed_one() {
    let build = || {
        let everything = LabelSelector::everything();
        let built = everything.exists("e")?.does_not_exist("d")?.equals("a", "1")?.not_equals("a", "2")?;
        built.is_in("i", ["y", "x", "y"])?.not_in("n", ["z"])?.gt("g", 7)?.lt("g", 9)?.equals("a", "1")
    };
    assert_eq!(build(), "a=1,a!=2,!d,e,g>7,g<9,i in (x,y),n notin (z)".parse());
    assert_eq!(LabelSelector::from_labels([("b", "2"), ("a", "1")]), "a=1,b=2".parse());
}

#[test]
fn builder_rejects_invalid_keys_and_values() {
    let everything = LabelSelector::everything;
    for (built, expected) in [
        (everything().equals("a", "1,b=2"), "values[0][a]: Invalid value: \"1,b=2\""),
        (everything().exists("a b"), "key: Invalid value: \"a b\""),
        (everything().exists(""), "name part must be non-empty"),
        (everything().does_not_exist("X/a"), "prefix part a lowercase RFC 1123 subdomain"),
        (everything().exists("a/b/c"), "with an optional DNS subdomain prefix and '/'"),
        (everything().exists("p".repeat(254) + "/a"), "prefix part must be no more than 253 bytes"),
        (everything().not_equals("a", "v".repeat(64)), "must be no more than 63 bytes"),
        (everything().is_in("a", [""; 0]), "values: Invalid value: null: for 'in', 'notin' operators"),
        (everything().gt("a", -1), "values[0][a]: Invalid value: \"-1\""),
        (LabelSelector::from_labels([("a", "-")]), "values[0][a]: Invalid value: \"-\""),
    ] {
        let error = built.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn operators_validate_the_number_of_values() {
    use SelectorOperator::*;
    for (operator, values, expected) in [
        (In, &[][..], Err("for 'in', 'notin' operators, values set can't be empty")),
        (NotIn, &[], Err("for 'in', 'notin' operators, values set can't be empty")),
        (In, &["foo"], Ok("x in (foo)")),
        (NotIn, &["foo"], Ok("x notin (foo)")),
        (Equals, &["bar", "foo"], Err("values: Invalid value: [\"bar\",\"foo\"]: exact-match compatibility")),
        (NotEquals, &[], Err("exact-match compatibility requires one single value")),
        (Exists, &[], Ok("x")),
        (DoesNotExist, &[], Ok("!x")),
        (Exists, &["foo"], Err("values: Invalid value: [\"foo\"]: values set must be empty")),
        (GreaterThan, &["1"], Ok("x>1")),
        (LessThan, &["6"], Ok("x<6")),
        (GreaterThan, &[], Err("for 'Gt', 'Lt' operators, exactly one value is required")),
        (LessThan, &["bar"], Err("values[0]: Invalid value: \"bar\": for 'Gt', 'Lt' operators")),
    ] {
        let made = LabelRequirement::new("x", operator, values.iter().copied());
        match expected {
            Ok(text) => assert_eq!(made.unwrap().to_string(), text),
            Err(part) => {
                let error = made.unwrap_err().to_string();
                assert!(error.contains(part), "{error}");
            }
        }
    }
}

#[test]
fn nothing_still_selects_nothing_after_parsing() {
    let nothing = LabelSelector::nothing();
    assert!(nothing.is_nothing() && !nothing.is_everything());
    assert_eq!(nothing.to_string().parse(), Ok(nothing.clone()));
    for on in [&[][..], &[("nothing", "")], &[("a", "b")]] {
        assert!(!nothing.matches(&labels(on)));
        assert!(LabelSelector::everything().matches(&labels(on)));
    }
    assert!(nothing.equals("a", "b").unwrap().is_nothing());
    assert!(LabelSelector::everything().is_everything() && !LabelSelector::everything().is_nothing());
    assert!("a=1,a,z,!a".parse::<LabelSelector>().unwrap().is_nothing());
    assert!(!"a,!b".parse::<LabelSelector>().unwrap().is_nothing());
}

fn meant(selector: serde_json::Value) -> Result<String, String> {
    let spec: LabelSelectorSpec = serde_json::from_value(selector).unwrap();
    LabelSelector::from_spec(Some(&spec)).map(|meant| meant.to_string()).map_err(|error| error.to_string())
}

#[test]
fn object_selector_combines_labels_and_expressions() {
    let expression = json!({"key": "baz", "operator": "In", "values": ["qux", "norf"]});
    for (selector, expected) in [
        (json!({}), ""),
        (json!({"matchLabels": null, "matchExpressions": null}), ""),
        (json!({"matchLabels": {"foo": "bar"}}), "foo=bar"),
        (json!({"matchExpressions": [expression]}), "baz in (norf,qux)"),
        (json!({"matchLabels": {"foo": "bar"}, "matchExpressions": [expression]}), "baz in (norf,qux),foo=bar"),
        (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}), "a in (b)"),
        (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}), "a notin (b)"),
        (json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": null}]}), "a"),
        (json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), "!a"),
    ] {
        assert_eq!(meant(selector.clone()).as_deref(), Ok(expected), "{selector}");
    }
    assert_eq!(LabelSelector::from_spec(None), Ok(LabelSelector::nothing()));
    assert_eq!(LabelSelector::from_spec(Some(&LabelSelectorSpec::default())), Ok(LabelSelector::everything()));
}

#[test]
fn invalid_object_selector_returns_the_reason() {
    let operator = |operator: &str, values: &[&str]| {
        meant(json!({"matchExpressions": [{"key": "baz", "operator": operator, "values": values}]})).unwrap_err()
    };
    assert_eq!(operator("Gt", &["1"]), "\"Gt\" is not a valid label selector operator");
    assert_eq!(
        operator("Exists", &["qux", "norf"]),
        "values: Invalid value: [\"qux\",\"norf\"]: values set must be empty for exists and does not exist"
    );
    assert_eq!(
        operator("In", &[]),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(meant(json!({"matchExpressions": [{}]})).unwrap_err(), "\"\" is not a valid label selector operator");
    assert!(
        meant(json!({"matchLabels": {"a": "b c"}})).unwrap_err().starts_with("values[0][a]: Invalid value: \"b c\"")
    );
}

#[track_caller]
fn check_field(selector: &str, expected: Result<&str, &str>) {
    let read: Result<FieldSelector, _> = selector.parse();
    let read = read.map(|read| read.to_string()).map_err(|error| error.to_string());
    assert_eq!(read.as_deref().map_err(String::as_str), expected, "{selector:?}");
}

#[test]
fn field_selector_prints_canonically() {
    for (text, expected) in [
        ("", ""),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("x!=a,y=b", "x!=a,y=b"),
        (r"x=a||y\=b", r"x=a||y\=b"),
        (r"x=a\=\=b", r"x=a\=\=b"),
        ("x=a,a=x", "a=x,x=a"),
        ("x==a,x=a", "x=a"),
        ("a==0,a=1", "a=0,a=1"),
        (",,=,==,!=", ""),
        ("=a", "=a"),
        ("a=a,", "a=a"),
        (r"k=\,,k2=v2", r"k2=v2,k=\,"),
        (r"k=\\,k2=v2", r"k2=v2,k=\\"),
        (r"k=\\\,,k2=v2", r"k2=v2,k=\\\,"),
        (r"k\=v", r"k\=v"),
        ("함=수,목=록", "목=록,함=수"),
        (" metadata.name = a ", " metadata.name = a "),
        ("a!b!=c", "a!b!=c"),
    ] {
        check_field(text, Ok(expected));
    }
}

#[test]
fn invalid_field_selector_error_names_the_first_part() {
    for (selector, expected) in [
        ("x", "invalid selector: 'x'; can't understand 'x'"),
        ("x=a,b", "invalid selector: 'x=a,b'; can't understand 'b'"),
        ("x in (a,b,c)", "invalid selector: 'x in (a,b,c)'; can't understand 'b'"),
        ("c,b", "invalid selector: 'c,b'; can't understand 'b'"),
        ("!x", "invalid selector: '!x'; can't understand '!x'"),
        (r"\", r"invalid selector: '\'; can't understand '\'"),
        ("x=a||y=b", "invalid field selector: unescaped character in value: 61"),
        ("x==a==b", "invalid field selector: unescaped character in value: 61"),
        ("x===a", "invalid field selector: unescaped character in value: 61"),
        (r"x=a\b", r"invalid field selector: invalid escape sequence: \b"),
        (r"x=\\\", r"invalid field selector: invalid escape sequence: \"),
    ] {
        check_field(selector, Err(expected));
    }
}

#[test]
fn fields_match_by_equality_only() {
    let fields = [("foo", "bar"), ("baz", "blah"), ("complex", r"=value\,\")];
    let value = |field: &str| fields.iter().find(|(name, _)| *name == field).map_or("", |(_, value)| value);
    for (selector, expected) in [
        ("", true),
        ("foo=bar", true),
        ("foo==bar,baz!=bar", true),
        ("foo=bar,foo=other", false),
        ("foo!=bar", false),
        (r"foo=bar,baz=blah,complex=\=value\\\,\\", true),
        ("foo=bar,foobar=bar,baz=blah", false),
        ("absent=", true),
        ("absent!=", false),
    ] {
        assert_eq!(selector.parse::<FieldSelector>().unwrap().matches(value), expected, "{selector:?}");
    }
}

#[test]
fn exact_returns_the_value_of_equality_requirements() {
    for (selector, expected) in
        [("", None), ("a=b", None), ("test=b,a=b", Some("b")), ("test=", Some("")), ("test!=b", None)]
    {
        assert_eq!(selector.parse::<FieldSelector>().unwrap().exact("test"), expected, "{selector:?}");
    }
}

#[test]
fn built_field_selector_equals_the_parsed_one() {
    let built = FieldSelector::everything().not_equals("b", "x,y").equals("a", r"\=").equals("a", r"\=");
    assert_eq!(Ok(built), r"a=\\\=,b!=x\,y".parse());
}

#[test]
#[should_panic(expected = "not a field that a selector can name")]
fn field_name_with_special_characters_panics() {
    let _ = FieldSelector::everything().equals("a=b,c", "d");
}

/// On these long selectors, a recursive parser would overflow the stack, and a backtracking parser would take
/// too long.
#[test]
fn long_selectors_parse_in_one_pass() {
    for unit in ["a,", "!", "(", "a in (", "=", "\\"] {
        let text = unit.repeat((1 << 18) / unit.len());
        assert!(text.parse::<LabelSelector>().is_err(), "{unit:?}");
    }
    let many: Vec<_> = (0..20_000).map(|at| format!("k{at}!=v{at}")).collect();
    assert_eq!(many.join(",").parse::<LabelSelector>().unwrap().requirements().len(), many.len());
    assert_eq!(many.join(",").parse::<FieldSelector>().unwrap().requirements().len(), many.len());
    let many: Vec<_> = (0..20_000).map(|at| format!("v{at}")).collect();
    let set: LabelSelector = format!("a in ({})", many.join(",")).parse().unwrap();
    assert_eq!(set.requirements()[0].values().len(), many.len());
}

proptest! {
    #[test]
    fn printed_label_selector_parses_as_equal(
        text in "((!?[a-c]|[a-c] ?(=|==|!=| in \\(| notin \\()[a-c,]{0,3}\\)?|[a-c](<|>)[0-9])(, ?)?){0,4}",
        on in proptest::collection::btree_map("[a-c]", "[a-c]|[0-9]", 0..3),
    ) {
        if let Ok(selector) = text.parse::<LabelSelector>() {
            let printed = selector.to_string();
            let again: LabelSelector = printed.parse().unwrap();
            prop_assert_eq!(&again, &selector);
            prop_assert_eq!(again.to_string(), printed);
            prop_assert_eq!(again.matches(&on), selector.matches(&on));
        }
    }

    #[test]
    fn printed_field_selector_parses_as_equal(text in "([a.!\\\\]{0,3}(=|!=|==)([ab!.]|\\\\,|\\\\=|\\\\\\\\){0,3},?){0,4}") {
        if let Ok(selector) = text.parse::<FieldSelector>() {
            let printed = selector.to_string();
            prop_assert_eq!(printed.parse(), Ok(selector));
        }
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,40}|[a!=<>(), \\\\.\\x00/]{0,40}|(a| in |notin|\\(|\\)|,|=|!|>|\\\\){0,12}") {
        if let Ok(selector) = text.parse::<LabelSelector>() {
            prop_assert_eq!(selector.to_string().parse(), Ok(selector));
        }
        if let Ok(selector) = text.parse::<FieldSelector>() {
            prop_assert_eq!(selector.to_string().parse(), Ok(selector));
        }
    }
}
