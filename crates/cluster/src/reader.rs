//! Reads objects from an informer's cache or from the API server.

use std::sync::Arc;

use pintle_informer::{InformerState, Lister, SharedInformer};
use pintle_meta::{
    ApiError, InvalidKey, LabelSelector, ListOptions, NamespaceScope, Object, ObjectKey, Resource, ResourceScope as _,
    Scope,
};
use pintle_restreq::{Api, InvalidRequest, RestClient};
use serde::de::DeserializeOwned;

/// Reads the objects of one type from an informer's cache or from the server. A function with a `Reader` argument can
/// read from either source, like a Go function with controller-runtime's `client.Reader`.
///
/// [`Cluster::reader`](crate::Cluster::reader) returns a reader that uses the cache. Before the cache has synced, and
/// after the informer has stopped, this reader sends every read to the server. Cached objects can be older than the
/// objects on the server.
///
/// [`Cluster::live_reader`](crate::Cluster::live_reader) returns a reader that sends every read to the server. Only
/// objects from live reads contain `managedFields`, because the cache removes this field.
///
/// # Examples
///
/// ```
/// use pintle_cluster::{Cluster, Reader};
/// use pintle_meta::{ApiError, ObjectMeta, WriteOptions, resource};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Deserialize, Serialize)]
/// struct ConfigMap {
///     metadata: ObjectMeta,
/// }
/// resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
///
/// async fn has_settings(maps: &Reader<ConfigMap>) -> Result<bool, ApiError> {
///     Ok(maps.get("default/settings").await?.is_some())
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::embedded().await?;
/// let map = ConfigMap { metadata: ObjectMeta::new("default", "settings") };
/// cluster.api().create(&map, &WriteOptions::default()).await?;
/// assert!(has_settings(&cluster.reader()).await?);
/// assert!(has_settings(&cluster.live_reader()).await?);
/// # cluster.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct Reader<T: Object> {
    client: RestClient,
    informer: Option<SharedInformer<T>>,
}

impl<T: Resource + DeserializeOwned> Reader<T> {
    pub(crate) fn new(client: RestClient, informer: Option<SharedInformer<T>>) -> Self {
        Self { client, informer }
    }

    /// Returns `true` if reads currently use the cache.
    pub fn is_cached(&self) -> bool {
        self.cache().is_some()
    }

    /// Returns the object with this key, or `None` if the object does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is invalid or the request fails. A 404 response without a `Status` object is also an
    /// error, because it may come from a proxy.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the read and changes nothing on the server.
    pub async fn get(&self, key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>) -> Result<Option<Arc<T>>, ApiError> {
        let key = key.try_into().map_err(|error| InvalidRequest::Key(error.into()))?;
        let has_scope = key.namespace().is_some() == (T::Scope::SCOPE == Scope::Namespaced);
        // A request with a key of the wrong scope is an error, so do not report that the object does not exist.
        if has_scope && let Some(cache) = self.cache() {
            return Ok(cache.get(&key));
        }
        Ok(Api::<T>::all(self.client.clone()).get_opt(key).await?.map(Arc::new))
    }

    /// Returns the objects that match the selector, in no particular order.
    ///
    /// # Errors
    ///
    /// Returns an error if the list request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the read and changes nothing on the server.
    pub async fn list(&self, selector: &LabelSelector) -> Result<Vec<Arc<T>>, ApiError> {
        match self.cache() {
            Some(cache) => Ok(cache.select(selector)),
            None => list(Api::all(self.client.clone()), selector).await,
        }
    }

    /// Returns the objects in this namespace that match the selector, in no particular order. As in client-go, an empty
    /// `namespace` means all namespaces.
    ///
    /// # Errors
    ///
    /// Returns an error if the list request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the read and changes nothing on the server.
    pub async fn list_in(&self, namespace: &str, selector: &LabelSelector) -> Result<Vec<Arc<T>>, ApiError>
    where
        T: Resource<Scope = NamespaceScope>,
    {
        match self.cache() {
            _ if namespace.is_empty() => self.list(selector).await,
            Some(cache) => Ok(cache.namespace(namespace).select(selector)),
            None => list(Api::namespaced(self.client.clone(), namespace), selector).await,
        }
    }

    fn cache(&self) -> Option<Lister<T>> {
        let informer = self.informer.as_ref()?;
        let is_usable = informer.has_synced() && !matches!(informer.state(), InformerState::Stopped { .. });
        is_usable.then(|| informer.lister())
    }
}

async fn list<T: Object + DeserializeOwned>(api: Api<T>, selector: &LabelSelector) -> Result<Vec<Arc<T>>, ApiError> {
    let options = ListOptions { label_selector: selector.clone(), ..ListOptions::default() };
    Ok(api.list(&options).await?.items.into_iter().map(Arc::new).collect())
}

impl<T: Object> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), informer: self.informer.clone() }
    }
}

pintle_meta::debug_struct!(Reader<T: Object> { informer, .. });
