//! Finds the old value for each rule, and determines whether an update changes this value.

use std::collections::HashMap;

use pintle_json::Json;

use super::RuleTree;
use crate::ratchet::is_unchanged;
use crate::structural::Structural;

/// The old value that corresponds to a new value in an update. A `Correlation` also determines whether a violation of
/// an unchanged value becomes a warning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correlation<'a> {
    /// The old value at the same path, which rules access as `oldSelf`. `None` if the object is new, or if the new
    /// value is in a list whose items cannot be matched with old items.
    pub(super) old: Option<&'a Json>,
    ratchet: Ratchet,
}

/// Determines whether a violation becomes a warning because the update does not change the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ratchet {
    /// A violation becomes a warning if the new value equals the old one.
    Compare,
    /// The value is in a list item that cannot be matched with an old item. A violation becomes a warning if the
    /// boolean is `true`, which means that the surrounding list is unchanged.
    Above(bool),
    /// Every violation is an error. This variant applies to new objects, to defaults in a definition, and to `kind` and
    /// `apiVersion`.
    Never,
}

impl<'a> Correlation<'a> {
    pub(super) fn of_object(old: Option<&'a Json>) -> Self {
        Self { old, ratchet: if old.is_some() { Ratchet::Compare } else { Ratchet::Never } }
    }

    pub(super) fn without_ratcheting(old: Option<&'a Json>) -> Self {
        Self { old, ratchet: Ratchet::Never }
    }

    pub(super) fn is_unchanged(&self, shape: &Structural, value: &Json) -> bool {
        match self.ratchet {
            Ratchet::Compare => self.old.is_some_and(|old| is_unchanged(shape, value, old)),
            Ratchet::Above(is_unchanged) => is_unchanged,
            Ratchet::Never => false,
        }
    }

    /// Returns the correlation for a member of an object. `is_root` is true for members of the root object.
    pub(super) fn member(&self, name: &str, is_root: bool) -> Self {
        let old = self.old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
        let ratchet = match self.ratchet {
            Ratchet::Compare if is_root && matches!(name, "apiVersion" | "kind") => Ratchet::Never,
            other => other,
        };
        Self { old, ratchet }
    }

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

fn key(keys: &[String], item: &Json) -> String {
    keys.iter().map(|key| item.get(key).map_or_else(String::new, Json::to_string) + "\n").collect()
}
