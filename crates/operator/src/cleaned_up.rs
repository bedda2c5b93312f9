//! The objects whose finalizer was removed.

use std::collections::HashMap;

use pintle_meta::ObjectKey;

/// The UIDs of objects whose finalizer was removed, as long as the cache may contain an earlier state. Only a later
/// reconciliation of the key removes an entry, but the controller's predicates may reject the deletion event.
/// Therefore, [`insert`](Self::insert) sometimes makes the caller remove entries that are no longer needed.
#[derive(Debug, Default)]
pub(crate) struct CleanedUp {
    uids: HashMap<ObjectKey, String>,
    kept: usize,
}

/// The maximum number of entries that are kept without a check.
const UNCHECKED: usize = 64;

impl CleanedUp {
    /// Adds an object. If the number of entries has doubled, it returns all entries. The caller must then pass the
    /// entries whose object is no longer cached to [`forget`](Self::forget).
    pub(crate) fn insert(&mut self, key: ObjectKey, uid: String) -> Vec<(ObjectKey, String)> {
        self.uids.insert(key, uid);
        if self.uids.len() <= UNCHECKED + 2 * self.kept {
            return Vec::new();
        }
        self.uids.iter().map(|(key, uid)| (key.clone(), uid.clone())).collect()
    }

    pub(crate) fn forget(&mut self, entries: &[(ObjectKey, String)]) {
        for (key, uid) in entries {
            // Do not remove an entry for a newer object with this key.
            if self.uids.get(key) == Some(uid) {
                self.uids.remove(key);
            }
        }
        self.kept = self.uids.len();
    }

    /// Returns `true` if the finalizer of the object was removed. Removes the key's entry if it belongs to another
    /// object, or if there is no object.
    pub(crate) fn contains(&mut self, key: &ObjectKey, uid: Option<&str>) -> bool {
        let is_cleaned_up = uid.is_some_and(|uid| self.uids.get(key).is_some_and(|cleaned_up| cleaned_up == uid));
        if !is_cleaned_up {
            self.uids.remove(key);
        }
        is_cleaned_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncached_objects_do_not_accumulate() {
        let mut cleaned_up = CleanedUp::default();
        let is_cached = |key: &ObjectKey| key.name() == "0";
        for number in 0..10_000 {
            let key = ObjectKey::new("ns", &number.to_string());
            let mut entries = cleaned_up.insert(key, "uid".into());
            if !entries.is_empty() {
                entries.retain(|(key, _)| !is_cached(key));
                cleaned_up.forget(&entries);
            }
            assert!(cleaned_up.uids.len() <= UNCHECKED + 2, "{number}");
        }
        assert!(cleaned_up.contains(&ObjectKey::new("ns", "0"), Some("uid")));
    }

    #[test]
    fn another_object_replaces_the_entry() {
        let (mut cleaned_up, key) = (CleanedUp::default(), ObjectKey::new("ns", "a"));
        assert!(cleaned_up.insert(key.clone(), "new".into()).is_empty());
        cleaned_up.forget(&[(key.clone(), "old".into())]);
        assert!(cleaned_up.contains(&key, Some("new")));
        assert!(!cleaned_up.contains(&key, Some("newer")));
        assert!(!cleaned_up.contains(&key, Some("new")));
    }
}
