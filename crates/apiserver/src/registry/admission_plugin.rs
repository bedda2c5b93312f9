//! Defines the interface of admission plugins.

use std::fmt;

use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::options::{DeleteOptions, WriteOptions};
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_storage::Charge;

use super::Registry;

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A create request, or a POST that does not store an object, such as a binding or an eviction.
    Create,
    Update,
    Delete,
    /// A request that connects to a subresource such as `exec`.
    Connect,
}

/// The options in the client's request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AdmissionOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// A connect request. Its options are in [`AdmissionRequest::new`].
    None,
}

/// The admission attributes of a request. This type does not implement `Debug`, because an object can contain a
/// Secret.
///
/// If the subresource has its own type, `old` and `new` have this type. For example, Scale, Eviction and the options of
/// `exec` are such types.
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) operation: Operation,
    /// The target to which the path of the request refers. For a create or a `deletecollection`, the target has no name.
    pub(crate) target: &'a RequestTarget,
    /// The existing object. The old object is `None` for a create request and for a connect request.
    pub(crate) old: Option<&'a Json>,
    /// The new object. For a POST that does not store an object, `new` is the body. `None` for a delete.
    pub(crate) new: Option<&'a mut Json>,
    pub(crate) options: AdmissionOptions<'a>,
    pub(crate) by: &'a Requester,
}

impl AdmissionRequest<'_> {
    /// Returns the name of the object. The name is empty for a collection. The name is also empty if the server has not
    /// yet generated it from `generateName`.
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

/// An admission plugin. The client receives the [warnings](Requester::warn) that the plugin adds, even if the request fails.
pub(crate) trait Plugin: fmt::Debug + Send + Sync {
    /// Changes the object, or rejects the request. The rules of the object's kind are applied after this method has returned. If the write
    /// is retried after a conflict, this method is called again.
    fn admit(&self, _: &Registry, _: &mut AdmissionRequest<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Rejects the request, or returns the quota updates that must be committed with the write. The object has already
    /// passed the validation of its kind.
    fn validate(&self, _: &Registry, _: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        Ok(Vec::new())
    }
}
