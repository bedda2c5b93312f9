//! Matches label selectors from the crate `pintle_meta` against JSON objects.

use pintle_json::{Json, Map};
use pintle_meta::{LabelSelector, LabelSelectorSpec};
use serde::Deserialize;

#[cfg(test)]
mod tests;

/// Parses a `LabelSelector`, or returns `None` if it is invalid. A null selector matches no objects.
pub fn structured(selector: &Json) -> Option<LabelSelector> {
    let spec = Option::<LabelSelectorSpec>::deserialize(selector).ok()?;
    LabelSelector::from_spec(spec.as_ref()).ok()
}

/// Formats a `LabelSelector`, or returns an empty string if it is invalid.
pub fn structured_text(selector: &Json) -> String {
    structured(selector).map(|selector| selector.to_string()).unwrap_or_default()
}

/// Returns `true` if the selector matches the object's labels.
pub fn selects(selector: &LabelSelector, object: &Json) -> bool {
    selects_labels(selector, object["metadata"]["labels"].as_object())
}

/// Returns `true` if the selector matches `labels`.
pub fn selects_labels(selector: &LabelSelector, labels: Option<&Map>) -> bool {
    selector.matches_by(|key| labels?.get(key)?.as_str())
}
