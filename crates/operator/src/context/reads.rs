//! The methods of a context that read objects.

use std::sync::Arc;

use pintle_meta::{ApiError, LabelSelector, ObjectKey, Resource};
use serde::de::DeserializeOwned;

use super::Context;
use crate::Result;

impl<K: Resource> Context<K> {
    /// Returns the object of type `T` with this name from the cache. If `T` is namespaced, the object is looked up in
    /// the namespace of the reconciled object. For objects in another namespace, use [`get_by_key`](Self::get_by_key).
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T`.
    pub fn get<T: Resource>(&self, name: &str) -> Result<Option<Arc<T>>> {
        self.get_by_key(&self.key_of::<T>(name))
    }

    /// Returns the object of type `T` with this key from the cache.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`get`](Self::get).
    pub fn get_by_key<T: Resource>(&self, key: &ObjectKey) -> Result<Option<Arc<T>>> {
        Ok(self.shared.caches.get::<T>()?.get(key))
    }

    /// Returns the cached objects of type `T` that match the selector, in no particular order. If `T` is namespaced,
    /// only objects in the namespace of the reconciled object are returned. If the reconciled object is cluster-scoped,
    /// objects of all namespaces are returned.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`get`](Self::get).
    pub fn list<T: Resource>(&self, selector: &LabelSelector) -> Result<Vec<Arc<T>>> {
        let objects = &self.shared.caches.get::<T>()?.objects;
        let namespace = self.namespace_of::<T>();
        let matches = |object: &Arc<T>| selector.matches(object.metadata().labels());
        Ok(match namespace {
            Some(namespace) => objects.namespace(namespace).into_iter().filter(matches).collect(),
            None => objects.select(selector),
        })
    }

    /// Returns the cached objects of type `T` that have the reconciled object as an owner, in no particular order.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`get`](Self::get).
    pub fn owned<T: Resource>(&self) -> Result<Vec<Arc<T>>> {
        let cached = self.shared.caches.get::<T>()?;
        match &self.call.object {
            Some(owner) => cached.owned_by(owner.uid()),
            None => Ok(Vec::new()),
        }
    }

    /// Reads the object of type `T` with this name from the server, in the namespace of the reconciled object. Returns
    /// `None` if the object does not exist. Use this method for kinds that are read too rarely to be cached.
    ///
    /// # Errors
    ///
    /// Returns the error of the request.
    pub async fn get_live<T: Resource + DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        match self.cluster().api::<T>().get(self.key_of::<T>(name)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if ApiError::is_not_found(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the namespace in which objects of type `T` are looked up by name.
    pub(super) fn namespace_of<T: Resource>(&self) -> Option<&str> {
        use pintle_meta::{ResourceScope, Scope};
        self.key().namespace().filter(|_| T::Scope::SCOPE == Scope::Namespaced)
    }

    pub(super) fn key_of<T: Resource>(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace_of::<T>().unwrap_or_default(), name)
    }
}
