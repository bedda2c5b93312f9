//! What the rules of a kind may look at.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_json::Json;

use super::GroupResource;
use crate::request::user::User;

/// What a rule may look at besides the object itself.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The server's time.
    pub(crate) now: Timestamp,
    /// The other objects.
    pub(crate) cluster: &'a dyn Cluster,
    /// Who asks.
    pub(crate) user: &'a User,
    /// Whether the object came with labels of its own. Of others, some kinds take those of their template.
    pub(crate) labelled: bool,
}

impl Context<'_> {
    /// The time as metadata carry it: RFC 3339 in whole seconds.
    pub(crate) fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// A reading view of all stored objects, in their stored form.
pub(crate) trait Cluster {
    /// One object; `namespace` is empty for cluster-scoped ones.
    fn object(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Json>>;

    /// All objects of one namespace, or of all.
    fn objects(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Json>>;

    /// Who has what only one object can have, such as an address: its namespace and name, joined by a slash.
    fn holder(&self, claim: &str) -> Option<Arc<str>>;
}
