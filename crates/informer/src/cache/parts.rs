//! The progress of the parts of a store, each of which has its own source.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::version::{self, Revision};
use crate::Namespaces;
use crate::namespaces::{Followed, Place};
use crate::selection::Selection;

/// The parts of a store: a single one, or one for each of several namespaces.
///
/// The revision of the store is the lowest revision of its parts, and does not move until all parts have been
/// listed. So the store has all changes up to its revision in every part.
#[derive(Default)]
pub(crate) struct Parts {
    parts: BTreeMap<Place, Part>,
    /// The choice of namespaces that determines the parts. `None` before the first one.
    choice: Option<u64>,
    /// The set of parts has changed since the first one.
    has_changed: bool,
    /// The newest revision that any part has seen, including removed parts, but excluding an earlier history.
    newest: String,
    /// `None` for a cache without an informer.
    demand: Option<Demand>,
}

/// The current request of the users, which may change.
pub(crate) struct Demand {
    /// `None` for a single source.
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) selection: Arc<Selection>,
}

struct Part {
    /// The revision up to which the source has sent everything. Empty before the first list.
    revision: String,
    /// The revision up to which the store has everything.
    reached: String,
    /// The choice of selectors of the last list.
    listed: Option<u64>,
}

/// Progress of a source.
#[derive(Clone, Copy)]
pub(crate) enum Progress<'a> {
    /// A list, whose revision may be lower than the last one.
    List(&'a str),
    Change(&'a str),
}

impl Parts {
    pub(crate) fn new(demand: Demand) -> Self {
        Self { demand: Some(demand), ..Self::default() }
    }

    /// Sets the parts. The objects of removed parts have been deleted from the store.
    pub(crate) fn follow(&mut self, followed: &Followed) {
        let places = followed.places();
        self.choice = Some(followed.choice);
        self.has_changed = !self.parts.is_empty();
        self.parts.retain(|place, _| places.contains(place));
        for place in places {
            let new_part = || Part { revision: String::new(), reached: String::new(), listed: None };
            self.parts.entry(place).or_insert_with(new_part);
        }
    }

    /// Records the progress of a part's source, and returns the revision that the store has after storing it.
    pub(crate) fn reach(&mut self, place: &Place, revision: Progress<'_>) -> Revision {
        if let Some(part) = self.parts.get_mut(place) {
            match revision {
                Progress::List(revision) if version::is_older(revision, &part.revision) => {
                    version::set(&mut part.revision, revision);
                    self.newest = self.greatest().into();
                }
                Progress::List(revision) => {
                    version::set(&mut part.revision, revision);
                    version::advance(&mut self.newest, revision);
                }
                Progress::Change(revision) => {
                    version::advance(&mut part.revision, revision);
                    version::advance(&mut self.newest, revision);
                }
            }
        }
        let (Progress::List(revision) | Progress::Change(revision)) = revision;
        if self.parts.len() <= 1 {
            return revision.into();
        }
        let newest = Some(self.greatest()).filter(|newest| !newest.is_empty()).unwrap_or(revision);
        Revision { whole: self.least(), newest: newest.into() }
    }

    /// Returns the minimum revision for a new source. Empty if nothing was received yet.
    pub(crate) fn newest(&self) -> &str {
        &self.newest
    }

    /// The store has everything that the source of a part has sent.
    pub(crate) fn stored(&mut self, place: &Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.reached.clone_from(&part.revision);
        }
    }

    /// Returns the revision up to which the store has all objects of a namespace, if it differs from the revision of the store.
    /// Empty before the namespace was listed.
    pub(super) fn reached(&self, namespace: Option<&str>) -> Option<&str> {
        let part = self.parts.get(&None).or_else(|| self.parts.get(&namespace.map(Arc::from)))?;
        (self.parts.len() > 1 || part.listed.is_none()).then_some(&part.reached)
    }

    /// Returns the revision of the part that is furthest behind. Empty if a part was not listed or there are no parts.
    pub(crate) fn least(&self) -> String {
        let is_known = self.versions().all(|version| !version.is_empty());
        let least = if is_known { self.versions().min_by(order) } else { None };
        least.unwrap_or_default().to_owned()
    }

    /// Returns the revision of the part that is furthest ahead. Empty if no part was listed.
    fn greatest(&self) -> &str {
        self.versions().filter(|version| !version.is_empty()).max_by(order).unwrap_or_default()
    }

    fn versions(&self) -> impl Iterator<Item = &str> {
        self.parts.values().map(|part| part.revision.as_str())
    }

    /// Whether a part has a newer revision than `of`.
    pub(crate) fn is_ahead(&self, place: &Place, of: &str) -> bool {
        self.parts.get(place).is_some_and(|part| version::is_older(of, &part.revision))
    }

    /// Whether a list of the part is the first one, so that its objects are initial objects of all subscriptions.
    pub(crate) fn is_first(&self, place: &Place) -> bool {
        !self.has_changed && self.parts.get(place).is_some_and(|part| part.listed.is_none())
    }

    /// The store has a list of the part with that choice of selectors.
    pub(crate) fn listed(&mut self, place: &Place, choice: u64) {
        self.stored(place);
        if let Some(part) = self.parts.get_mut(place) {
            part.listed = Some(choice);
        }
    }

    /// Whether all parts have been listed.
    pub(crate) fn have_listed(&self) -> bool {
        self.parts.values().all(|part| part.listed.is_some())
    }

    /// Whether the parts match the current request and all have been listed for it.
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
