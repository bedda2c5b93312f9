//! The rules that are stored, compiled, as far as the store has come.

mod index;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use index::RuleIndex;
pub(super) use index::{Grant, Granted, IndexedRole, PolicyRule, has};
#[cfg(test)]
pub(super) use tests::db_of;

use super::compiled::Compiled;
use crate::request::user::User;
use crate::store::Db;

/// The rules of one store, compiled when somebody is first asked for who is no administrator.
#[derive(Debug, Default)]
pub(crate) struct Authorizer(Compiled<RuleIndex>);

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

    fn ask<R>(&self, question: impl FnOnce(&RuleIndex) -> R) -> R {
        self.authorizer.0.ask(self.db, question)
    }
}
