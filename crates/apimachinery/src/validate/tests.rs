//! Tests of the rules for names and labels.

use super::{NameRule, annotation_key_errors, label_key_faults, label_value_faults, name_errors};

#[track_caller]
fn check_name(rule: NameRule, name: &str, prefix: bool, valid: bool) {
    let errors = name_errors(rule, name, prefix);
    assert_eq!(errors.is_empty(), valid, "{rule:?} {name:?}: {errors:?}");
}

#[test]
fn names_follow_their_rule() {
    let long = "x".repeat(64);
    for (rule, name, valid) in [
        (NameRule::Subdomain, "a.b-c", true),
        (NameRule::Subdomain, "0a", true),
        (NameRule::Subdomain, &long, true),
        (NameRule::Subdomain, "A", false),
        (NameRule::Subdomain, "a..b", false),
        (NameRule::Subdomain, "a.", false),
        (NameRule::Subdomain, "ä", false),
        (NameRule::ShortSubdomain(52), &long, false),
        (NameRule::Label, "0a", true),
        (NameRule::Label, "a.b", false),
        (NameRule::Label, &long, false),
        (NameRule::Rfc1035Label, "0a", false),
        (NameRule::Rfc1035Label, "a-0", true),
        (NameRule::PathSegment, "system:a_B", true),
        (NameRule::PathSegment, "a/b", false),
        (NameRule::PathSegment, "a%b", false),
        (NameRule::PathSegment, "..", false),
    ] {
        check_name(rule, name, false, valid);
    }
}

#[test]
fn prefix_may_end_with_a_dash() {
    check_name(NameRule::Subdomain, "p-", true, true);
    check_name(NameRule::Subdomain, "A-", true, true);
    check_name(NameRule::Subdomain, "AB-", true, false);
    check_name(NameRule::Subdomain, "-", true, false);
    check_name(NameRule::Subdomain, "ä-", true, false);
    check_name(NameRule::Subdomain, "p-", false, false);
    check_name(NameRule::Subdomain, "p.", true, false);
    check_name(NameRule::PathSegment, "..", true, true);
}

#[test]
fn labels_and_annotations_need_qualified_keys() {
    for (key, label, annotation) in [
        ("a", true, true),
        ("example.com/a_B.c", true, true),
        ("X.Y/a", false, true),
        ("", false, false),
        ("/a", false, false),
        ("a/", false, false),
        ("a/b/c", false, false),
        ("a b", false, false),
    ] {
        assert_eq!(label_key_faults(key).is_empty(), label, "label {key:?}");
        assert_eq!(annotation_key_errors(key).is_empty(), annotation, "annotation {key:?}");
    }
    for (value, valid) in [("", true), ("a.B_1", true), ("-a", false), ("a b", false), ("a/b", false)] {
        assert_eq!(label_value_faults(value).is_empty(), valid, "value {value:?}");
    }
    assert!(!label_value_faults(&"v".repeat(64)).is_empty());
}
