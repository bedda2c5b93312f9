//! What subscribers hear.

use std::fmt;
use std::sync::Arc;

use pintle_meta::{Object, ObjectKey};

/// What a subscriber hears of an object, after the cache has changed.
///
/// Events of one key come in order, and each begins where the one before it ended. States in between may be skipped: a
/// subscriber that is slow hears of the newest. An object that came and went unheard is not told at all.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, ResourceEvent, SharedInformer};
/// use pintle_meta::{ApiResource, Object, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///     let informer = SharedInformer::new(pods.clone(), InformerConfig::default());
///     let mut events = informer.subscribe();
///     informer.start();
///
///     while let Some(event) = events.next().await {
///         match event {
///             ResourceEvent::Added { object, .. } => assert!(pods.remove(&object.key())),
///             ResourceEvent::Updated { old, new } => println!("{} -> {}", old.resource_version(), new.resource_version()),
///             ResourceEvent::Deleted { final_state_known, .. } => {
///                 assert!(final_state_known);
///                 informer.stop(); // And so the events end.
///             }
///         }
///     }
///     Ok(())
/// }
/// ```
pub enum ResourceEvent<T> {
    /// An object that the subscriber did not know.
    Added {
        /// The object.
        object: Arc<T>,
        /// Whether it was there at the beginning: in the first list, or in the cache when the subscriber came late.
        is_initial: bool,
    },
    /// An object changed. A resync tells each object with `old` and `new` alike.
    Updated {
        /// The state that the subscriber was told last.
        old: Arc<T>,
        /// The present state. Its uid is that of `old`: another object by the same name is told as deleted and added.
        new: Arc<T>,
    },
    /// An object is gone.
    Deleted {
        /// Its last known state.
        object: Arc<T>,
        /// Whether the deletion was seen, and `object` is the state in which it happened. If not, it was inferred, since a
        /// later list does not have the object, and `object` may be stale: client-go's `DeletedFinalStateUnknown`.
        final_state_known: bool,
    },
}

impl<T: Object> ResourceEvent<T> {
    /// The key of the object.
    pub fn key(&self) -> ObjectKey {
        self.object().key()
    }
}

impl<T> ResourceEvent<T> {
    /// The newest state: for a deletion, the last one.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Deleted { object, .. } => object,
        }
    }

    /// Whether the object is gone.
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }
}

impl<T> Clone for ResourceEvent<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, is_initial } => Self::Added { object: object.clone(), is_initial: *is_initial },
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted { object, final_state_known } => {
                Self::Deleted { object: object.clone(), final_state_known: *final_state_known }
            }
        }
    }
}

impl<T: Object> fmt::Debug for ResourceEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, version) = (self.key(), self.object().resource_version());
        match self {
            Self::Added { is_initial, .. } => write!(f, "Added({key}@{version}, is_initial: {is_initial})"),
            Self::Updated { old, .. } => write!(f, "Updated({key}@{}..{version})", old.resource_version()),
            Self::Deleted { final_state_known, .. } => {
                write!(f, "Deleted({key}@{version}, final_state_known: {final_state_known})")
            }
        }
    }
}
