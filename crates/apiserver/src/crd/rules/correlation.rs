//! Finds the old values that rules compare with, and determines whether a value is unchanged.

use std::collections::HashMap;

use pintle_json::Json;

use super::RuleTree;
use crate::crd::ratchet::is_unchanged;
use crate::crd::structural::Structural;

/// A value with its old value, and the rule for failures of an unchanged value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correlation<'a> {
    /// The old value at the same path, for `oldSelf`. `None` if there is no old value, or if the value is in a list whose
    /// items cannot be matched.
    pub(super) old: Option<&'a Json>,
    ratchet: Ratchet,
}

/// Determines whether failures become warnings because the value is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ratchet {
    /// Failures become warnings if the value equals its old value.
    Compare,
    /// The value is an item that cannot be matched with an old item. Failures become warnings if the enclosing list is
    /// unchanged. The value is true if the enclosing list is unchanged.
    Above(bool),
    /// Failures never become warnings, because the write creates the object, because the value is a default in a
    /// definition, or because it is a `kind` or an `apiVersion`.
    Never,
}

impl<'a> Correlation<'a> {
    /// Returns the correlation of a whole object.
    pub(super) fn of_object(old: Option<&'a Json>) -> Self {
        Self { old, ratchet: if old.is_some() { Ratchet::Compare } else { Ratchet::Never } }
    }

    /// Returns the correlation of a value whose failures never become warnings.
    pub(super) fn without_ratcheting(old: Option<&'a Json>) -> Self {
        Self { old, ratchet: Ratchet::Never }
    }

    /// Returns whether a failure of a rule for the value becomes a warning.
    pub(super) fn is_unchanged(&self, shape: &Structural, value: &Json) -> bool {
        match self.ratchet {
            Ratchet::Compare => self.old.is_some_and(|old| is_unchanged(shape, value, old)),
            Ratchet::Above(is_unchanged) => is_unchanged,
            Ratchet::Never => false,
        }
    }

    /// Returns the correlation of a member of an object. `is_root` is true for the members of the whole object.
    pub(super) fn member(&self, name: &str, is_root: bool) -> Self {
        let old = self.old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
        let ratchet = match self.ratchet {
            Ratchet::Compare if is_root && matches!(name, "apiVersion" | "kind") => Ratchet::Never,
            other => other,
        };
        Self { old, ratchet }
    }

    /// Returns the correlations of the items of a list.
    pub(super) fn items(&self, tree: &RuleTree, shape: &Structural, value: &Json, items: &[Json]) -> Vec<Self> {
        let Some(keys) = &tree.list_keys else {
            let ratchet = match self.ratchet {
                Ratchet::Compare => Ratchet::Above(self.is_unchanged(shape, value)),
                other => other,
            };
            return vec![Self { old: None, ratchet }; items.len()];
        };
        let old = self.old.and_then(Json::as_array).map_or(&[][..], |items| &items[..]);
        let old: HashMap<_, _> = old.iter().rev().map(|item| (key(keys, item), item)).collect();
        items.iter().map(|item| Self { old: old.get(&key(keys, item)).copied(), ratchet: self.ratchet }).collect()
    }
}

/// Returns the values of the map keys of an item as one string.
fn key(keys: &[String], item: &Json) -> String {
    keys.iter().map(|key| item.get(key).map_or_else(String::new, Json::to_string) + "\n").collect()
}
