//! Objects that cannot be decoded.

use pintle_meta::ObjectKey;
use thiserror::Error;

/// An object whose newest state is not in the cache: see [`Lister::undecodable`](crate::Lister::undecodable).
///
/// The newest state is missing if the object cannot be decoded or is larger than the source accepts. The newest state
/// is also missing if a transform or the object's `Metadata` implementation panicked. In a [`Cache`](crate::Cache)
/// without an informer, an index function may have failed on the object.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1", "generation": "seven"}}));
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let lister = informer.lister();
///     assert!(lister.is_empty());
///     let pod = &lister.undecodable()[0];
///     assert_eq!(pod.key.as_str(), "team-a/web-1");
///     assert!(pod.error.starts_with("invalid type: string, expected i64"), "{}", pod.error);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{key} cannot be decoded: {error}")]
#[non_exhaustive]
pub struct Undecodable {
    /// The key of the object.
    pub key: ObjectKey,
    /// The object's uid, or an empty string if the uid could not be read.
    pub uid: String,
    /// The object's resourceVersion, or an empty string if the resourceVersion could not be read.
    pub resource_version: String,
    /// The reason why the newest state is not in the cache. Positions in the message are positions in the JSON that the
    /// [`Projection`](crate::Projection) keeps. If a value has the wrong type, the message does not contain the value.
    /// The messages of panics and of hand-written `Deserialize` implementations are not modified, even if they contain
    /// a value.
    pub error: String,
}

pub(crate) fn cannot_decode(informer: &str, object: &Undecodable) -> String {
    format!("informer {informer:?} cannot decode {}, so its object is not in the cache: {}", object.key, object.error)
}
