//! Where a request works.

use std::sync::Arc;

use super::Kind;
use crate::request::Part;
use crate::store::{ResourceKey, key};

/// Where a request works: a kind and, but for collections, an object or one of its subresources.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) kind: Arc<Kind>,
    /// Empty in cluster scope, and across all namespaces.
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    pub(crate) part: Part,
}

impl Place {
    pub(crate) fn new(kind: Arc<Kind>, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into(), part: Part::Object }
    }

    pub(crate) fn resource_key(&self) -> ResourceKey {
        self.kind.store.to_string().into()
    }

    pub(crate) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}
