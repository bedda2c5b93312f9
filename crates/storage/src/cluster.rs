//! Implements the trait [`Cluster`] for the store.

use std::sync::Arc;

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::object::key;
use pintle_json::Json;
use pintle_meta::GroupResource;

use crate::db::Db;
use crate::{Range, Stored};

impl Cluster for Db {
    fn object(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Json>> {
        let key = key(namespace, name);
        let resource = resource.to_string();
        self.get(&resource, &key).map(|stored| tree(&stored, (self.is_read_often)(&resource)))
    }

    fn objects(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Json>> {
        let resource = resource.to_string();
        let often = (self.is_read_often)(&resource);
        self.objects_of(&resource, &Range::namespace(namespace)).map(|(_, stored)| tree(&stored, often)).collect()
    }

    fn holder(&self, claim: &str) -> Option<Arc<str>> {
        self.read(|store| store.holder(claim).cloned())
    }
}

/// Decodes an object, and keeps the decoded form in the store if `often` is `true`.
fn tree(stored: &Stored, often: bool) -> Arc<Json> {
    if often { stored.kept_tree() } else { Arc::new(stored.decode()) }
}
