use proptest::prelude::*;
use serde_json::json;

use super::{FieldSelector, LabelSelector};
use crate::kinds::Registry;

/// What a selector makes of the labels `a=1,b=,n=5`: true, false, or the error.
#[track_caller]
fn check_label(selector: &str, expected: Result<bool, &str>) {
    let object = json!({"metadata": {"labels": {"a": "1", "b": "", "n": "5"}}});
    let found =
        LabelSelector::parse(selector).map(|selector| selector.matches(&object)).map_err(|error| error.to_string());
    match (&found, expected) {
        (Err(found), Err(part)) => assert!(found.contains(part), "{selector:?}: {found}"),
        _ => assert_eq!(found, expected.map_err(Into::into), "{selector:?}"),
    }
}

#[test]
fn labels_are_selected_by_comparison_set_and_existence() {
    for (selector, expected) in [
        ("", true),
        (" \t\n", true),
        ("a", true),
        ("!a", false),
        ("! c", true),
        ("a=1", true),
        ("a==1", true),
        ("a = 2", false),
        ("a!=1", false),
        ("c!=1", true),
        ("b=", true),
        ("b==,a", true),
        ("a in (1, 2)", true),
        ("a in (2)", false),
        ("a notin (2)", true),
        ("c notin (2)", true),
        ("b in ()", true),
        ("b in (,)", true),
        ("b in (x,)", true),
        ("a in ()", false),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("a<x1", false),
        ("c>1", false),
        ("in=in", false),
        ("notin notin (in)", true),
    ] {
        if selector == "a<x1" {
            check_label(selector, Err("the value must be an integer"));
        } else {
            check_label(selector, Ok(expected));
        }
    }
}

#[test]
fn a_broken_label_selector_names_what_it_found() {
    for (selector, expected) in [
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("x,", "found '', expected: identifier after ','"),
        (",x", "found ',', expected: !, identifier, or 'end of string'"),
        ("x,,y", "found ',', expected: identifier after ','"),
        ("x==1==2", "found '==', expected: ',' or 'end of string'"),
        ("x===1", "found '=', expected: identifier"),
        ("!x=1", "found '=', expected: ',' or 'end of string'"),
        ("x!in (1)", "found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("x IN (1)", "found 'IN', expected: in, notin, =, ==, !=, gt, lt"),
        ("(x)", "found '(', expected: !, identifier, or 'end of string'"),
        ("x y", "found 'y', expected: in, notin, =, ==, !=, gt, lt"),
        ("x in (a b)", "found 'b', expected: ',' or ')'"),
        ("x in (1", "found '', expected: ',' or ')'"),
        ("/x", "prefix part must be non-empty"),
        ("x='1'", "values[0][x]: Invalid value: \"'1'\": a valid label must be an empty string"),
    ] {
        check_label(selector, Err(expected));
    }
}

/// What a selector makes of a pod, or the error.
#[track_caller]
fn check_field(plural: &str, selector: &str, expected: Result<bool, &str>) {
    let registry = Registry::builtin();
    let kind = registry.resource("", "v1", plural).expect("a core kind");
    let object = json!({
        "metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x,y", "hostNetwork": true}, "status": {"phase": "Running"},
    });
    let found = FieldSelector::parse(selector).and_then(|selector| selector.for_kind(kind));
    let found = found.map(|selector| selector.matches(kind, &object)).map_err(|error| error.to_string());
    assert_eq!(found, expected.map_err(Into::into), "{selector:?}");
}

#[test]
fn fields_are_selected_by_equality_alone() {
    for (selector, expected) in [
        ("", true),
        (",,=,==", true),
        ("metadata.name=a", true),
        ("metadata.name==a,metadata.namespace!=m", true),
        ("metadata.name=a,metadata.name=b", false),
        ("status.phase!=Running", false),
        (r"spec.nodeName=x\,y", true),
        (r"spec.host=x\,y", true),
        ("spec.hostNetwork=true", true),
        ("status.podIP=", true),
    ] {
        check_field("pods", selector, Ok(expected));
    }
}

#[test]
fn an_unknown_or_broken_field_selector_is_refused() {
    for (plural, selector, expected) in [
        ("pods", "spec.foo=1", "field label not supported: spec.foo"),
        ("pods", "z=1,metadata.name =a", "field label not supported: metadata.name "),
        (
            "configmaps",
            "spec.foo=1",
            "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("pods", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("pods", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ("pods", r"metadata.name=a\x", r"invalid field selector: invalid escape sequence: \x"),
        ("nodes", "metadata.namespace=", "field label not supported: metadata.namespace"),
    ] {
        check_field(plural, selector, Err(expected));
    }
}

proptest! {
    #[test]
    fn what_a_label_selector_prints_reads_as_the_same(text in "(!?[a-c]|[a-c](=|!=| in \\(| notin \\()[a-c,]{0,3}\\)?|,| ){0,5}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn what_a_field_selector_prints_reads_as_the_same(text in "([a-c.]{0,3}(=|!=|==)([a-c]|\\\\,|\\\\=){0,3},?){0,4}") {
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn no_selector_panics(text in "\\PC{0,40}") {
        let _ = LabelSelector::parse(&text).is_ok();
        let _ = FieldSelector::parse(&text).is_ok();
    }
}
