//! The selectable fields of each kind and their values in objects.

use std::borrow::Cow;

use pintle_meta::FieldSelector;
use pintle_store::{SAME, Stored};

use super::Kind;
use crate::strategy_types::Form;

/// Finds an indexed field for which the selector allows only one value, and returns the index of the field and the
/// value.
pub fn indexed_field<'a>(selector: &'a FieldSelector, kind: &Kind) -> Option<(usize, &'a str)> {
    let labels = kind.field_labels().filter(|_| kind.strategy.form() == Form::Stored)?;
    selector.requirements().iter().find_map(|requirement| {
        let value = selector.exact(requirement.field())?;
        let label = kind.strategy.field_label(requirement.field());
        Some((labels.iter().position(|known| *known == label)?, value))
    })
}

/// Returns `true` if the object satisfies the field selector. The object must have the version of `kind`.
pub fn selects_fields(selector: &FieldSelector, kind: &Kind, stored: &Stored) -> bool {
    selector.matches(|label| match label {
        "metadata.name" => stored.name(),
        "metadata.namespace" => stored.namespace(),
        label => field(kind, stored, kind.strategy.field_label(label)),
    })
}

/// Returns the value of a field in an object of the kind's version. If the object needs no conversion, the field values
/// are cached in the stored object.
fn field<'a>(kind: &Kind, stored: &'a Stored, label: &str) -> Cow<'a, str> {
    let strategy = &kind.strategy;
    if let Some(shown) = kind.convert_if_needed(stored) {
        return strategy.field(&shown, label).unwrap_or_default().into();
    }
    let labels = kind.field_labels().unwrap_or_default();
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

/// Returns the error for the first unsupported field label.
pub fn unknown_field(selector: &FieldSelector, kind: &Kind) -> Option<String> {
    let labels = kind.field_labels();
    let known = |label: &str| match label {
        "metadata.name" => true,
        "metadata.namespace" => labels.is_none() || kind.is_namespaced(),
        label => labels.as_ref().is_some_and(|labels| labels.contains(&kind.strategy.field_label(label))),
    };
    let label = selector.requirements().iter().map(|requirement| requirement.field()).find(|label| !known(label))?;
    Some(match labels {
        Some(_) => kind.strategy.unknown_field_label(&kind.gvk(), label),
        None => format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    })
}
