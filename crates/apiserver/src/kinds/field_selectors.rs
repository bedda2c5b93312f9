//! Determines the selectable fields of each kind, and the values of these fields in objects.

use std::borrow::Cow;

use pintle_json::Json;
use pintle_meta::FieldSelector;

use super::{Form, Kind, builtin};
use crate::store::{SAME, Stored};

/// Returns the values of an object's selectable fields. The store indexes objects by these values. The values are in the same order as the
/// result of `field_labels`. If no built-in kind stores its objects under this name, the result is empty.
pub(crate) fn selectable(resource: &str, object: &Json) -> Vec<String> {
    let Some(strategy) = builtin::of_stored(resource) else { return Vec::new() };
    let labels = strategy.field_labels().unwrap_or_default();
    labels.into_iter().map(|label| strategy.field(object, label).unwrap_or_default()).collect()
}

/// Returns the unique values of an object. No other object may have one of these values. The store indexes objects by their unique values.
pub(crate) fn claims(resource: &str, object: &Json) -> Vec<String> {
    builtin::of_stored(resource).map(|strategy| strategy.claims(object)).unwrap_or_default()
}

/// Returns whether the store indexes the selectable fields of the kind.
fn is_indexed(kind: &Kind) -> bool {
    kind.strategy.form() == Form::Stored
}

/// Finds an indexed field for which the field selector allows only one value. Returns the index of the field and the value that the
/// selector requires.
pub(crate) fn indexed_field<'a>(selector: &'a FieldSelector, kind: &Kind) -> Option<(usize, &'a str)> {
    let labels = kind.strategy.field_labels().filter(|_| is_indexed(kind))?;
    selector.requirements().iter().find_map(|requirement| {
        let value = selector.exact(requirement.field())?;
        let label = kind.strategy.field_label(requirement.field());
        Some((labels.iter().position(|known| *known == label)?, value))
    })
}

/// Returns whether the object satisfies the field selector. The object must be in the version of the kind.
pub(crate) fn selects_fields(selector: &FieldSelector, kind: &Kind, stored: &Stored) -> bool {
    selector.matches(|label| match label {
        "metadata.name" => stored.name(),
        "metadata.namespace" => stored.namespace(),
        label => field(kind, stored, kind.strategy.field_label(label)),
    })
}

/// Returns the value of a field. The object must be in the version of the kind. If the object needs no conversion, the values of its
/// selectable fields are cached. The values are computed when the object is written, or when a caller first needs one of the values.
fn field<'a>(kind: &Kind, stored: &'a Stored, label: &str) -> Cow<'a, str> {
    let strategy = &kind.strategy;
    if let Some(shown) = kind.converted(stored) {
        return strategy.field(&shown, label).unwrap_or_default().into();
    }
    let labels = strategy.field_labels().unwrap_or_default();
    let read = |labels: &[&str]| -> Vec<String> {
        let paths: Vec<_> = labels.iter().flat_map(|label| strategy.field_paths(label)).collect();
        let found = stored.only(&paths);
        labels.iter().map(|label| strategy.field(&found, label).unwrap_or_default()).collect()
    };
    let form = match strategy.form() {
        Form::Checked(form) => form,
        Form::Stored | Form::Converted => SAME,
    };
    let at = labels.iter().position(|known| *known == label);
    let kept = at.and_then(|at| stored.field(form, at, || read(&labels)));
    kept.map_or_else(|| read(&[label]).swap_remove(0).into(), Cow::Borrowed)
}

/// Returns the error for the first field label that the kind does not support.
pub(crate) fn unknown_field(selector: &FieldSelector, kind: &Kind) -> Option<String> {
    let labels = kind.strategy.field_labels();
    let known = |label: &str| match label {
        "metadata.name" => true,
        "metadata.namespace" => labels.is_none() || kind.namespaced(),
        label => labels.as_ref().is_some_and(|labels| labels.contains(&kind.strategy.field_label(label))),
    };
    let label = selector.requirements().iter().map(|requirement| requirement.field()).find(|label| !known(label))?;
    Some(match labels {
        Some(_) => kind.strategy.unknown_field_label(&kind.gvk(), label),
        None => format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    })
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;
    use crate::kinds::Kinds;

    /// Checks the result or the error of a field selector. The test uses an object that has the fields of a pod.
    #[track_caller]
    fn check_field(plural: &str, selector: &str, expected: Result<bool, &str>) {
        let kinds = Kinds::builtin();
        let kind = kinds.resource("", "v1", plural).expect("a core kind");
        let object = json!({
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x,y", "hostNetwork": true}, "status": {"phase": "Running"},
        });
        let fields: FieldSelector = selector.parse().unwrap();
        let found = match unknown_field(&fields, kind) {
            Some(why) => Err(why),
            None => Ok(selects_fields(&fields, kind, &crate::store::sample(&object))),
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

    /// For each field, `field_paths` must return all paths that the field reads. An object that contains only the values at these paths
    /// must have the same field values as the whole object.
    #[test]
    fn field_paths_cover_the_fields_of_each_kind() {
        let kinds = Kinds::builtin();
        let object = json!({
            "metadata": {"name": "a", "namespace": "n"},
            "involvedObject": {"kind": "Pod", "name": "p"}, "reportingComponent": "c", "reason": "r", "type": "Normal",
            "spec": {"nodeName": "x", "hostNetwork": true, "unschedulable": true, "driver": "d", "clusterIP": "10.0.0.9"},
            "status": {"phase": "Running", "succeeded": 2, "replicas": 3, "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]},
        });
        let mut found = 0;
        for kind in kinds.kinds() {
            for label in kind.strategy.field_labels().into_iter().flatten() {
                let whole = kind.strategy.field(&object, label).unwrap_or_default();
                found += usize::from(!whole.is_empty());
                let selector = FieldSelector::everything().equals(label, &whole);
                let converted = kind.converted(&crate::store::sample(&object)).is_some();
                assert!(
                    converted || selects_fields(&selector, kind, &crate::store::sample(&object)),
                    "{}: {label}",
                    kind.kind
                );
            }
        }
        assert!(found > 10, "{found}");
    }

    #[test]
    fn indexed_fields_equal_the_fields_of_the_stored_object() {
        let kinds = Kinds::builtin();
        let object = json!({
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x", "hostNetwork": true}, "type": "t",
            "source": {"component": "c"}, "involvedObject": {"kind": "Pod"}, "status": {"phase": "Running", "succeeded": 2},
        });
        let mut kept = 0;
        for kind in kinds.kinds().filter(|kind| is_indexed(kind)) {
            let labels = kind.strategy.field_labels().unwrap_or_default();
            let fields = selectable(&kind.store.to_string(), &object);
            assert_eq!(fields.len(), labels.len(), "{}", kind.kind);
            for (at, (label, expected)) in labels.into_iter().zip(fields).enumerate() {
                assert_eq!(field(kind, &crate::store::sample(&object), label), expected, "{}: {label}", kind.kind);
                let selector = FieldSelector::everything().equals(label, &expected);
                assert_eq!(indexed_field(&selector, kind), Some((at, expected.as_str())));
                kept += 1;
            }
        }
        assert!(kept > 20, "{kept}");
    }

    #[test]
    fn index_serves_only_equality_of_indexed_fields() {
        let kinds = Kinds::builtin();
        for (plural, selector, expected) in [
            ("pods", "spec.nodeName=x", Some("x")),
            ("pods", "spec.host=x", Some("x")),
            ("pods", "spec.nodeName!=x,status.phase=Running", Some("Running")),
            ("pods", "spec.nodeName!=x", None),
            ("pods", "metadata.namespace=n", None),
            ("configmaps", "metadata.name=x", None),
        ] {
            let kind = kinds.resource("", "v1", plural).expect("a core kind");
            let fields: FieldSelector = selector.parse().unwrap();
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
}
