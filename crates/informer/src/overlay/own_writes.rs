//! An API that reports its writes to an overlay.

use pintle_meta::{ApiError, DeleteOptions, Object, ObjectApi, ObjectKey, Patch, WriteOptions};

use super::Overlay;

/// An [`ObjectApi`] that reports its writes to an [`Overlay`]: see [`Overlay::api`]. The overlay shows the writes of
/// this API immediately.
///
/// An overlay shows the response of the server. The projection and the transform of the informer are not applied to the
/// response.
///
/// A deletion may require up to two additional requests. If the object is not in the cache, a GET request before the
/// deletion fetches its uid. A GET request after the deletion checks whether the object is gone or still has
/// finalizers. If the GET request after the deletion fails, the overlay shows the object until the cache receives the
/// deletion. If another client has already recreated the object, the overlay shows the new object.
///
/// # Cancel safety
///
/// Dropping a future cancels the request. The server may still execute a cancelled write, but the overlay does not show
/// it.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, Overlay, OverlayConfig, SharedInformer};
/// use pintle_meta::{ObjectApi, ObjectKey, ObjectMeta, WriteOptions};
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     owner: String,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let websites = Collection::<Website>::default();
///     let informer = SharedInformer::new(websites.clone(), InformerConfig::default());
///     informer.add_index("owner", |site: &Website| vec![site.owner.clone()])?;
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let sites = Overlay::new(informer.lister(), OverlayConfig::default());
///     let api = sites.api(websites);
///     let blog = Website { metadata: ObjectMeta::new("team-a", "blog"), owner: "ann".into() };
///     api.create(&blog, &WriteOptions::default()).await?;
///     assert!(sites.get(&ObjectKey::new("team-a", "blog")).is_some());
///     assert_eq!(sites.by_index("owner", "ann")?.len(), 1);
///     Ok(())
/// }
/// ```
pub struct OwnWrites<A, T> {
    api: A,
    overlay: Overlay<T>,
}

impl<A, T> OwnWrites<A, T> {
    pub(super) fn new(api: A, overlay: Overlay<T>) -> Self {
        Self { api, overlay }
    }

    /// Returns the overlay that shows the writes.
    pub fn overlay(&self) -> &Overlay<T> {
        &self.overlay
    }
}

impl<A: ObjectApi<T>, T: Object + Clone> OwnWrites<A, T> {
    /// Reports the server's response to the overlay. If the resourceVersion in the response is not a number, reads
    /// return the object only after the cache has received it.
    fn wrote(&self, object: T) -> T {
        self.overlay.wrote(object.clone());
        object
    }
}

impl<A: ObjectApi<T>, T: Object + Clone> ObjectApi<T> for OwnWrites<A, T> {
    async fn get(&self, key: &ObjectKey) -> Result<T, ApiError> {
        self.api.get(key).await
    }

    async fn create(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let created = self.api.create(object, options).await?;
        Ok(if options.dry_run { created } else { self.wrote(created) })
    }

    async fn update(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let updated = self.api.update(object, options).await?;
        Ok(if options.dry_run { updated } else { self.wrote(updated) })
    }

    async fn update_status(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let updated = self.api.update_status(object, options).await?;
        Ok(if options.dry_run { updated } else { self.wrote(updated) })
    }

    async fn patch(&self, key: &ObjectKey, patch: &Patch, options: &WriteOptions) -> Result<T, ApiError> {
        let patched = self.api.patch(key, patch, options).await?;
        Ok(if options.dry_run { patched } else { self.wrote(patched) })
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        if options.dry_run {
            return self.api.delete(key, options).await;
        }
        let last = match self.overlay.get(key) {
            Some(last) => Some(last),
            // The object may exist on the server even if the cache does not contain it. Fetch the uid, because the
            // overlay needs it to hide the deleted object.
            None => self.api.get(key).await.ok().map(Into::into),
        };
        self.api.delete(key, options).await?;
        match (self.api.get(key).await, last) {
            (Ok(object), _) => _ = self.overlay.wrote(object),
            (Err(error), Some(last)) if error.is_object_not_found() => _ = self.overlay.deleted(last),
            // The deletion succeeded, but reads return the object until the watch delivers the deletion.
            (Err(_), _) => {}
        }
        Ok(())
    }
}

pintle_meta::debug_struct!(OwnWrites<A, T: Object> { overlay, .. });
