use serde_json::Value;

use crate::validate::FieldFault;

/// The faults of a definition; `old` is the stored one of an update.
pub(super) fn definition(_object: &Value, _old: Option<&Value>) -> Vec<FieldFault> {
    Vec::new()
}
