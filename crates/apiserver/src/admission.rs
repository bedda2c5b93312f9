//! The logic of the admission plugins for limit ranges, resource quotas and Pod Security Standards.
//!
//! The functions are pure. The functions take JSON values and return the result or the violations. The module
//! [`registry`](crate::registry) reads the store and charges the quotas.

mod amounts;
pub(crate) mod limits;
pub(crate) mod pod_security;
mod pods;
pub(crate) mod quota;

pub(crate) use amounts::Amounts;

/// A write that admission checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) resource: &'a crate::kinds::GroupResource,
    pub(crate) subresource: crate::request::Subresource,
    /// The object to store.
    pub(crate) object: &'a pintle_json::Json,
    /// The stored object. `None` for a new object.
    pub(crate) old: Option<&'a pintle_json::Json>,
}

impl Attempt<'_> {
    /// Returns whether the request writes this resource of the core group.
    fn is_of(&self, resource: &str) -> bool {
        self.resource.group.is_empty() && self.resource.resource == resource
    }
}
