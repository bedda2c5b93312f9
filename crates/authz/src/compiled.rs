//! An in-memory index of stored objects, which is updated after changes to the store.

use pintle_meta::__private::RwLock;
use pintle_storage::{ChangeKind, Changes, Db, Lagged, Range, Stored};

pub(super) trait Index: Default {
    const RESOURCES: &'static [&'static str];

    fn put(&mut self, resource: &str, key: &str, stored: &Stored);

    fn remove(&mut self, resource: &str, key: &str);
}

/// An index of one store. Each query first applies the pending changes, so its result includes all earlier writes. The
/// cost of an update depends only on the number of changed objects.
#[derive(Debug, Default)]
pub(super) struct Compiled<I>(RwLock<CompiledState<I>>);

#[derive(Debug, Default)]
struct CompiledState<I> {
    index: I,
    /// The store changes that have not been applied yet, or `None` before the first query. The number of pending
    /// changes is limited.
    changes: Option<Changes>,
}

impl<I: Index> Compiled<I> {
    /// Runs a query on the index of `db`. All calls of `query` must pass the same `db`. The index is locked while
    /// `query` runs. Therefore, `query` should only look up objects, and the caller should process them afterwards.
    pub(super) fn query<R>(&self, db: &Db, query: impl FnOnce(&I) -> R) -> R {
        let state = self.0.read();
        if state.changes.as_ref().is_some_and(Changes::is_empty) {
            return query(&state.index);
        }
        drop(state);
        let mut state = self.0.write();
        state.catch_up(db);
        query(&state.index)
    }
}

impl<I: Index> CompiledState<I> {
    fn catch_up(&mut self, db: &Db) {
        let Some(changes) = &mut self.changes else {
            self.changes = Some(db.follow_all(Some(I::RESOURCES)));
            return self.rebuild(db);
        };
        while let Some(next) = changes.try_next() {
            match next {
                Ok(change) if change.kind == ChangeKind::Deleted => self.index.remove(change.resource(), &change.key),
                Ok(change) => self.index.put(change.resource(), &change.key, &change.new),
                Err(Lagged) => return self.rebuild(db),
            }
        }
    }

    /// Builds the index from all objects. An object that is written during this call may also be a pending change, and
    /// indexed again later. Indexing an object twice has no effect.
    fn rebuild(&mut self, db: &Db) {
        self.index = I::default();
        for resource in I::RESOURCES {
            for (key, stored) in db.objects_of(resource, &Range::namespace(None)) {
                self.index.put(resource, &key, &stored);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use pintle_apimachinery::clock::Clock;
    use pintle_json::Json;
    use pintle_storage::{Draft, History, Order};

    use super::*;

    pub(crate) fn db() -> Db {
        let draft = |interner: &_, _: &str, object: &Json| Draft::new(interner, object, Order::Declared, Vec::new());
        Db::new(1, History::default(), draft, Arc::new(Clock::new(None)))
    }
}
