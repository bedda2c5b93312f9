//! How far the parts of a store have come, where each has a source of its own.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::cache::version::{self, Revision};
use crate::namespaces::Place;

/// The parts of a store: one, or one for each of several namespaces.
///
/// The store is as far as the part that is furthest behind, and stays where it is while one has not been listed. So it has all changes up
/// to its revision, in every part.
#[derive(Default)]
pub(super) struct Parts {
    parts: BTreeMap<Place, Part>,
    /// They are not those any more that there were first.
    has_changed: bool,
}

struct Part {
    /// Empty before the first list.
    resource_version: String,
    has_listed: bool,
}

/// What tells how far a part has come.
#[derive(Clone, Copy)]
pub(super) enum Told<'a> {
    /// A list, which may go back.
    List(&'a str),
    Change(&'a str),
}

impl Parts {
    /// From now on there are these.
    pub(super) fn set(&mut self, places: &BTreeSet<Place>) {
        self.has_changed = !self.parts.is_empty();
        self.parts.retain(|place, _| places.contains(place));
        for place in places {
            let begun = || Part { resource_version: String::new(), has_listed: false };
            self.parts.entry(place.clone()).or_insert_with(begun);
        }
    }

    /// Takes up how far a part has come, and tells how far the store has.
    pub(super) fn reach(&mut self, place: &Place, told: Told<'_>) -> Revision {
        if let Some(part) = self.parts.get_mut(place) {
            match told {
                Told::List(told) => version::set(&mut part.resource_version, told),
                Told::Change(told) => version::advance(&mut part.resource_version, told),
            }
        }
        let (Told::List(told) | Told::Change(told)) = told;
        if self.parts.len() <= 1 {
            return told.into();
        }
        let newest = self.versions().filter(|version| !version.is_empty()).max_by(order).unwrap_or(told);
        Revision { whole: self.least(), newest: newest.into() }
    }

    /// How far the part is that is furthest behind. Empty as long as one has not been listed, or where there is none.
    pub(super) fn least(&self) -> String {
        let is_known = self.versions().all(|version| !version.is_empty());
        let least = if is_known { self.versions().min_by(order) } else { None };
        least.unwrap_or_default().to_owned()
    }

    fn versions(&self) -> impl Iterator<Item = &str> {
        self.parts.values().map(|part| part.resource_version.as_str())
    }

    /// Whether a part has come further than that.
    pub(super) fn is_ahead(&self, place: &Place, of: &str) -> bool {
        self.parts.get(place).is_some_and(|part| version::is_older(of, &part.resource_version))
    }

    /// Whether a list of that part is the first, so that it belongs to the beginning of all subscriptions: nobody was told of a state
    /// of it that was before.
    pub(super) fn is_first(&self, place: &Place) -> bool {
        !self.has_changed && self.parts.get(place).is_some_and(|part| !part.has_listed)
    }

    pub(super) fn listed(&mut self, place: &Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.has_listed = true;
        }
    }

    /// Whether all of these have been listed.
    pub(super) fn have_all_listed(&self, places: &BTreeSet<Place>) -> bool {
        places.iter().all(|place| self.parts.get(place).is_some_and(|part| part.has_listed))
    }

    /// Whether all that there are have been listed.
    pub(super) fn have_listed(&self) -> bool {
        self.parts.values().all(|part| part.has_listed)
    }
}

fn order(one: &&str, other: &&str) -> Ordering {
    version::compare(one, other).unwrap_or(Ordering::Equal)
}
