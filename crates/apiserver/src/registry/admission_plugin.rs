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
    /// A create, or a POST that stores no object, such as a binding or an eviction.
    Create,
    Update,
    Delete,
    /// A connection to a subresource such as `exec`.
    Connect,
}

/// The options that the client sent with the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AdmissionOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// A connect, whose options are in [`AdmissionRequest::new`].
    None,
}

/// The admission attributes of a request. It does not implement `Debug` because it may contain a Secret.
///
/// If the subresource has a separate type, `old` and `new` have this type. Examples are a Scale, an Eviction and the
/// options of `exec`.
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) operation: Operation,
    /// The target in the path of the request. The target of a create or a `deletecollection` has no name.
    pub(crate) target: &'a RequestTarget,
    /// The existing object. `None` for a create or a connect.
    pub(crate) old: Option<&'a Json>,
    /// The new object. For a POST that stores no object, it is the body. `None` for a delete.
    pub(crate) new: Option<&'a mut Json>,
    pub(crate) options: AdmissionOptions<'a>,
    pub(crate) by: &'a Requester,
}

impl AdmissionRequest<'_> {
    /// Returns the name of the object. The name is empty for a collection. It is also empty before a name is generated
    /// from `generateName`.
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

/// An admission plugin. The server sends the plugin's [warnings](Requester::warn) to the client even if the request
/// fails.
pub(crate) trait Plugin: fmt::Debug + Send + Sync {
    /// Changes the object before the rules of its kind are applied, or rejects the request. This method is called again
    /// if the write is retried after a conflict.
    fn admit(&self, _: &Registry, _: &mut AdmissionRequest<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Rejects the request, or returns the quota updates of the write. The object has already passed the validation of
    /// its kind.
    fn validate(&self, _: &Registry, _: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        Ok(Vec::new())
    }
}
