//! Determines the conditions that a status apply must contain.
//!
//! A reconciler passes all conditions of its object, including the conditions of other field managers. The cached
//! conditions of other field managers may be outdated, and applying them would overwrite newer values. Therefore, an
//! apply omits the conditions of other field managers.

use std::collections::BTreeSet;

use pintle_meta::Condition;
use serde::Deserialize;
use serde_json::Value;

const CONDITIONS: &str = "/status/conditions";

#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) set: BTreeSet<String>,
    pub(crate) read: Vec<Condition>,
}

pub(crate) fn types(configuration: &Value) -> BTreeSet<String> {
    let items = configuration.pointer(CONDITIONS).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item["type"].as_str()).map(str::to_owned).collect()
}

/// Removes the conditions that are in `read`, except conditions whose types are in `own`. Returns `true` if conditions
/// were removed.
pub(crate) fn remove_others(configuration: &mut Value, own: &BTreeSet<String>, read: &[Condition]) -> bool {
    let Some(Value::Array(items)) = configuration.pointer_mut(CONDITIONS) else { return false };
    let before = items.len();
    items.retain(|item| match Condition::deserialize(item) {
        Ok(condition) => own.contains(&condition.condition_type) || !read.contains(&condition),
        Err(_) => true, // The server reports the error.
    });
    items.len() < before
}

/// Returns the condition types that the field manager `own` has set, based on the `managedFields` of `object`. Returns
/// `None` if the list of conditions is atomic, because the last writer then owns the whole list.
pub(crate) fn types_of_manager(object: &Value, own: &str) -> Option<BTreeSet<String>> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let (mut types, mut has_keys, mut has_whole) = (BTreeSet::new(), false, false);
    for entry in entries {
        let Some(fields) = entry.pointer("/fieldsV1/f:status/f:conditions").and_then(Value::as_object) else {
            continue;
        };
        has_whole |= fields.is_empty();
        for key in fields.keys().filter_map(|field| field.strip_prefix("k:")) {
            has_keys = true;
            let key: Option<Value> = serde_json::from_str(key).ok();
            let condition_type = key.as_ref().and_then(|key| key["type"].as_str());
            types.extend(condition_type.filter(|_| entry["manager"] == own).map(str::to_owned));
        }
    }
    (has_keys || !has_whole).then_some(types)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(condition_type: &str, reason: &str) -> Value {
        json!({"type": condition_type, "status": "True", "reason": reason, "message": ""})
    }

    #[test]
    fn read_conditions_of_others_are_left_out() {
        let read: Vec<_> = ["Own", "Other", "Replaced"].map(|name| condition(name, "Old")).to_vec();
        let read: Vec<Condition> = read.iter().map(|item| Condition::deserialize(item).unwrap()).collect();
        let own = ["Own".to_owned()].into();
        let conditions = [condition("Own", "Old"), condition("Other", "Old"), condition("Replaced", "New"), json!(1)];
        let mut configuration = json!({"status": {"conditions": conditions}});
        assert!(remove_others(&mut configuration, &own, &read));
        assert_eq!(types(&configuration), ["Own", "Replaced"].map(str::to_owned).into());
        assert_eq!(configuration["status"]["conditions"].as_array().map(Vec::len), Some(3));
        assert!(!remove_others(&mut configuration, &own, &read));
        assert!(!remove_others(&mut json!({"status": {}}), &own, &read));
    }

    #[test]
    fn types_come_from_the_managed_fields() {
        let entry = |manager: &str, conditions: Value| json!({"manager": manager, "fieldsV1": {"f:status": {"f:conditions": conditions}}});
        let object = |entries: &[Value]| json!({"metadata": {"managedFields": entries}});
        let ready = entry("own", json!({r#"k:{"type":"Ready"}"#: {".": {}}}));
        let other = entry("other", json!({r#"k:{"type":"Dns"}"#: {}, "k:broken": {}}));
        let whole = entry("other", json!({}));
        let expected = Some(["Ready".to_owned()].into());
        assert_eq!(types_of_manager(&object(&[ready.clone(), other]), "own"), expected);
        assert_eq!(types_of_manager(&object(&[ready, whole.clone()]), "own"), expected);
        assert_eq!(types_of_manager(&object(&[whole]), "own"), None);
        assert_eq!(types_of_manager(&json!({}), "own"), Some(BTreeSet::new()));
    }
}
