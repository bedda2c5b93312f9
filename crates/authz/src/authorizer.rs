//! An authorizer with an index of the stored RBAC objects, which is updated when the store changes.

mod index;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use index::RuleIndex;
pub(super) use index::{Grant, Granted, IndexedRole, PolicyRule, has};
use pintle_apimachinery::request::user::User;
use pintle_storage::Db;
#[cfg(test)]
pub(super) use tests::db_of;

use super::compiled::Compiled;

/// The RBAC index of one store, which is built on the first request of a user outside `system:masters`.
#[derive(Debug, Default)]
pub struct Authorizer(Compiled<RuleIndex>);

/// A store with its RBAC index.
#[derive(Clone, Copy, Debug)]
pub struct Rbac<'a> {
    authorizer: &'a Authorizer,
    db: &'a Db,
}

impl Authorizer {
    /// Returns a view for queries on the index of `db`. All calls must pass the same `db`.
    pub fn rules_in<'a>(&'a self, db: &'a Db) -> Rbac<'a> {
        Rbac { authorizer: self, db }
    }
}

impl Rbac<'_> {
    pub(super) fn granted(&self, user: &User, namespace: &str) -> Granted {
        self.query(|index| index.granted(user, namespace))
    }

    pub(super) fn role(&self, namespace: &str, name: &str) -> Option<Arc<IndexedRole>> {
        self.query(|index| index.role(namespace, name).cloned())
    }

    fn query<R>(&self, query: impl FnOnce(&RuleIndex) -> R) -> R {
        self.authorizer.0.query(self.db, query)
    }
}
