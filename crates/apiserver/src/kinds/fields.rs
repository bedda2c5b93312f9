//! Which fields of a kind can be selected, and what they say.

use pintle_meta::FieldSelector;

use super::{Form, Kind};
use crate::store::Stored;

/// Whether an object, as the kind shows it, fulfils a selector of fields.
pub(crate) fn selects_fields(selector: &FieldSelector, kind: &Kind, stored: &Stored) -> bool {
    selector.matches(|label| match label {
        "metadata.name" => stored.name(),
        "metadata.namespace" => stored.namespace(),
        label => field(kind, stored, canonical(kind, label)).into(),
    })
}

/// A field of an object as the kind shows it. Where that is as it is stored, all that can be selected is read once and kept, for
/// there may be many who ask.
fn field(kind: &Kind, stored: &Stored, label: &str) -> String {
    let strategy = &kind.strategy;
    if let Some(shown) = kind.converted(stored) {
        return strategy.field(&shown, label).unwrap_or_default();
    }
    let labels = strategy.field_labels().unwrap_or_default();
    let read = |labels: &[&str]| -> Vec<String> {
        let paths: Vec<_> = labels.iter().flat_map(|label| strategy.field_paths(label)).collect();
        let found = stored.only(&paths);
        labels.iter().map(|label| strategy.field(&found, label).unwrap_or_default()).collect()
    };
    let form = match strategy.form() {
        Form::Checked(form) => form,
        Form::Stored | Form::Converted => 0,
    };
    let at = labels.iter().position(|known| *known == label);
    let kept = stored.fields(form, || read(&labels)).zip(at).and_then(|(fields, at)| fields.get(at));
    kept.map_or_else(|| read(&[label]).swap_remove(0), |field| field.to_string())
}

/// Why the kind does not serve a selector: the first label that it does not have.
pub(crate) fn unknown_field(selector: &FieldSelector, kind: &Kind) -> Option<String> {
    let labels = kind.strategy.field_labels();
    let known = |label: &str| match label {
        "metadata.name" => true,
        "metadata.namespace" => labels.is_none() || kind.namespaced(),
        label => labels.as_ref().is_some_and(|labels| labels.contains(&canonical(kind, label))),
    };
    let label = selector.requirements().iter().map(|requirement| requirement.field()).find(|label| !known(label))?;
    Some(match (&labels, kind.kind.as_str()) {
        (Some(_), "Job") => format!("field label \"{label}\" not supported for Job"),
        (Some(_), "ResourceSlice") => format!("field label not supported for {}: {label}", kind.gvk()),
        (Some(_), _) => format!("field label not supported: {label}"),
        (None, _) => {
            format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    })
}

/// The label as the kind spells it today.
fn canonical<'a>(kind: &Kind, label: &'a str) -> &'a str {
    match label {
        "spec.host" if kind.kind == "Pod" => "spec.nodeName",
        label => label,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Kinds;

    /// What a selector makes of a pod, or the error.
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

    /// A field is looked up in as much of an object as the kind says that it needs.
    #[test]
    fn a_field_is_as_it_is_in_the_whole_object() {
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
                let converted = kind.converted(&Stored::sample(&object)).is_some();
                assert!(
                    converted || selects_fields(&selector, kind, &Stored::sample(&object)),
                    "{}: {label}",
                    kind.kind
                );
            }
        }
        assert!(found > 10, "{found}");
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
}
