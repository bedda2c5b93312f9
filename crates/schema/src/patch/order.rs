//! The order of a list that a strategic merge patch has changed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pintle_json::Json;

/// The items of `merged`, which are those of the patch (or of its `$setElementOrder`), in its order, and those of the live list
/// alone, in the live order, made one: a live item goes first only if both heads were live and it came first there.
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

/// Where items stand in a list: the first of those that are one.
pub(super) struct Places<'a> {
    key: Option<&'a str>,
    places: HashMap<Identity, usize>,
}

/// What makes items one: their key as Go prints it, or their value where there is none.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Identity {
    Key(String),
    Value(Json),
}

impl<'a> Places<'a> {
    pub(super) fn new(items: &[Json], key: Option<&'a str>) -> Self {
        let mut places = Self { key, places: HashMap::with_capacity(items.len()) };
        for (at, item) in items.iter().enumerate() {
            places.note(item, at);
        }
        places
    }

    pub(super) fn of(&self, item: &Json) -> Option<usize> {
        self.places.get(&identity(item, self.key)?).copied()
    }

    /// Notes where an item stands; false if one like it has been noted.
    pub(super) fn note(&mut self, item: &Json, at: usize) -> bool {
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

/// None for an item that lacks its key: it is like no other.
pub(super) fn identity(item: &Json, key: Option<&str>) -> Option<Identity> {
    Some(match key {
        Some(key) => Identity::Key(super::go_text(item.get(key)?)),
        None => Identity::Value(item.clone()),
    })
}
