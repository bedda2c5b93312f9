//! How far the parts of a store have come, where each has a source of its own.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::version::{self, Revision};
use crate::Namespaces;
use crate::namespaces::{Followed, Place};
use crate::selection::Selection;

/// The parts of a store: one, or one for each of several namespaces.
///
/// The store is as far as the part that is furthest behind, and stays where it is while one has not been listed. So it has all changes up
/// to its revision, in every part.
#[derive(Default)]
pub(crate) struct Parts {
    parts: BTreeMap<Place, Part>,
    /// The choice of namespaces that they are. None: none yet.
    choice: Option<u64>,
    /// They are not those any more that there were first.
    has_changed: bool,
    /// The newest that any of them has told, be it one that is not there any more; but not of a history that has ended.
    newest: String,
    /// None: nobody fills it but who has it in hand.
    demand: Option<Demand>,
}

/// What is asked for now, which may change.
pub(crate) struct Demand {
    /// None: what its one source has.
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) selection: Arc<Selection>,
}

struct Part {
    /// Up to where its source has told all. Empty before the first list.
    told: String,
    /// Up to where the store has all.
    reached: String,
    /// By which choice of selectors it was listed last.
    listed: Option<u64>,
}

/// What tells how far a part has come.
#[derive(Clone, Copy)]
pub(crate) enum Told<'a> {
    /// A list, which may go back.
    List(&'a str),
    Change(&'a str),
}

impl Parts {
    pub(crate) fn new(demand: Demand) -> Self {
        Self { demand: Some(demand), ..Self::default() }
    }

    /// From now on there are these. What was followed before and is no more has been taken out of the store.
    pub(crate) fn follow(&mut self, followed: &Followed) {
        let places = followed.places();
        self.choice = Some(followed.choice);
        self.has_changed = !self.parts.is_empty();
        self.parts.retain(|place, _| places.contains(place));
        for place in places {
            let begun = || Part { told: String::new(), reached: String::new(), listed: None };
            self.parts.entry(place).or_insert_with(begun);
        }
    }

    /// Takes up how far the source of a part has come, and tells how far the store is with that.
    pub(crate) fn reach(&mut self, place: &Place, told: Told<'_>) -> Revision {
        if let Some(part) = self.parts.get_mut(place) {
            match told {
                Told::List(told) if version::is_older(told, &part.told) => {
                    version::set(&mut part.told, told);
                    self.newest = self.greatest().into();
                }
                Told::List(told) => {
                    version::set(&mut part.told, told);
                    version::advance(&mut self.newest, told);
                }
                Told::Change(told) => {
                    version::advance(&mut part.told, told);
                    version::advance(&mut self.newest, told);
                }
            }
        }
        let (Told::List(told) | Told::Change(told)) = told;
        if self.parts.len() <= 1 {
            return told.into();
        }
        let newest = Some(self.greatest()).filter(|newest| !newest.is_empty()).unwrap_or(told);
        Revision { whole: self.least(), newest: newest.into() }
    }

    /// What a source that is asked from now on should not be behind. Empty: nobody has told anything.
    pub(crate) fn newest(&self) -> &str {
        &self.newest
    }

    /// The store has what the source of a part has told.
    pub(crate) fn stored(&mut self, place: &Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.reached.clone_from(&part.told);
        }
    }

    /// Up to where the store has all of a namespace, if that is another revision than its own. Empty as long as it has not been listed.
    pub(super) fn reached(&self, namespace: Option<&str>) -> Option<&str> {
        let part = self.parts.get(&None).or_else(|| self.parts.get(&namespace.map(Arc::from)))?;
        (self.parts.len() > 1 || part.listed.is_none()).then_some(&part.reached)
    }

    /// How far the part is that is furthest behind. Empty as long as one has not been listed, or where there is none.
    pub(crate) fn least(&self) -> String {
        let is_known = self.versions().all(|version| !version.is_empty());
        let least = if is_known { self.versions().min_by(order) } else { None };
        least.unwrap_or_default().to_owned()
    }

    /// How far the part is that is furthest ahead. Empty: none has been listed.
    fn greatest(&self) -> &str {
        self.versions().filter(|version| !version.is_empty()).max_by(order).unwrap_or_default()
    }

    fn versions(&self) -> impl Iterator<Item = &str> {
        self.parts.values().map(|part| part.told.as_str())
    }

    /// Whether a part has come further than that.
    pub(crate) fn is_ahead(&self, place: &Place, of: &str) -> bool {
        self.parts.get(place).is_some_and(|part| version::is_older(of, &part.told))
    }

    /// Whether a list of that part is the first, so that it belongs to the beginning of all subscriptions: nobody was told of a state
    /// of it that was before.
    pub(crate) fn is_first(&self, place: &Place) -> bool {
        !self.has_changed && self.parts.get(place).is_some_and(|part| part.listed.is_none())
    }

    /// The store has a list of that part, by that choice of selectors.
    pub(crate) fn listed(&mut self, place: &Place, choice: u64) {
        self.stored(place);
        if let Some(part) = self.parts.get_mut(place) {
            part.listed = Some(choice);
        }
    }

    /// Whether all that there are have been listed.
    pub(crate) fn have_listed(&self) -> bool {
        self.parts.values().all(|part| part.listed.is_some())
    }

    /// Whether they are what is asked for now, and all have been listed since.
    pub(super) fn have_all(&self) -> bool {
        let Some(Demand { namespaces, selection }) = &self.demand else { return true };
        let is_chosen = self.choice == Some(namespaces.as_ref().map_or(0, Namespaces::choice));
        let choice = selection.choice();
        is_chosen && self.parts.values().all(|part| part.listed == Some(choice))
    }
}

fn order(one: &&str, other: &&str) -> Ordering {
    version::compare(one, other).unwrap_or(Ordering::Equal)
}
