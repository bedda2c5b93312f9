//! What one who has a say in requests is, and is told.

use pintle_json::Json;

use super::Registry;
use super::object_write::Write;
use crate::failure::Outcome;
use crate::kinds::Place;
use crate::request::user::User;
use crate::store::Charge;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    /// What is posted to a path of its own, to be done and not to be stored: a binding, an eviction.
    Connect,
}

/// All that one who has a say is told of a request. It has no Debug, since it may hold a Secret.
#[derive(Clone, Copy)]
pub(super) struct AdmissionRequest<'a> {
    pub(super) operation: Operation,
    pub(super) place: &'a Place,
    /// The object as it is; none where there is none yet, or where it is not what is sent.
    pub(super) old: Option<&'a Json>,
    /// The object as it is to be, or what is posted; none of a deletion.
    pub(super) new: Option<&'a Json>,
    pub(super) user: &'a User,
    pub(super) dry_run: bool,
}

/// One who has a say in what is done to objects.
pub(super) trait Plugin: Sync {
    /// Refuses a request of whatever kind, before anything of it is done. An object to be written is valid.
    fn admit(&self, _: &Registry, _: &AdmissionRequest<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Changes the object, before its kind has a look at it.
    fn change(&self, _: &Registry, _: &mut Write<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Refuses an object that is valid, or says what the write is to be charged for.
    fn check(&self, _: &Registry, _: &Write<'_>) -> Outcome<Vec<Charge>> {
        Ok(Vec::new())
    }

    /// What to warn of in a write that nobody refused.
    fn warnings(&self, _: &Registry, _: &Write<'_>) -> Vec<String> {
        Vec::new()
    }
}
