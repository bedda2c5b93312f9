//! What is stored, compiled for those who ask with each request, as far as the store has come.

use std::sync::{PoisonError, RwLock};

use crate::store::{ChangeKind, Changes, Db, Lagged, Range, Stored};

/// What is made of objects to be asked.
pub(super) trait Index: Default {
    /// Under which names they are stored: a change of anything else leaves it as it is.
    const OF: &'static [&'static str];

    /// Takes up an object as it is now.
    fn put(&mut self, resource: &str, key: &str, stored: &Stored);

    fn remove(&mut self, resource: &str, key: &str);
}

/// The index of one store. A change costs what it is itself, and is taken up with the next question: who asks sees whatever was written
/// before.
#[derive(Debug, Default)]
pub(super) struct Compiled<I>(RwLock<CompiledState<I>>);

#[derive(Debug, Default)]
struct CompiledState<I> {
    index: I,
    /// What is yet to be taken up; none before the first question. However long nobody asks, it is bounded.
    changes: Option<Changes>,
}

impl<I: Index> Compiled<I> {
    /// Asks the index of `db`, which is always the same. The lock is held for look-ups alone; who looks into what it finds has that
    /// without it.
    pub(super) fn ask<R>(&self, db: &Db, question: impl FnOnce(&I) -> R) -> R {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if state.changes.as_ref().is_some_and(Changes::is_empty) {
            return question(&state.index);
        }
        drop(state);
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        state.catch_up(db);
        question(&state.index)
    }
}

impl<I: Index> CompiledState<I> {
    fn catch_up(&mut self, db: &Db) {
        let Some(changes) = &mut self.changes else {
            self.changes = Some(db.follow_all(Some(I::OF)));
            return self.begin(db);
        };
        while let Some(next) = changes.try_next() {
            match next {
                Ok(change) if change.kind == ChangeKind::Deleted => self.index.remove(change.resource(), &change.key),
                Ok(change) => self.index.put(change.resource(), &change.key, &change.new),
                Err(Lagged) => return self.begin(db),
            }
        }
    }

    /// Compiles what is there. What is written from now on is among the changes, and what was so meanwhile too, which is no harm.
    fn begin(&mut self, db: &Db) {
        self.index = I::default();
        for resource in I::OF {
            for (key, stored) in db.objects_of(resource, &Range::namespace(None)) {
                self.index.put(resource, &key, &stored);
            }
        }
    }
}
