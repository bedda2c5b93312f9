//! The one way by which a request has an object stored in place of another, or of none, but for the mark of a deletion, which must be
//! possible for whatever is stored. What a server begins with, what a restored snapshot holds, what a plan shows of its cluster, and what
//! quotas are charged with go by others: their sizes are not looked at.

use std::sync::Arc;

use pintle_json::Json;

use super::{Registry, size};
use crate::failure::Outcome;
use crate::kinds::RequestTarget;
use crate::object::metadata_mut;
use crate::request::options::How;
use crate::store::{Change, Charge, Expect, Present, Refused};

impl Registry {
    /// Stores an object and what is charged for it, in one step, unless it is larger than an object may be, or something came between:
    /// to it, to what it is charged to, or to what else `holds` asks about. Where it is only its managed fields that make it so large it
    /// goes without them, but for an apply, which stands on them.
    pub(super) fn commit(
        &self,
        target: &RequestTarget,
        expect: Expect,
        how: How,
        mut object: Json,
        charges: Vec<Charge>,
        holds: impl FnOnce(&Present) -> bool,
    ) -> Outcome<Result<Arc<Change>, Refused>> {
        let (kind, key) = (&target.kind, target.key());
        if let Err(too_large) = size::check(kind, &key, &object) {
            if how == How::Apply {
                return Err(too_large);
            }
            metadata_mut(&mut object).unset("managedFields");
            size::check(kind, &key, &object)?;
        }
        Ok(self.db.commit(&target.resource_key(), &key, expect, object, charges, holds))
    }
}
