//! Matches selectors against JSON objects, and says which fields of a kind can be selected.
//! `pintle_meta` defines what selectors are.

use std::borrow::Cow;

use pintle_meta::{FieldSelector, LabelSelector, LabelSelectorSpec};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::kinds::Kind;

#[cfg(test)]
mod tests;

/// The selector that an object holds as `matchLabels` and `matchExpressions`; null selects nothing. `None` if it is broken.
pub(crate) fn structured(selector: &Value) -> Option<LabelSelector> {
    let spec = Option::<LabelSelectorSpec>::deserialize(selector).ok()?;
    LabelSelector::from_spec(spec.as_ref()).ok()
}

/// Whether the labels of an object fulfil a selector.
pub(crate) fn selects(selector: &LabelSelector, object: &Value) -> bool {
    selects_labels(selector, object.pointer("/metadata/labels").and_then(Value::as_object))
}

/// Whether these labels fulfil a selector.
pub(crate) fn selects_labels(selector: &LabelSelector, labels: Option<&Map<String, Value>>) -> bool {
    selector.matches_by(|key| labels?.get(key)?.as_str())
}

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
