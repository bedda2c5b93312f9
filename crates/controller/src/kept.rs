//! Keys that are kept for the next run of a controller.

use std::collections::{BTreeMap, HashMap};
use std::mem::take;

use crate::RequestKey;

/// The maximum number of event keys to keep while the controller is not running. Without a limit, a standby would
/// remember every object that was ever deleted.
pub(crate) const MAX_EVENTS: usize = 100_000;

/// The keys that the next run cannot find through existing objects. These are keys of deleted objects, keys that were
/// added directly, and unfinished keys. Each key is kept once, with its highest priority.
#[derive(Debug)]
pub(crate) struct Kept<K> {
    keys: HashMap<K, Entry>,
    /// The keys from events, ordered by sequence number.
    events: BTreeMap<u64, K>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    /// The sequence number of the event. If the number is `None`, the key is never dropped.
    event: Option<u64>,
}

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self { keys: HashMap::new(), events: BTreeMap::new(), next: 0 }
    }
}

impl<K: RequestKey> Kept<K> {
    /// Keeps a key until the next run takes it.
    pub(crate) fn insert(&mut self, key: K, priority: i32) {
        let entry = self.keys.entry(key).or_insert(Entry { priority, event: None });
        entry.priority = entry.priority.max(priority);
        if let Some(number) = entry.event.take() {
            self.events.remove(&number);
        }
    }

    /// Keeps the key of an event until the next run takes it, or until `most` newer event keys are kept. Returns
    /// whether the key of an older event was dropped.
    pub(crate) fn insert_event(&mut self, key: K, priority: i32, most: usize) -> bool {
        let number = self.next;
        self.next += 1;
        match self.keys.get_mut(&key) {
            None => _ = self.keys.insert(key.clone(), Entry { priority, event: Some(number) }),
            Some(entry) => {
                entry.priority = entry.priority.max(priority);
                let Some(before) = entry.event.replace(number) else {
                    entry.event = None;
                    return false;
                };
                self.events.remove(&before);
            }
        }
        self.events.insert(number, key);
        if self.events.len() <= most {
            return false;
        }
        if let Some((_, oldest)) = self.events.pop_first() {
            self.keys.remove(&oldest);
        }
        true
    }

    /// Removes all keys, and returns them in order, each with its priority.
    pub(crate) fn take(&mut self) -> Vec<(K, i32)> {
        self.events.clear();
        let keys = take(&mut self.keys).into_iter();
        let mut keys: Vec<_> = keys.map(|(key, entry)| (key, entry.priority)).collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::ObjectKey;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn names(kept: &mut Kept<ObjectKey>) -> Vec<String> {
        kept.take().into_iter().map(|(key, _)| key.name().to_owned()).collect()
    }

    #[test]
    fn oldest_event_is_dropped_and_direct_keys_are_kept() {
        let mut kept = Kept::default();
        kept.insert(key("by-hand"), 0);
        assert!(!kept.insert_event(key("a"), 0, 2));
        assert!(!kept.insert_event(key("b"), 0, 2));
        // If the key of an event is already kept, it becomes the newest.
        assert!(!kept.insert_event(key("a"), 0, 2));
        assert!(!kept.insert_event(key("by-hand"), 0, 2));
        assert!(kept.insert_event(key("c"), 0, 2));
        assert_eq!(names(&mut kept), ["a", "by-hand", "c"]);
        assert_eq!(names(&mut kept), [""; 0]);
    }

    #[test]
    fn event_key_added_directly_is_not_dropped() {
        let mut kept = Kept::default();
        kept.insert_event(key("a"), -100, 1);
        kept.insert(key("a"), 0);
        kept.insert_event(key("b"), 0, 1);
        kept.insert_event(key("c"), 0, 1);
        assert_eq!(kept.take(), [(key("a"), 0), (key("c"), 0)]);
    }
}
