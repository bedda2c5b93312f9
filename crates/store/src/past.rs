//! A resource as an earlier revision left it.

use std::sync::Arc;

use super::StoreChange;
use super::objects::Objects;

/// A run of keys: those that begin with `prefix`, from `start` on and before `end`.
#[derive(Clone, Debug, Default)]
pub struct KeyRange {
    prefix: String,
    start: String,
    end: Option<String>,
}

impl KeyRange {
    /// All keys of a namespace; of the whole resource, if there is none.
    pub fn namespace(namespace: Option<&str>) -> Self {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        // What follows a slash.
        let end = namespace.map(|namespace| format!("{namespace}0"));
        Self { start: prefix.clone(), prefix, end }
    }

    /// The key of one object; `namespace` is empty in cluster scope.
    pub fn object(namespace: &str, name: &str) -> Self {
        let range = Self::namespace((!namespace.is_empty()).then_some(namespace));
        let start = format!("{}{name}", range.prefix);
        Self { end: Some(format!("{start}\0")), start, ..range }
    }

    /// The same keys, but none below `start`, which is relative to the prefix.
    pub fn starting_at(mut self, start: &str) -> Self {
        self.start = format!("{}{start}", self.prefix);
        self
    }

    /// That with which all of them begin.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The first key that there may be.
    pub fn start(&self) -> &str {
        &self.start
    }

    /// Leaves out the keys up to that one.
    pub fn start_after(&mut self, key: &str) {
        self.start = format!("{key}\0");
    }

    /// The first key behind all of them; none if they go on to the last.
    pub(super) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }
}

/// What a resource was at an earlier revision: what was there later, and the changes in between.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) later: Objects,
    pub(super) since: Vec<Arc<StoreChange>>,
}

impl Past {
    /// The objects of that time: those that were there later, with every change in between undone.
    pub fn objects(self) -> Objects {
        let mut objects = self.later;
        for change in self.since.iter().rev() {
            match &change.old {
                Some(old) => drop(objects.insert(&change.key, old.clone())),
                None => drop(objects.remove(&change.key)),
            }
        }
        objects
    }
}
