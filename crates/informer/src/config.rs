//! How an informer is configured.

use std::fmt;
use std::time::Duration;

use crate::{ReflectorConfig, ReflectorError};

/// How a [`SharedInformer`](crate::SharedInformer) works. The default is that of client-go.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::of_resource(resource, CollectionConfig::default());
///     let labels = json!({"app": "web"});
///     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "web", "labels": labels, "annotations": {"a": "note"}}}));
///     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "db", "labels": {"app": "db"}}}));
///
///     let config = InformerConfig {
///         name: "web pods".into(),
///         reflector: ReflectorConfig { label_selector: "app=web".parse()?, ..ReflectorConfig::default() },
///         transform: Some(Box::new(|pod: &mut PartialObject| pod.metadata.annotations.clear())),
///         ..InformerConfig::default()
///     };
///     let informer = SharedInformer::new(pods, config);
///     informer.start();
///     informer.wait_for_sync().await?;
///     let web = informer.lister().list();
///     assert!(web.len() == 1 && web[0].metadata.annotations.is_empty());
///     Ok(())
/// }
/// ```
pub struct InformerConfig<T> {
    /// The name for logs and errors. Empty: that of the type.
    pub name: String,
    /// How to list and watch, and which objects.
    pub reflector: ReflectorConfig,
    /// How often subscribers are reminded of all objects, unless they say otherwise: see
    /// [`Subscription::with_resync`](crate::Subscription::with_resync). `None`, the default: never.
    pub resync: Option<Duration>,
    /// Changes each object once, before it goes into the cache; to leave out what nobody reads, say. The last state of a
    /// deleted object is changed as well.
    pub transform: Option<Transform<T>>,
    /// Hears of each failure that delays the informer. It cannot change what follows.
    pub on_error: Option<ErrorHandler>,
    /// Makes delays and timeouts repeatable. `None`: they differ from run to run.
    pub seed: Option<u64>,
}

/// Changes an object before it is cached: see [`InformerConfig::transform`].
pub type Transform<T> = Box<dyn Fn(&mut T) + Send + Sync>;

/// Hears of failures: see [`InformerConfig::on_error`].
pub type ErrorHandler = Box<dyn Fn(&ReflectorError) + Send + Sync>;

impl<T> Default for InformerConfig<T> {
    fn default() -> Self {
        Self {
            name: String::new(),
            reflector: ReflectorConfig::default(),
            resync: None,
            transform: None,
            on_error: None,
            seed: None,
        }
    }
}

impl<T> fmt::Debug for InformerConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerConfig")
            .field("name", &self.name)
            .field("reflector", &self.reflector)
            .field("resync", &self.resync)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
