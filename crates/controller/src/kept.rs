//! Keys that wait for the next run.

use std::collections::{BTreeMap, HashMap};
use std::mem::take;

use pintle_meta::ObjectKey;

/// How many keys of events are kept while the controller does not run. A standby would otherwise remember each object that was
/// ever deleted.
pub(crate) const MOST_EVENTS: usize = 100_000;

/// Keys that nothing else brings again in the next run: those of deleted objects, those that were added by hand, and those that a
/// run left undone. Each key once, with its highest priority.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    keys: HashMap<ObjectKey, Entry>,
    /// The keys of events, oldest first.
    events: BTreeMap<u64, ObjectKey>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    /// The place among the events. None: the key is never dropped.
    event: Option<u64>,
}

impl Kept {
    /// Keeps a key until it is taken.
    pub(crate) fn insert(&mut self, key: ObjectKey, priority: i32) {
        let entry = self.keys.entry(key).or_insert(Entry { priority, event: None });
        entry.priority = entry.priority.max(priority);
        if let Some(place) = entry.event.take() {
            self.events.remove(&place);
        }
    }

    /// Keeps the key of an event until it is taken, or until `most` newer ones are kept. Returns whether an old key was dropped.
    pub(crate) fn insert_event(&mut self, key: ObjectKey, priority: i32, most: usize) -> bool {
        let place = self.next;
        self.next += 1;
        match self.keys.get_mut(&key) {
            None => _ = self.keys.insert(key.clone(), Entry { priority, event: Some(place) }),
            Some(entry) => {
                entry.priority = entry.priority.max(priority);
                let Some(before) = entry.event.replace(place) else {
                    entry.event = None;
                    return false;
                };
                self.events.remove(&before);
            }
        }
        self.events.insert(place, key);
        if self.events.len() <= most {
            return false;
        }
        if let Some((_, oldest)) = self.events.pop_first() {
            self.keys.remove(&oldest);
        }
        true
    }

    /// Takes all keys, sorted, with their priorities.
    pub(crate) fn take(&mut self) -> Vec<(ObjectKey, i32)> {
        self.events.clear();
        let keys = take(&mut self.keys).into_iter();
        let mut keys: Vec<_> = keys.map(|(key, entry)| (key, entry.priority)).collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn names(kept: &mut Kept) -> Vec<String> {
        kept.take().into_iter().map(|(key, _)| key.name().to_owned()).collect()
    }

    #[test]
    fn the_oldest_event_is_dropped_beyond_the_bound_and_a_key_added_by_hand_is_not() {
        let mut kept = Kept::default();
        kept.insert(key("by-hand"), 0);
        assert!(!kept.insert_event(key("a"), 0, 2));
        assert!(!kept.insert_event(key("b"), 0, 2));
        // An event of a known key makes it the newest.
        assert!(!kept.insert_event(key("a"), 0, 2));
        assert!(!kept.insert_event(key("by-hand"), 0, 2));
        assert!(kept.insert_event(key("c"), 0, 2));
        assert_eq!(names(&mut kept), ["a", "by-hand", "c"]);
        assert_eq!(names(&mut kept), [""; 0]);
    }

    #[test]
    fn a_key_of_an_event_that_is_added_by_hand_is_not_dropped() {
        let mut kept = Kept::default();
        kept.insert_event(key("a"), -100, 1);
        kept.insert(key("a"), 0);
        kept.insert_event(key("b"), 0, 1);
        kept.insert_event(key("c"), 0, 1);
        assert_eq!(kept.take(), [(key("a"), 0), (key("c"), 0)]);
    }
}
