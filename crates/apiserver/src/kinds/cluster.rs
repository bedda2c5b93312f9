//! What the rules of a kind may look at.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_json::Json;

use super::{GroupResource, builtin};
use crate::request::user::User;
use crate::store::{Db, Range, Stored, key};

/// What a rule may look at besides the object itself.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The server's time.
    pub(crate) now: Timestamp,
    /// The other objects.
    pub(crate) cluster: &'a dyn Cluster,
    /// Who asks.
    pub(crate) user: &'a User,
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

impl Cluster for Db {
    fn object(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Json>> {
        let key = key(namespace, name);
        let resource = resource.to_string();
        self.get(&resource, &key).map(|stored| tree(&stored, is_read_often(&resource)))
    }

    fn objects(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Json>> {
        let resource = resource.to_string();
        let often = is_read_often(&resource);
        self.objects_of(&resource, &Range::namespace(namespace)).map(|(_, stored)| tree(&stored, often)).collect()
    }

    fn holder(&self, claim: &str) -> Option<Arc<str>> {
        self.read(|store| store.holder(claim).cloned())
    }
}

fn is_read_often(resource: &str) -> bool {
    builtin::of_stored(resource).is_some_and(|strategy| strategy.is_read_often())
}

/// An object as rules look at it.
fn tree(stored: &Stored, often: bool) -> Arc<Json> {
    if often { stored.kept_tree() } else { Arc::new(stored.decode()) }
}
