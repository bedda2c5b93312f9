//! Decides whether an apply would change anything.
//!
//! A controller applies all its children on each reconciliation. Most applies change nothing, so this module remembers the last apply of
//! each child and compares it with the cached object.

use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use pintle_meta::{Object, ObjectKey};
use serde_json::Value;

/// The applied object: its type, its key, and whether its status was applied.
pub(crate) type Target = (TypeId, ObjectKey, bool);

/// The last applies for one reconciled object.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    by_target: HashMap<Target, Last>,
}

#[derive(Clone, Debug)]
struct Last {
    configuration: u64,
    uid: String,
    /// The version of the object in which the configuration was last found.
    version: String,
}

impl Applied {
    /// Returns whether `live` still has all fields of `configuration`, and `configuration` was the last one applied. Only an apply can
    /// remove fields that an earlier configuration had, so another configuration always counts as a change.
    pub(crate) fn is_current<T: Object>(
        &mut self,
        target: &Target,
        configuration: &Value,
        live: &T,
        encode: impl FnOnce() -> Option<Value>,
    ) -> bool {
        let Some(last) = self.by_target.get_mut(target) else { return false };
        if last.configuration != digest(configuration) || last.uid != live.uid() {
            return false;
        }
        if last.version == live.resource_version() {
            return true;
        }
        let is_current = encode().is_some_and(|live| contains(&live, configuration));
        if is_current {
            last.version = live.resource_version().into();
        }
        is_current
    }

    /// Remembers a successful apply.
    pub(crate) fn remember(&mut self, target: Target, configuration: &Value, stored: &impl Object) {
        let last = Last {
            configuration: digest(configuration),
            uid: stored.uid().into(),
            version: stored.resource_version().into(),
        };
        self.by_target.insert(target, last);
    }
}

fn digest(configuration: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    configuration.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The members that name an object. The live object may lack them.
const IDENTITY: [&str; 2] = ["apiVersion", "kind"];

/// Returns whether `live` has all fields of `applied` with the same values.
fn contains(live: &Value, applied: &Value) -> bool {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) => {
            applied.iter().all(|(name, field)| IDENTITY.contains(&name.as_str()) || has_field(live.get(name), field))
        }
        _ => has_field(Some(live), applied),
    }
}

fn has_field(live: Option<&Value>, applied: &Value) -> bool {
    match (live, applied) {
        (Some(Value::Object(live)), Value::Object(applied)) => {
            applied.iter().all(|(name, field)| has_field(live.get(name), field))
        }
        // Defaults may add fields to the items. Other managers may add items; then the server decides.
        (Some(Value::Array(live)), Value::Array(applied)) => {
            live.len() == applied.len() && live.iter().zip(applied).all(|(live, item)| has_field(Some(live), item))
        }
        (Some(live), applied) => live == applied,
        // Types omit empty maps and lists when they are written.
        (None, Value::Object(applied)) => applied.is_empty(),
        (None, Value::Array(applied)) => applied.is_empty(),
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::{DynamicObject, ObjectMeta};
    use serde_json::json;

    use super::*;

    fn target() -> Target {
        (TypeId::of::<DynamicObject>(), ObjectKey::new("ns", "child"), false)
    }

    fn object(version: &str, uid: &str) -> DynamicObject {
        let metadata =
            ObjectMeta { resource_version: version.into(), uid: uid.into(), ..ObjectMeta::new("ns", "child") };
        DynamicObject { metadata, ..DynamicObject::default() }
    }

    #[test]
    fn live_object_contains_what_was_applied() {
        for (live, applied, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": {"x": 1, "y": 2}}), json!({"a": {"x": 1}}), true),
            (json!({"a": {"x": 1}}), json!({"a": {"x": 2}}), false),
            (json!({"l": [{"name": "a", "default": 1}]}), json!({"l": [{"name": "a"}]}), true),
            (json!({"l": [{"name": "b"}, {"name": "a"}]}), json!({"l": [{"name": "a"}, {"name": "b"}]}), false),
            (json!({"l": [1, 2]}), json!({"l": [1]}), false),
            (json!({}), json!({"labels": {}, "l": []}), true),
            (json!({}), json!({"apiVersion": "v1", "kind": "ConfigMap"}), true),
            (json!({"x": {}}), json!({"x": {"kind": "ConfigMap"}}), false),
            (json!({"a": "1"}), json!({"a": 1}), false),
        ] {
            assert_eq!(contains(&live, &applied), expected, "{live} {applied}");
        }
    }

    #[test]
    fn same_configuration_is_current_until_a_field_differs() {
        let mut applied = Applied::default();
        let configuration = json!({"data": {"a": "1"}});
        let is_current = |applied: &mut Applied, configuration: &Value, live: &DynamicObject, data: Value| {
            applied.is_current(&target(), configuration, live, || Some(data))
        };
        let same = json!({"data": {"a": "1", "theirs": "2"}});
        assert!(
            !is_current(&mut applied, &configuration, &object("1", "u"), same.clone()),
            "nothing was applied before"
        );
        applied.remember(target(), &configuration, &object("1", "u"));
        assert!(is_current(&mut applied, &configuration, &object("1", "u"), Value::Null), "same version: not compared");
        assert!(is_current(&mut applied, &configuration, &object("2", "u"), same.clone()), "another field was changed");
        assert!(
            is_current(&mut applied, &configuration, &object("2", "u"), Value::Null),
            "the new version is remembered"
        );
        assert!(!is_current(&mut applied, &configuration, &object("3", "u"), json!({"data": {"a": "0"}})));
        assert!(!is_current(&mut applied, &configuration, &object("2", "other"), same.clone()), "it was recreated");
        assert!(!is_current(&mut applied, &json!({"data": {}}), &object("2", "u"), same), "a field is to be removed");
    }
}
