//! Matches selectors of labels against JSON objects.
//! `pintle_meta` defines what selectors are.

use pintle_json::{Json, Map};
use pintle_meta::{LabelSelector, LabelSelectorSpec};
use serde::Deserialize;

#[cfg(test)]
mod tests;

/// The selector that an object holds as `matchLabels` and `matchExpressions`; null selects nothing. `None` if it is broken.
pub(crate) fn structured(selector: &Json) -> Option<LabelSelector> {
    let spec = Option::<LabelSelectorSpec>::deserialize(selector).ok()?;
    LabelSelector::from_spec(spec.as_ref()).ok()
}

/// A structured selector as a text; "" if it is none.
pub(crate) fn structured_text(selector: &Json) -> String {
    structured(selector).map(|selector| selector.to_string()).unwrap_or_default()
}

/// Whether the labels of an object fulfil a selector.
pub(crate) fn selects(selector: &LabelSelector, object: &Json) -> bool {
    selects_labels(selector, object["metadata"]["labels"].as_object())
}

/// Whether these labels fulfil a selector.
pub(crate) fn selects_labels(selector: &LabelSelector, labels: Option<&Map>) -> bool {
    selector.matches_by(|key| labels?.get(key)?.as_str())
}
