//! Where a request works.

use std::sync::Arc;

use super::Kind;
use crate::store::{ResourceKey, key};

/// Where a request works: a kind and, but for collections, an object or one of its subresources.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) kind: Arc<Kind>,
    /// Empty in cluster scope, and across all namespaces.
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    /// Such as `status`.
    pub(crate) subresource: Option<String>,
}

impl Place {
    pub(crate) fn new(kind: Arc<Kind>, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into(), subresource: None }
    }

    pub(crate) fn resource_key(&self) -> ResourceKey {
        self.kind.store.to_string().into()
    }

    pub(crate) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}
