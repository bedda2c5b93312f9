//! The followers of one resource, grouped by scope.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;

use crate::Change;

/// The objects whose changes a feed returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedScope {
    All,
    Namespace(String),
    /// The object with this key.
    Object(String),
    /// All objects whose selectable field with the index `at` has this value before or after the change.
    Field {
        at: usize,
        value: String,
    },
}

impl FeedScope {
    pub(super) fn contains(&self, change: &Change) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => namespace_of(&change.key) == Some(namespace),
            Self::Object(object) => **object == *change.key,
            Self::Field { at, value } => values_of(change, *at).any(|found| found == value),
        }
    }
}

fn namespace_of(key: &str) -> Option<&str> {
    key.split_once('/').map(|(namespace, _)| namespace)
}

/// Returns the new value of a field, and the old value if the change modified the field.
fn values_of(change: &Change, at: usize) -> impl Iterator<Item = &str> {
    let new = change.new.kept_field(at);
    let old = change.old.as_ref().and_then(|old| old.kept_field(at));
    new.into_iter().chain(old.filter(|_| old != new))
}

/// The followers of one resource, grouped by scope. Notifying the followers of one scope takes the same time regardless
/// of the followers of other scopes.
#[derive(Debug, Default)]
pub(super) struct Followers {
    all: Option<RecentChanges>,
    namespaces: HashMap<String, RecentChanges>,
    objects: HashMap<String, RecentChanges>,
    /// The followers of each field value, by field index and value.
    fields: HashMap<usize, HashMap<String, RecentChanges>>,
    /// If the number of scopes reaches this threshold, the next insertion first removes all scopes without followers.
    sweep_at: usize,
}

#[derive(Debug)]
struct RecentChanges {
    revisions: VecDeque<u64>,
    /// The last revision that has been removed from `revisions`. All later revisions of the scope are still in
    /// `revisions`.
    dropped: u64,
    last: watch::Sender<u64>,
}

impl RecentChanges {
    fn new(now: u64) -> Self {
        Self { revisions: VecDeque::new(), dropped: now, last: watch::Sender::new(now) }
    }

    fn add(&mut self, revision: u64, max: usize) {
        self.revisions.push_back(revision);
        while self.revisions.len() > max {
            self.dropped = self.revisions.pop_front().unwrap_or(self.dropped);
        }
        self.last.send_replace(revision);
    }

    /// Returns the changes after `revision`, or `None` if some of these changes were dropped.
    fn since(&self, revision: u64) -> Option<impl Iterator<Item = u64>> {
        let first = self.revisions.partition_point(|change| *change <= revision);
        (revision >= self.dropped).then(|| self.revisions.range(first..).copied())
    }
}

impl Followers {
    /// Adds a follower of `scope`. Returns a receiver for the revision of each change after `now`. Dropping the
    /// receiver removes the follower.
    pub(super) fn follow(&mut self, scope: &FeedScope, now: u64) -> watch::Receiver<u64> {
        if self.parts() >= self.sweep_at {
            let places = [&mut self.namespaces, &mut self.objects].into_iter().chain(self.fields.values_mut());
            places.for_each(|recent| recent.retain(|_, recent| recent.last.receiver_count() > 0));
            self.sweep_at = 64 + 2 * self.parts();
        }
        let recent = match scope {
            FeedScope::All => self.all.get_or_insert_with(|| RecentChanges::new(now)),
            FeedScope::Namespace(name) => {
                self.namespaces.entry(name.clone()).or_insert_with(|| RecentChanges::new(now))
            }
            FeedScope::Object(key) => self.objects.entry(key.clone()).or_insert_with(|| RecentChanges::new(now)),
            FeedScope::Field { at, value } => {
                let values = self.fields.entry(*at).or_default();
                values.entry(value.clone()).or_insert_with(|| RecentChanges::new(now))
            }
        };
        recent.last.subscribe()
    }

    pub(super) fn wake(&self) {
        self.scopes().for_each(|(_, recent)| recent.last.send_modify(|_| ()));
    }

    /// Returns the approximate memory use of all scopes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let size = |(name, recent): (&str, &RecentChanges)| {
            size_of::<RecentChanges>() + name.len() + recent.revisions.len() * size_of::<u64>()
        };
        self.scopes().map(size).sum()
    }

    fn scopes(&self) -> impl Iterator<Item = (&str, &RecentChanges)> {
        let fields = self.fields.values().flatten();
        let named = self.namespaces.iter().chain(&self.objects).chain(fields);
        self.all.iter().map(|recent| ("", recent)).chain(named.map(|(name, recent)| (&**name, recent)))
    }

    fn parts(&self) -> usize {
        self.namespaces.len() + self.objects.len() + self.fields.values().map(HashMap::len).sum::<usize>()
    }

    /// Notifies the followers of all scopes that contain the change. Each scope keeps at most `max` revisions.
    pub(super) fn notify(&mut self, change: &Change, max: usize) {
        let namespace = namespace_of(&change.key).and_then(|namespace| self.namespaces.get_mut(namespace));
        let object = self.objects.get_mut(&*change.key);
        for recent in self.all.iter_mut().chain(namespace).chain(object) {
            recent.add(change.revision(), max);
        }
        for (at, values) in &mut self.fields {
            for value in values_of(change, *at) {
                if let Some(recent) = values.get_mut(value) {
                    recent.add(change.revision(), max);
                }
            }
        }
    }

    pub(super) fn since(&self, scope: &FeedScope, revision: u64) -> Option<impl Iterator<Item = u64>> {
        let recent = match scope {
            FeedScope::All => self.all.as_ref(),
            FeedScope::Namespace(name) => self.namespaces.get(name),
            FeedScope::Object(key) => self.objects.get(key),
            FeedScope::Field { at, value } => self.fields.get(at)?.get(value),
        };
        recent?.since(revision)
    }
}
