//! Tests of field selectors and of indexed fields.

use pintle_json::json;

use pintle_builtin::selectable;
use pintle_kinds::{Form, indexed_field, selects_fields, stored_for_tests, unknown_field};
use pintle_meta::FieldSelector;

#[track_caller]
fn check_field(plural: &str, selector: &str, expected: Result<bool, &str>) {
    let kinds = pintle_builtin::kinds();
    let kind = kinds.resource("", "v1", plural).expect("a core kind");
    let object = json!({
        "metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x,y", "hostNetwork": true}, "status": {"phase": "Running"},
    });
    let fields: FieldSelector = selector.parse().expect("a field selector");
    let found = match unknown_field(&fields, kind) {
        Some(why) => Err(why),
        None => Ok(selects_fields(&fields, kind, &stored_for_tests(&object))),
    };
    assert_eq!(found, expected.map_err(Into::into), "{selector:?}");
}

#[test]
fn field_selectors_match_the_fields_of_a_kind() {
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

/// `field_paths` must return all paths that a field reads, so reducing an object to these paths must not change the
/// field values.
#[test]
fn field_paths_cover_the_fields_of_each_kind() {
    let kinds = pintle_builtin::kinds();
    let object = json!({
        "metadata": {"name": "a", "namespace": "n"},
        "involvedObject": {"kind": "Pod", "name": "p"}, "reportingComponent": "c", "reason": "r", "type": "Normal",
        "spec": {"nodeName": "x", "hostNetwork": true, "unschedulable": true, "driver": "d", "clusterIP": "10.0.0.9"},
        "status": {"phase": "Running", "succeeded": 2, "replicas": 3, "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]},
    });
    let mut found = 0;
    for kind in kinds.kinds() {
        for label in kind.field_labels().into_iter().flatten() {
            let whole = kind.strategy.field(&object, label).unwrap_or_default();
            found += usize::from(!whole.is_empty());
            let selector = FieldSelector::everything().equals(label, &whole);
            let converted = kind.convert_if_needed(&stored_for_tests(&object)).is_some();
            assert!(converted || selects_fields(&selector, kind, &stored_for_tests(&object)), "{}: {label}", kind.kind);
        }
    }
    assert!(found > 10, "{found}");
}

#[test]
fn indexed_fields_equal_the_fields_of_the_stored_object() {
    let kinds = pintle_builtin::kinds();
    let object = json!({
        "metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x", "hostNetwork": true}, "type": "t",
        "source": {"component": "c"}, "involvedObject": {"kind": "Pod"}, "status": {"phase": "Running", "succeeded": 2},
    });
    let mut kept = 0;
    for kind in kinds.kinds().filter(|kind| kind.strategy.form() == Form::Stored) {
        let labels = kind.field_labels().unwrap_or_default();
        let fields = selectable(&kind.stored_as.to_string(), &object);
        assert_eq!(fields.len(), labels.len(), "{}", kind.kind);
        for (at, (label, expected)) in labels.into_iter().zip(fields).enumerate() {
            let selector = FieldSelector::everything().equals(label, &expected);
            assert!(selects_fields(&selector, kind, &stored_for_tests(&object)), "{}: {label}", kind.kind);
            assert_eq!(indexed_field(&selector, kind), Some((at, expected.as_str())));
            kept += 1;
        }
    }
    assert!(kept > 20, "{kept}");
}

#[test]
fn index_serves_only_equality_of_indexed_fields() {
    let kinds = pintle_builtin::kinds();
    for (plural, selector, expected) in [
        ("pods", "spec.nodeName=x", Some("x")),
        ("pods", "spec.host=x", Some("x")),
        ("pods", "spec.nodeName!=x,status.phase=Running", Some("Running")),
        ("pods", "spec.nodeName!=x", None),
        ("pods", "metadata.namespace=n", None),
        ("configmaps", "metadata.name=x", None),
    ] {
        let kind = kinds.resource("", "v1", plural).expect("a core kind");
        let fields: FieldSelector = selector.parse().expect("a field selector");
        assert_eq!(indexed_field(&fields, kind).map(|(_, value)| value), expected, "{plural}: {selector}");
    }
}

#[test]
fn first_unknown_field_label_is_reported() {
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
