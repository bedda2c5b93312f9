//! Implements [`Cluster`] for the store.

use std::sync::Arc;

use pintle_json::Json;

use super::{Cluster, GroupResource, builtin};
use crate::store::{Db, Range, Stored, key};

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

/// Decodes an object. If `often` is true, the store keeps the decoded object in a cache.
fn tree(stored: &Stored, often: bool) -> Arc<Json> {
    if often { stored.kept_tree() } else { Arc::new(stored.decode()) }
}
