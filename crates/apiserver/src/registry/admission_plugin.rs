//! The interface of admission plugins.

use std::fmt;

use pintle_json::Json;

use super::Registry;
use crate::failure::Outcome;
use crate::kinds::RequestTarget;
use crate::object::metadata;
use crate::request::Requester;
use crate::request::options::{DeleteOptions, WriteOptions};
use crate::store::Charge;

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A create, or a POST that stores nothing, such as a binding or an eviction.
    Create,
    Update,
    Delete,
    /// A connection to a subresource such as `exec`.
    Connect,
}

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AdmissionOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// The options of a connect are its object.
    None,
}

/// The admission attributes of a request. It does not implement `Debug` because it may contain a Secret.
///
/// For a subresource with its own type, such as a Scale, an Eviction or the options of `exec`, `old` and `new` have
/// that type.
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) operation: Operation,
    /// The target in the path. It has no name for a create and for a `deletecollection`.
    pub(crate) target: &'a RequestTarget,
    /// The existing object. `None` for a create or a connect.
    pub(crate) old: Option<&'a Json>,
    /// The new object, or the body. `None` for a delete.
    pub(crate) new: Option<&'a mut Json>,
    pub(crate) options: AdmissionOptions<'a>,
    pub(crate) by: &'a Requester,
}

impl AdmissionRequest<'_> {
    /// Returns the name of the object. It is empty for a collection, and for `generateName` before the name is
    /// generated.
    pub(crate) fn name(&self) -> &str {
        match (self.target.name.as_str(), self.new.as_deref()) {
            ("", Some(new)) => metadata::name(new),
            (name, _) => name,
        }
    }

    pub(crate) fn dry_run(&self) -> bool {
        match self.options {
            AdmissionOptions::Write(options) => options.dry_run,
            AdmissionOptions::Delete(options) => options.dry_run,
            AdmissionOptions::None => false,
        }
    }
}

/// An admission plugin. Its [warnings](Requester::warn) reach the client even if the request fails.
pub(crate) trait Plugin: fmt::Debug + Send + Sync {
    /// Changes the object before the rules of its kind, or rejects the request. It runs again if the write is retried
    /// after a conflict.
    fn admit(&self, _: &Registry, _: &mut AdmissionRequest<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Rejects the request, or returns the quota updates of the write. The object is valid.
    fn validate(&self, _: &Registry, _: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        Ok(Vec::new())
    }
}
