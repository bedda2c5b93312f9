//! Decides whether an apply would change anything.
//!
//! A controller applies all its children on each reconciliation. Most applies would change nothing, so this module
//! remembers the last apply of each child and compares it with the cached object.

use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use pintle_meta::{Object, ObjectKey};
use serde_json::Value;
use tokio::time::Instant;

use crate::contention::Contention;

/// The applied object: its type, its key, and whether its status was applied.
pub(crate) type Target = (TypeId, ObjectKey, bool);

/// For one reconciled object, the last apply of each child and of the status.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    by_target: HashMap<Target, Last>,
}

#[derive(Clone, Debug)]
struct Last {
    configuration: u64,
    uid: String,
    /// The resourceVersion of the cached object when it was last found to contain the applied configuration.
    version: String,
    contention: Contention,
}

/// The result of a comparison with the cached object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The cached object contains the applied configuration.
    Current,
    /// The configuration is new, or this process has not applied it.
    Changed,
    /// The configuration was applied before, and another writer has changed the field at this path.
    Overwritten(Vec<String>),
}

impl Applied {
    /// Compares `live` with `configuration`. If an earlier configuration had more fields, only an apply can remove
    /// these fields. So a configuration that differs from the last applied configuration always counts as a change.
    pub(crate) fn compare<T: Object>(
        &mut self,
        target: &Target,
        configuration: &Value,
        live: &T,
        encode: impl FnOnce() -> Option<Value>,
    ) -> Comparison {
        let Some(last) = self.by_target.get_mut(target) else { return Comparison::Changed };
        if last.configuration != digest(configuration) || last.uid != live.uid() {
            return Comparison::Changed;
        }
        if last.version == live.resource_version() {
            return Comparison::Current;
        }
        let Some(encoded) = encode() else { return Comparison::Changed };
        let mut path = Vec::new();
        if contains(&encoded, configuration, &mut path) {
            last.version = live.resource_version().into();
            return Comparison::Current;
        }
        Comparison::Overwritten(path)
    }

    /// Counts one more apply of an overwritten field. If it is time to report the overwritten field, returns the number
    /// of such applies within the last minute.
    pub(crate) fn revert(&mut self, target: &Target, now: Instant) -> Option<usize> {
        self.by_target.get_mut(target)?.contention.revert(now)
    }

    /// Remembers a successful apply.
    pub(crate) fn remember(&mut self, target: Target, configuration: &Value, stored: &impl Object) {
        let contention = self.by_target.remove(&target).map(|last| last.contention).unwrap_or_default();
        let last = Last {
            configuration: digest(configuration),
            uid: stored.uid().into(),
            version: stored.resource_version().into(),
            contention,
        };
        self.by_target.insert(target, last);
    }
}

fn digest(configuration: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    configuration.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The members that identify the type of an object. The live object may lack these members.
const IDENTITY: [&str; 2] = ["apiVersion", "kind"];

/// Returns whether `live` has all fields of `applied` with the same values. If the result is false, `path` is the path
/// of a field that is missing or has another value.
fn contains(live: &Value, applied: &Value, path: &mut Vec<String>) -> bool {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) => applied
            .iter()
            .filter(|(name, _)| !IDENTITY.contains(&name.as_str()))
            .all(|(name, field)| at(name, path, |path| has_field(live.get(name), field, path))),
        _ => has_field(Some(live), applied, path),
    }
}

fn has_field(live: Option<&Value>, applied: &Value, path: &mut Vec<String>) -> bool {
    match (live, applied) {
        (Some(Value::Object(live)), Value::Object(applied)) => {
            applied.iter().all(|(name, field)| at(name, path, |path| has_field(live.get(name), field, path)))
        }
        // Defaults may add fields to the items of a list. If the number of items differs, another manager may have
        // added items, so only the server can decide whether the apply would change anything.
        (Some(Value::Array(live)), Value::Array(applied)) => {
            let mut pairs = live.iter().zip(applied).enumerate();
            live.len() == applied.len()
                && pairs
                    .all(|(index, (live, item))| at(&index.to_string(), path, |path| has_field(Some(live), item, path)))
        }
        (Some(live), applied) => live == applied,
        // A type may omit empty maps and lists when it is serialized.
        (None, Value::Object(applied)) => applied.is_empty(),
        (None, Value::Array(applied)) => applied.is_empty(),
        (None, _) => false,
    }
}

/// Calls `check` with `name` added to the path. If the check fails, `name` stays in the path.
fn at(name: &str, path: &mut Vec<String>, check: impl FnOnce(&mut Vec<String>) -> bool) -> bool {
    path.push(name.to_owned());
    let is_ok = check(path);
    if is_ok {
        path.pop();
    }
    is_ok
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
            let mut path = Vec::new();
            assert_eq!(contains(&live, &applied, &mut path), expected, "{live} {applied}");
            assert!(!expected || path.is_empty(), "{path:?}");
        }
    }

    #[test]
    fn overwritten_field_is_named() {
        let mut applied = Applied::default();
        let configuration = json!({"spec": {"ports": [{"name": "web", "port": 80}]}});
        applied.remember(target(), &configuration, &object("1", "u"));
        let live = json!({"spec": {"ports": [{"name": "web", "port": 81}]}});
        let comparison = applied.compare(&target(), &configuration, &object("2", "u"), || Some(live));
        let path = ["spec", "ports", "0", "port"].map(str::to_owned).to_vec();
        assert_eq!(comparison, Comparison::Overwritten(path));
    }

    #[test]
    fn same_configuration_is_current_until_a_field_differs() {
        let mut applied = Applied::default();
        let configuration = json!({"data": {"a": "1"}});
        let is_current = |applied: &mut Applied, configuration: &Value, live: &DynamicObject, data: Value| {
            applied.compare(&target(), configuration, live, || Some(data)) == Comparison::Current
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
