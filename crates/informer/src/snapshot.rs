//! What a cache held at one moment.

use std::sync::Arc;

/// The objects that were in a cache together at one moment. It does not change any more.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, ObjectKey, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///     let informer = SharedInformer::new(pods.clone(), InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let lister = informer.lister();
///     let before = lister.snapshot();
///     pods.remove(&ObjectKey::new("team-a", "web-1"));
///     lister.wait_for(&pods.revision().to_string()).await?;
///     assert_eq!((before.resource_version(), before.objects().len()), ("1", 1));
///     assert!(lister.snapshot().objects().is_empty());
///     Ok(())
/// }
/// ```
pub struct Snapshot<T> {
    objects: Vec<Arc<T>>,
    resource_version: String,
}

impl<T> Snapshot<T> {
    pub(crate) fn new(objects: Vec<Arc<T>>, resource_version: String) -> Self {
        Self { objects, resource_version }
    }

    /// The objects, in no particular order.
    pub fn objects(&self) -> &[Arc<T>] {
        &self.objects
    }

    /// The revision up to which the cache had all changes; empty before the first list.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl<T> IntoIterator for Snapshot<T> {
    type Item = Arc<T>;
    type IntoIter = std::vec::IntoIter<Arc<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.objects.into_iter()
    }
}
