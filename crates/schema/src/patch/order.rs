//! Determines the order of list items after a strategic merge patch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pintle_json::Json;

/// The length up to which Go's `sort.SliceStable` is an insertion sort.
const INSERTION_SORTED: usize = 20;

/// Orders the merged items by interleaving two sequences without reordering either of them. The first sequence contains
/// the items that the patch or its `$setElementOrder` lists. The second sequence contains the items that the patch does
/// not list. Let `a` and `b` be the first remaining items of the sequences. The next item is `b` if `b` comes before
/// `a` in the live list, and `a` otherwise.
pub(super) fn arrange(merged: Vec<Json>, order: &[Json], live: &[Json], key: Option<&str>) -> Vec<Json> {
    let (ordered, lived) = (Places::new(order, key), Places::new(live, key));
    let (mut named, mut others): (Vec<_>, Vec<_>) = merged.into_iter().partition(|item| ordered.of(item).is_some());
    named.sort_by_cached_key(|item| ordered.of(item));
    sort_like_go(&mut others, &lived);
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

/// Sorts the items by their recorded indices. kube-apiserver compares an item without an index as less than every item
/// before it. As a result, Go's insertion sort reverses the order of items without an index. In long lists, the items
/// without an index come last.
fn sort_like_go(items: &mut [Json], places: &Places<'_>) {
    if items.len() > INSERTION_SORTED || items.iter().all(|item| places.of(item).is_some()) {
        items.sort_by_cached_key(|item| places.of(item).unwrap_or(usize::MAX));
        return;
    }
    let is_less = |item: &Json, before: &Json| match (places.of(item), places.of(before)) {
        (Some(item), Some(before)) => item < before,
        _ => true,
    };
    for end in 1..items.len() {
        let moved = (1..=end).rev().take_while(|&at| is_less(&items[end], &items[at - 1])).count();
        items[end - moved..=end].rotate_right(1);
    }
}

/// Maps each list item to its index. Equal items share the index of the first of them.
pub(super) struct Places<'a> {
    key: Option<&'a str>,
    places: HashMap<&'a Json, usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(items: &'a [Json], key: Option<&'a str>) -> Self {
        let mut places = Self { key, places: HashMap::with_capacity(items.len()) };
        for (at, item) in items.iter().enumerate() {
            places.insert(item, at);
        }
        places
    }

    pub(super) fn of(&self, item: &Json) -> Option<usize> {
        self.places.get(identity(item, self.key)?).copied()
    }

    /// Records an item's index. Returns `false` if an equal item has been recorded before.
    pub(super) fn insert(&mut self, item: &'a Json, at: usize) -> bool {
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

/// Returns the value that identifies a list item: the value of its key field, or the whole item if the list has no key.
/// Returns `None` if the key field is absent. An item without a key field is not equal to any other item.
fn identity<'a>(item: &'a Json, key: Option<&str>) -> Option<&'a Json> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}
