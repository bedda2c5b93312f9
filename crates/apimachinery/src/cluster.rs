//! The data that strategies can read in addition to the written object: the current time, the user and other objects.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_json::Json;
use pintle_meta::GroupResource;

use crate::request::user::User;

/// The data that a strategy can read in addition to the written object.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The server's current time.
    pub now: Timestamp,
    /// The stored objects.
    pub cluster: &'a dyn Cluster,
    /// The requesting user.
    pub user: &'a User,
    /// Whether the object in the request has labels. Objects of some kinds without labels get the labels of their pod
    /// template.
    pub has_labels: bool,
}

impl Context<'_> {
    /// Returns the current time in the format of metadata timestamps, which is RFC 3339 with whole seconds.
    pub fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// A read-only view of all objects in their stored form.
pub trait Cluster {
    /// Returns an object, or `None` if it does not exist. For cluster-scoped objects, `namespace` must be empty.
    fn object(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Json>>;

    /// Returns all objects in `namespace`, or in all namespaces if `namespace` is `None`.
    fn objects(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Json>>;

    /// Returns the key of the object that has reserved the unique value
    /// `claim`, such as an IP address. The key has the form `namespace/name`.
    fn holder(&self, claim: &str) -> Option<Arc<str>>;
}
