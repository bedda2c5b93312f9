//! Commits the objects of write requests and checks their size.
//!
//! The size limit does not apply to deletion marks, initial objects, restored snapshots, quota updates, and objects
//! that a plan loads from the cluster.

use std::sync::Arc;

use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::metadata_mut;
use pintle_apimachinery::request::options::How;
use pintle_json::Json;
use pintle_kinds::{RequestTarget, size};
use pintle_storage::{Change, Charge, Expect, Present, Refused};

use super::Registry;

/// The outcome of one attempt to write an object. [`Refused`] means that an input of the write has changed, so the
/// caller can try again.
pub(super) type Attempt<T> = Outcome<Result<T, Refused>>;

impl Registry {
    /// Stores an object and its quota updates in one step. Returns an error if the object is too large. Returns
    /// [`Refused`] if the object, a charged quota, or another input that `precondition` checks has changed.
    ///
    /// If an object is too large only because of its managed fields, the object is stored without managed fields. An
    /// apply request fails instead, because it must record its managed fields.
    pub(super) fn commit(
        &self,
        target: &RequestTarget,
        expect: Expect,
        how: How,
        mut object: Json,
        charges: Vec<Charge>,
        precondition: impl FnOnce(&Present) -> bool,
    ) -> Attempt<Arc<Change>> {
        let (kind, key) = (&target.kind, target.key());
        if let Err(too_large) = size::check(kind, &key, &object) {
            if how == How::Apply {
                return Err(too_large);
            }
            metadata_mut(&mut object).unset("managedFields");
            size::check(kind, &key, &object)?;
        }
        Ok(self.db.commit(&target.resource_key(), &key, expect, object, charges, precondition))
    }
}
