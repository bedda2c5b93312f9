//! Which fields of a kind can be selected, and what they say.

use std::borrow::Cow;

use pintle_meta::FieldSelector;
use serde_json::Value;

use super::Kind;

/// Whether an object of the kind, in its served form, fulfils a selector of fields.
pub(crate) fn selects_fields(selector: &FieldSelector, kind: &Kind, object: &Value) -> bool {
    selector.matches(|label| value(kind, object, label))
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

fn value<'a>(kind: &Kind, object: &'a Value, label: &str) -> Cow<'a, str> {
    let metadata = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().into();
    match label {
        "metadata.name" => metadata("/metadata/name"),
        "metadata.namespace" => metadata("/metadata/namespace"),
        label => kind.strategy.field(object, canonical(kind, label)).unwrap_or_default().into(),
    }
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
            None => Ok(selects_fields(&fields, kind, &object)),
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
}
