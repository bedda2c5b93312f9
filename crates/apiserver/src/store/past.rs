//! A resource as an earlier revision left it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use super::table::Table;
use super::{Key, Stored};

/// A run of keys: all that begin with `prefix`, from `start` on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Range {
    prefix: String,
    start: String,
}

impl Range {
    /// All keys of a namespace; of the whole resource, if there is none.
    pub(crate) fn namespace(namespace: Option<&str>) -> Self {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        Self { start: prefix.clone(), prefix }
    }

    /// The same keys, but none below `start`, which is relative to the prefix.
    pub(crate) fn starting_at(mut self, start: &str) -> Self {
        self.start = format!("{}{start}", self.prefix);
        self
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn start(&self) -> &str {
        &self.start
    }
}

/// A resource as `revision` left it: what is there now, with every later change undone.
#[derive(Debug)]
pub(crate) struct Past<'a> {
    table: Option<&'a Table>,
    /// What stood at the keys that were written since; `None` where nothing did.
    undone: BTreeMap<&'a str, (&'a Key, Option<&'a Arc<Stored>>)>,
}

impl<'a> Past<'a> {
    pub(super) fn new(table: Option<&'a Table>, revision: u64) -> Self {
        let mut undone = BTreeMap::new();
        for change in table.into_iter().flat_map(|table| table.since(revision)) {
            if let Entry::Vacant(entry) = undone.entry(&*change.key) {
                entry.insert((&change.key, change.old.as_ref()));
            }
        }
        Self { table, undone }
    }

    /// The object of that key.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Arc<Stored>> {
        match self.undone.get(key) {
            Some((_, object)) => *object,
            None => self.table?.get(key),
        }
    }

    /// The objects of `range`, in the order of their keys.
    pub(crate) fn range(&self, range: &Range) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
        let prefix = range.prefix().to_owned();
        let undone = self
            .undone
            .range::<str, _>((Bound::Included(range.start()), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(&prefix))
            .map(|(_, &(key, object))| (key, object));
        let present =
            self.table.into_iter().flat_map(|table| table.range(range)).map(|(key, object)| (key, Some(object)));
        Merge { over: undone.peekable(), under: present.peekable() }
            .filter_map(|(key, object)| object.map(|object| (key, object)))
    }
}

/// Two runs in key order as one; where both have a key, `over` wins.
struct Merge<A: Iterator, B: Iterator> {
    over: Peekable<A>,
    under: Peekable<B>,
}

type Slot<'a> = (&'a Key, Option<&'a Arc<Stored>>);

impl<'a, A: Iterator<Item = Slot<'a>>, B: Iterator<Item = Slot<'a>>> Iterator for Merge<A, B> {
    type Item = Slot<'a>;

    fn next(&mut self) -> Option<Slot<'a>> {
        let (Some((over, _)), Some((under, _))) = (self.over.peek(), self.under.peek()) else {
            return self.over.next().or_else(|| self.under.next());
        };
        match over.cmp(under) {
            std::cmp::Ordering::Less => self.over.next(),
            std::cmp::Ordering::Greater => self.under.next(),
            std::cmp::Ordering::Equal => {
                self.under.next();
                self.over.next()
            }
        }
    }
}
