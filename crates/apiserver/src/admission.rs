//! Admission by what the namespace has room for, limit ranges and quotas, and by the security standard of its pods.
//!
//! Plain functions over JSON: what they look at is handed to them, and what they find goes back. Reading the store and charging
//! the quotas is the part of [`registry`](crate::registry).

mod amounts;
pub(crate) mod limits;
pub(crate) mod pod_security;
mod pods;
pub(crate) mod quota;

pub(crate) use amounts::Amounts;

/// What a request does to an object that it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    /// What is written.
    pub(crate) resource: &'a crate::kinds::GroupResource,
    pub(crate) subresource: crate::request::Subresource,
    /// The object as it is to be stored.
    pub(crate) object: &'a pintle_json::Json,
    /// The stored object; none of a new one.
    pub(crate) old: Option<&'a pintle_json::Json>,
}

impl Attempt<'_> {
    /// Whether it is of this resource of the core group.
    fn is_of(&self, resource: &str) -> bool {
        self.resource.group.is_empty() && self.resource.resource == resource
    }
}
