//! Keys that a controller keeps between two runs.

use std::collections::{BTreeMap, HashMap};
use std::mem::take;

use crate::key::RequestKey;

/// The maximum number of keys that are kept for each limited [`Origin`]. Without this limit, a standby's memory would
/// grow with every deleted object and every key from the program.
pub(crate) const MAX_KEPT: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// An event of a source, usually a deletion.
    Event,
    /// A key that the program added, for example through a [`Trigger`](crate::Trigger).
    Program,
    /// A key that an earlier run did not finish. The number of unfinished keys needs no limit, because the queue of the
    /// earlier run bounds it.
    Unfinished,
}

/// Keys that the next run cannot find with a list: keys of deleted objects, keys that the program added, and unfinished
/// keys. Each key is stored only once, with its highest priority.
#[derive(Clone, Debug)]
pub(crate) struct Kept<K> {
    keys: HashMap<K, Entry>,
    /// The keys of each limited origin, ordered by sequence number.
    limited: [BTreeMap<u64, K>; 2],
    next: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    priority: i32,
    origin: Origin,
    number: u64,
}

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self { keys: HashMap::new(), limited: Default::default(), next: 0 }
    }
}

impl<K: RequestKey> Kept<K> {
    /// Keeps a key until the next run takes it. If more than `most` keys of this limited origin are kept, the oldest
    /// key is dropped. If the key is already kept with a greater [`Origin`], only the key's priority is updated.
    /// Returns `true` if the oldest key was dropped.
    pub(crate) fn insert(&mut self, key: K, priority: i32, origin: Origin, most: usize) -> bool {
        let number = self.next;
        self.next += 1;
        match self.keys.get_mut(&key) {
            None => _ = self.keys.insert(key.clone(), Entry { priority, origin, number }),
            Some(entry) => {
                entry.priority = entry.priority.max(priority);
                if origin < entry.origin {
                    return false;
                }
                if let Some(limited) = self.limited.get_mut(entry.origin as usize) {
                    limited.remove(&entry.number);
                }
                (entry.origin, entry.number) = (origin, number);
            }
        }
        let Some(limited) = self.limited.get_mut(origin as usize) else { return false };
        limited.insert(number, key);
        if limited.len() <= most {
            return false;
        }
        if let Some((_, oldest)) = limited.pop_first() {
            self.keys.remove(&oldest);
        }
        true
    }

    /// Removes and returns all keys with their priorities, sorted by key.
    pub(crate) fn take(&mut self) -> Vec<(K, i32)> {
        self.limited = Default::default();
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
    fn oldest_key_of_an_origin_is_dropped() {
        let mut kept = Kept::default();
        let mut insert = |name: &str, origin| kept.insert(key(name), 0, origin, 2);
        assert!(!insert("unfinished", Origin::Unfinished));
        assert!(!insert("by-hand", Origin::Program));
        assert!(!insert("a", Origin::Event));
        assert!(!insert("b", Origin::Event));
        assert!(!insert("a", Origin::Event));
        assert!(!insert("by-hand", Origin::Event));
        assert!(insert("c", Origin::Event));
        assert!(!insert("by-hand-2", Origin::Program));
        assert!(!insert("by-hand", Origin::Program));
        assert!(insert("by-hand-3", Origin::Program));
        assert!(!insert("unfinished", Origin::Program));
        assert_eq!(names(&mut kept), ["a", "by-hand", "by-hand-3", "c", "unfinished"]);
        assert_eq!(names(&mut kept), [""; 0]);
    }

    #[test]
    fn event_key_added_directly_is_not_dropped() {
        let mut kept = Kept::default();
        kept.insert(key("a"), -100, Origin::Event, 1);
        kept.insert(key("a"), 0, Origin::Program, 1);
        kept.insert(key("b"), 0, Origin::Event, 1);
        kept.insert(key("c"), 0, Origin::Event, 1);
        assert_eq!(kept.take(), [(key("a"), 0), (key("c"), 0)]);
    }
}
