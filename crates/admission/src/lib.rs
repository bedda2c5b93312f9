//! The rules of admission plugins: limit ranges, resource quotas, Pod Security Standards, and CEL policies.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - [`limits`], [`quota`] and [`pod_security`] check the writes of objects. An [`Attempt`] describes such a write.
//! - [`policy`] compiles ([`CompiledPolicy`](policy::CompiledPolicy)), matches and evaluates admission policies.
//!
//! The functions have no side effects: they take JSON values and return a result or the violations of a rule. The
//! registry in `pintle-apiserver` reads the store, updates quota usage, and calls the plugins in order. To read the
//! code, start with `limits.rs`.
//!
//! ```
//! use pintle_admission::Attempt;
//! use pintle_apimachinery::request::Subresource;
//! use pintle_json::json;
//! use pintle_meta::GroupResource;
//!
//! let (pods, pod) = (GroupResource::new("", "pods"), json!({"metadata": {"name": "a"}}));
//! let attempt = Attempt { resource: &pods, subresource: Subresource::None, object: &pod, old: None };
//! assert!(attempt.old.is_none(), "a create");
//! ```

#![allow(missing_docs, reason = "internal crate: the crate page is the contract")]

mod amounts;
pub mod limits;
pub mod pod_security;
mod pods;
pub mod policy;
pub mod quota;
pub mod webhook;

pub use amounts::Amounts;
pub use pods::container_totals;

/// A write that admission checks.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    pub resource: &'a pintle_meta::GroupResource,
    pub subresource: pintle_apimachinery::request::Subresource,
    /// The object that the request would store.
    pub object: &'a pintle_json::Json,
    /// The stored object, or `None` for a new object.
    pub old: Option<&'a pintle_json::Json>,
}

impl Attempt<'_> {
    fn is_of(&self, resource: &str) -> bool {
        self.resource.group.is_empty() && self.resource.resource == resource
    }
}
