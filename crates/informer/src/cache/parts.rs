//! Tracks the progress of each part of a store, for example of each watched namespace. Each part has its own list and
//! watch.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::namespaces::{Followed, Namespaces, Place};
use crate::selection::Selection;
use crate::version;

/// The parts of a store. An informer of several namespaces has one part for each namespace. An informer that watches
/// one namespace or all namespaces has a single part.
///
/// The store's revision is the lowest revision of its parts. Until all parts have been listed, the store's revision is
/// empty. The store therefore contains all changes of every part up to the store's revision.
#[derive(Default)]
pub(crate) struct Parts {
    parts: BTreeMap<Place, Part>,
    /// The number of times the [`Namespaces`] had changed when the parts were last set, or `None` if the parts have not
    /// been set yet.
    choice: Option<u64>,
    has_changed: bool,
    /// The newest revision that any part has reached, including removed parts. The newest revision decreases only if a
    /// list returns an older revision.
    newest: String,
    demand: Option<Demand>,
}

pub(crate) struct Demand {
    /// The requested namespaces, or `None` if the informer was created without a set of namespaces.
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) selection: Arc<Selection>,
}

struct Part {
    revision: String,
    reached: String,
    /// The number of times the selectors had changed when the last list began, or `None` before the first list.
    listed: Option<u64>,
}

#[derive(Clone, Copy)]
pub(crate) enum Progress<'a> {
    /// The revision of a list, which may be lower than the revision of the previous list.
    List(&'a str),
    Change(&'a str),
}

impl Parts {
    pub(crate) fn new(demand: Demand) -> Self {
        Self { demand: Some(demand), ..Self::default() }
    }

    /// Sets the parts. The caller must delete the objects of removed parts from the store first.
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

    /// Records a list or change that the source of a part has delivered. Returns the revision that the store reaches
    /// when the caller stores the list or change.
    pub(crate) fn reach(&mut self, place: &Place, revision: Progress<'_>) -> String {
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
        if self.parts.len() <= 1 { revision.into() } else { self.least() }
    }

    /// Returns the newest revision that any part has reached, or an empty string before the first list. A new source
    /// must not start from a state older than this revision.
    pub(crate) fn newest(&self) -> &str {
        &self.newest
    }

    pub(crate) fn stored(&mut self, place: &Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.reached.clone_from(&part.revision);
        }
    }

    /// Returns the revision up to which the store contains all changes in `namespace`. The revision is empty if the
    /// namespace has not been listed yet. Returns `None` if the store does not watch the namespace, or if it has a
    /// single listed part and therefore a single revision.
    pub(super) fn reached(&self, namespace: Option<&str>) -> Option<&str> {
        let part = self.parts.get(&None).or_else(|| self.parts.get(&namespace.map(Arc::from)))?;
        (self.parts.len() > 1 || part.listed.is_none()).then_some(&part.reached)
    }

    /// Returns the oldest revision of any part. Returns an empty revision if a part has not been listed yet, or if
    /// there are no parts.
    pub(crate) fn least(&self) -> String {
        let is_known = self.versions().all(|version| !version.is_empty());
        let least = if is_known { self.versions().min_by(order) } else { None };
        least.unwrap_or_default().to_owned()
    }

    /// Returns the newest revision of any part. Returns an empty revision if no part has been listed yet.
    fn greatest(&self) -> &str {
        self.versions().filter(|version| !version.is_empty()).max_by(order).unwrap_or_default()
    }

    fn versions(&self) -> impl Iterator<Item = &str> {
        self.parts.values().map(|part| part.revision.as_str())
    }

    pub(crate) fn is_ahead(&self, place: &Place, of: &str) -> bool {
        self.parts.get(place).is_some_and(|part| version::is_older(of, &part.revision))
    }

    /// Returns `true` if subscribers receive the objects of the part's next list as initial objects.
    pub(crate) fn is_first(&self, place: &Place) -> bool {
        !self.has_changed && self.parts.get(place).is_some_and(|part| part.listed.is_none())
    }

    /// Records that the store contains a complete list of a part. `choice` is the number of times the selectors had
    /// changed when the list began.
    pub(crate) fn listed(&mut self, place: &Place, choice: u64) {
        self.stored(place);
        if let Some(part) = self.parts.get_mut(place) {
            part.listed = Some(choice);
        }
    }

    pub(crate) fn have_listed(&self) -> bool {
        self.parts.values().all(|part| part.listed.is_some())
    }

    /// Returns `true` if the parts match the requested namespaces, and all parts were listed with the requested
    /// selectors.
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
