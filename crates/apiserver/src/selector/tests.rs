//! Selectors against objects and kinds.

use serde_json::json;

use super::*;
use crate::kinds::Registry;

#[test]
fn labels_that_are_no_text_are_absent() {
    let selects = |selector: &str, object: Value| super::selects(&selector.parse().unwrap(), &Stored::sample(&object));
    assert!(selects("a=1,!b", json!({"metadata": {"labels": {"a": "1"}}})));
    assert!(selects("!a", json!({"metadata": {"labels": {"a": 1}}})));
    assert!(selects("!a", json!({"metadata": {"labels": null}})));
    assert!(!selects("a", json!({})));
    assert!(selects("", json!({})));
}

#[test]
fn a_structured_selector_that_is_absent_selects_nothing_and_an_empty_one_everything() {
    let selects = |selector: Value| structured(&selector).map(|selector| selects_labels(&selector, None));
    assert_eq!(selects(Value::Null), Some(false));
    assert_eq!(selects(json!({})), Some(true));
    assert_eq!(selects(json!({"matchLabels": {"a": "b c"}})), None);
    assert_eq!(selects(json!({"matchExpressions": "x"})), None);
}

/// What a selector makes of a pod, or the error.
#[track_caller]
fn check_field(plural: &str, selector: &str, expected: Result<bool, &str>) {
    let registry = Registry::builtin();
    let kind = registry.resource("", "v1", plural).expect("a core kind");
    let object = json!({
        "metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x,y", "hostNetwork": true}, "status": {"phase": "Running"},
    });
    let fields: FieldSelector = selector.parse().unwrap();
    let found = match unknown_field(&fields, kind) {
        Some(why) => Err(why),
        None => Ok(selects_fields(&fields, kind, &Stored::sample(&object))),
    };
    assert_eq!(found, expected.map_err(Into::into), "{selector:?}");
}

#[test]
fn fields_are_selected_as_the_kind_shows_them() {
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
fn the_first_field_that_a_kind_does_not_have_is_named() {
    for (plural, selector, expected) in [
        ("pods", "spec.foo=1", "field label not supported: spec.foo"),
        ("pods", "z=1,metadata.name =a", "field label not supported: metadata.name "),
        ("pods", "z=1,a.b=1,a=1", "field label not supported: a.b"),
        (
            "configmaps",
            "spec.foo=1",
            "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("configmaps", "=a", "\"\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
        ("nodes", "metadata.namespace=", "field label not supported: metadata.namespace"),
        ("services", "spec.host=x", "field label not supported: spec.host"),
    ] {
        check_field(plural, selector, Err(expected));
    }
}
