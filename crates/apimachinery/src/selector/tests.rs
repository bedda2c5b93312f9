//! Tests of label selectors on JSON objects.

use pintle_json::json;

use super::*;

#[test]
fn labels_that_are_not_strings_are_absent() {
    let selects = |selector: &str, object: Json| super::selects(&selector.parse().unwrap(), &object);
    assert!(selects("a=1,!b", json!({"metadata": {"labels": {"a": "1"}}})));
    assert!(selects("!a", json!({"metadata": {"labels": {"a": 1}}})));
    assert!(selects("!a", json!({"metadata": {"labels": null}})));
    assert!(!selects("a", json!({})));
    assert!(selects("", json!({})));
}

#[test]
fn missing_structured_selector_selects_nothing_empty_everything() {
    let selects = |selector: Json| structured(&selector).map(|selector| super::selects(&selector, &json!({})));
    assert_eq!(selects(Json::Null), Some(false));
    assert_eq!(selects(json!({})), Some(true));
    assert_eq!(selects(json!({"matchLabels": {"a": "b c"}})), None);
    assert_eq!(selects(json!({"matchExpressions": "x"})), None);
}
