//! The order of list items after a strategic merge patch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pintle_json::Json;

/// Orders the merged items by interleaving two sequences without reordering either of them. The first sequence
/// contains the items that the patch or its `$setElementOrder` lists. The second sequence contains all other items. If
/// the first remaining items of the sequences are `a` and `b`, the next item is `b` if `b` comes before `a` in the
/// live list, and `a` otherwise.
pub(super) fn arrange(merged: Vec<Json>, order: &[Json], live: &[Json], key: Option<&str>) -> Vec<Json> {
    let (ordered, lived) = (Places::new(order, key), Places::new(live, key));
    let (mut named, mut others): (Vec<_>, Vec<_>) = merged.into_iter().partition(|item| ordered.of(item).is_some());
    named.sort_by_cached_key(|item| ordered.of(item));
    others.sort_by_cached_key(|item| lived.of(item).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(named)) => match (lived.of(other), lived.of(named)) {
                (Some(other), Some(named)) => other < named,
                _ => false,
            },
        };
        out.extend(if other_first { others.next() } else { named.next() });
    }
}

/// Maps each list item to its index. Equal items share the index of the first of them.
pub(super) struct Places<'a> {
    key: Option<&'a str>,
    places: HashMap<Identity, usize>,
}

/// The identity of a list item: the value of its key field as printed by Go, or the whole item if the list has no key.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Identity {
    Key(String),
    Value(Json),
}

impl<'a> Places<'a> {
    pub(super) fn new(items: &[Json], key: Option<&'a str>) -> Self {
        let mut places = Self { key, places: HashMap::with_capacity(items.len()) };
        for (at, item) in items.iter().enumerate() {
            places.insert(item, at);
        }
        places
    }

    pub(super) fn of(&self, item: &Json) -> Option<usize> {
        self.places.get(&identity(item, self.key)?).copied()
    }

    /// Records an item's index. Returns `false` if an equal item has been recorded before.
    pub(super) fn insert(&mut self, item: &Json, at: usize) -> bool {
        let Some(identity) = identity(item, self.key) else { return true };
        match self.places.entry(identity) {
            Entry::Vacant(place) => {
                place.insert(at);
                true
            }
            Entry::Occupied(_) => false,
        }
    }
}

/// Returns the identity of a list item, or `None` if the key field is absent. An item without a key field is not equal
/// to any other item.
pub(super) fn identity(item: &Json, key: Option<&str>) -> Option<Identity> {
    Some(match key {
        Some(key) => Identity::Key(super::go_text(item.get(key)?)),
        None => Identity::Value(item.clone()),
    })
}
