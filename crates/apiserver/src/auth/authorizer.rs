//! The rules that are stored, compiled, as far as the store has come.

mod index;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::broadcast::error::TryRecvError;

use index::RuleIndex;
pub(super) use index::{Grant, Granted, IndexedRole, PolicyRule, has};
#[cfg(test)]
pub(super) use tests::db_of;

use crate::request::user::User;
use crate::store::{Changes, Db, Range};

/// What the index is made of: a change of anything else leaves it as it is.
const INDEXED_RESOURCES: &[&str] = &[
    "clusterroles.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];

/// The rules of one store, compiled. A change costs what it is itself, and is taken up with the next question: who asks sees whatever was
/// written before.
#[derive(Debug, Default)]
pub(crate) struct Authorizer(RwLock<Compiled>);

#[derive(Debug, Default)]
struct Compiled {
    index: RuleIndex,
    /// What is yet to be taken up; none before the first question, which many servers are never asked: all their users are
    /// administrators.
    changes: Option<Changes>,
}

/// Rules that can be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rbac<'a> {
    authorizer: &'a Authorizer,
    db: &'a Db,
}

impl Authorizer {
    /// The rules as `db`, which is always the same, has them now.
    pub(crate) fn rules_in<'a>(&'a self, db: &'a Db) -> Rbac<'a> {
        Rbac { authorizer: self, db }
    }
}

impl Rbac<'_> {
    /// What holds for the user in a namespace, or in none.
    pub(super) fn granted(&self, user: &User, namespace: &str) -> Granted {
        self.ask(|index| index.granted(user, namespace))
    }

    /// A role of that namespace; without one, a role of the cluster.
    pub(super) fn role(&self, namespace: &str, name: &str) -> Option<Arc<IndexedRole>> {
        self.ask(|index| index.role(namespace, name).cloned())
    }

    /// The lock is held for look-ups alone; who looks into rules has them without it.
    fn ask<R>(&self, question: impl FnOnce(&RuleIndex) -> R) -> R {
        let compiled = self.authorizer.0.read().unwrap_or_else(PoisonError::into_inner);
        if compiled.changes.as_ref().is_some_and(Changes::is_empty) {
            return question(&compiled.index);
        }
        drop(compiled);
        let mut compiled = self.authorizer.0.write().unwrap_or_else(PoisonError::into_inner);
        compiled.catch_up(self.db);
        question(&compiled.index)
    }
}

impl Compiled {
    fn catch_up(&mut self, db: &Db) {
        loop {
            match self.changes.as_mut().map(Changes::try_recv) {
                Some(Ok(change)) => self.index.take_up(&change),
                // Nothing tells any more where the store is gone, and with it who could ask.
                Some(Err(TryRecvError::Empty | TryRecvError::Closed)) => return,
                Some(Err(TryRecvError::Lagged(_))) | None => self.begin(db),
            }
        }
    }

    /// Compiles what is there. What is written from now on is among the changes, and what was so meanwhile too, which is no harm.
    fn begin(&mut self, db: &Db) {
        self.changes = Some(match &self.changes {
            Some(changes) => changes.resubscribe(),
            None => db.follow_all(Some(INDEXED_RESOURCES)),
        });
        self.index = RuleIndex::default();
        for resource in INDEXED_RESOURCES {
            for (key, stored) in db.objects_of(resource, &Range::namespace(None)) {
                self.index.put(resource, &key, &stored);
            }
        }
    }
}
