//! Matches selectors against JSON objects, and says which fields of a kind can be selected.
//! `pintle_meta` defines what selectors are.

use pintle_meta::{FieldSelector, LabelSelector, LabelSelectorSpec};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::store::Stored;

#[cfg(test)]
mod tests;

/// The selector that an object holds as `matchLabels` and `matchExpressions`; null selects nothing. `None` if it is broken.
pub(crate) fn structured(selector: &Value) -> Option<LabelSelector> {
    let spec = Option::<LabelSelectorSpec>::deserialize(selector).ok()?;
    LabelSelector::from_spec(spec.as_ref()).ok()
}

/// Whether the labels of an object fulfil a selector. All versions of a kind show the same.
pub(crate) fn selects(selector: &LabelSelector, stored: &Stored) -> bool {
    if selector.is_everything() {
        return true;
    }
    let labels = stored.labels();
    selector.matches_by(|key| labels.value(key))
}

/// Whether these labels fulfil a selector.
pub(crate) fn selects_labels(selector: &LabelSelector, labels: Option<&Map<String, Value>>) -> bool {
    selector.matches_by(|key| labels?.get(key)?.as_str())
}

/// Whether an object, as the kind shows it, fulfils a selector of fields.
pub(crate) fn selects_fields(selector: &FieldSelector, kind: &Kind, stored: &Stored) -> bool {
    let mut converted = None;
    selector.matches(|label| match label {
        "metadata.name" => stored.name(),
        "metadata.namespace" => stored.namespace(),
        label => {
            let label = canonical(kind, label);
            let field = match converted.get_or_insert_with(|| kind.converted(stored)) {
                Some(shown) => kind.strategy.field(shown, label),
                None => kind.strategy.field(&stored.only(&kind.strategy.field_paths(label)), label),
            };
            field.unwrap_or_default().into()
        }
    })
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
