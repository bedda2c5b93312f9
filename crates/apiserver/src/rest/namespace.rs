//! What is special about namespaces.

use serde_json::Value;

use super::meta::{metadata_mut, text};
use crate::kinds::Kind;

/// Every namespace carries its name as a label, so that selectors can name it.
pub(super) fn label(kind: &Kind, object: &mut Value) {
    if !is_namespace(kind) {
        return;
    }
    let name = text(object, "name").to_owned();
    let labels = metadata_mut(object).entry("labels").or_insert_with(|| Value::Object(Default::default()));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.kind == "Namespace"
}

/// Whether a terminating object of the kind may be removed: of a namespace, `spec.finalizers` have to be gone too.
pub(super) fn may_go(kind: &Kind, object: &Value) -> bool {
    !is_namespace(kind) || spec_finalizers(object).is_empty()
}

/// The finalizers that only `/finalize` changes.
pub(super) fn spec_finalizers(object: &Value) -> Vec<&str> {
    let list = object.pointer("/spec/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}
