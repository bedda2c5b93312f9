//! The interface of admission plugins.

use std::fmt;

use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::options::{DeleteOptions, WriteOptions};
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_storage::Charge;

use super::Registry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A create request, or a POST request that does not store an object, such as a binding or an eviction.
    Create,
    Update,
    Delete,
    Connect,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AdmissionOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// The request has no options. The options of a connect request are in [`AdmissionRequest::new`].
    None,
}

/// The admission attributes of a request. `AdmissionRequest` does not implement `Debug`, because an object can contain
/// a Secret.
///
/// If the subresource has its own type, such as Scale, Eviction or the options of `exec`, `old` and `new` are of this
/// type.
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) operation: Operation,
    /// The target that the request path names. The target of a create or `deletecollection` request has no name.
    pub(crate) target: &'a RequestTarget,
    pub(crate) old: Option<&'a Json>,
    /// The new object, or the body of a POST request that does not store an object, or `None` for a delete.
    pub(crate) new: Option<&'a mut Json>,
    pub(crate) options: AdmissionOptions<'a>,
    pub(crate) by: &'a Requester,
}

impl AdmissionRequest<'_> {
    /// Returns the object's name, which is empty for a collection. For an object with `generateName`, the name is empty
    /// until the server generates one.
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

/// An admission plugin. Even if the request fails, the client receives the plugin's [warnings](Requester::warn).
pub(crate) trait Plugin: fmt::Debug + Send + Sync {
    /// Changes the object, or rejects the request. The server calls this method before it applies the kind's rules, and
    /// again if a policy or webhook changes the object, or if it retries the write after a conflict.
    fn admit(&self, _: &Registry, _: &mut AdmissionRequest<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Rejects the request, or returns the quota updates, which must be committed with the write. The server calls this
    /// method after the object has passed the kind's validation.
    fn validate(&self, _: &Registry, _: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        Ok(Vec::new())
    }
}
