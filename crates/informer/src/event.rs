//! Events for subscribers.

use std::fmt;
use std::sync::Arc;

use pintle_meta::{Object, ObjectKey};

use crate::event_object::EventObject;
use crate::writer::{LastWrite, Writer};

/// A change of an object. Subscribers receive the event after the cache has changed.
///
/// Events for the same key arrive in order. The old state of an event is the new state of the previous event for the
/// same key. A slow subscriber may miss intermediate states, but always receives the newest state. If an object was
/// added and deleted before the subscriber received an event for it, the subscriber receives no event for the object.
///
/// The objects in updates and deletions are decoded when a subscriber first [reads](EventObject) them. All subscribers
/// share the decoded object. A subscription decodes an added object before it delivers the event, unless the object is
/// already decoded, so no event contains an object that cannot be read.
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
/// informer.stop(); // This ends the events.
///             }
///         }
///     }
///     Ok(())
/// }
/// ```
pub enum ResourceEvent<T> {
    /// An object that is new to the subscriber.
    Added {
        /// The added object.
        object: EventObject<T>,
        /// Whether the object belongs to the subscriber's initial state. The initial state is the first list, or the
        /// content of the cache if the subscription starts later.
        is_initial: bool,
    },
    /// An object changed. A resync sends each object as an update with equal `old` and `new` states.
    Updated {
        /// The state of the object in the last event that the subscriber received.
        old: EventObject<T>,
        /// The current state of the object. The new state has the same uid as the old state. If an object was deleted
        /// and recreated with the same name, the subscriber receives a `Deleted` event and an `Added` event.
        new: EventObject<T>,
    },
    /// An object was deleted.
    Deleted {
        /// The last known state of the object.
        object: EventObject<T>,
        /// Whether the watch reported the deletion. If `true`, `object` is the final state of the object. If `false`,
        /// the watch missed the deletion and a later list did not contain the object, so `object` may be stale.
        /// client-go calls a stale state `DeletedFinalStateUnknown`.
        final_state_known: bool,
    },
}

impl<T: Object> ResourceEvent<T> {
    /// Returns the key of the object. This method does not decode the object.
    pub fn key(&self) -> ObjectKey {
        self.object().key()
    }

    /// Returns the field manager that made this change. This method does not decode the object.
    ///
    /// The writer comes from the newest entry in the `managedFields` of the new state, even if the informer
    /// [drops](crate::Projection::MANAGED_FIELDS) this field. The times in `managedFields` have a resolution of one
    /// second. If several entries have the same newest time, a comparison with the old state usually shows which entry
    /// is new. If the comparison does not help, this method returns the writer of the last entry, which may be wrong.
    /// The returned writer may also be wrong if the clock of an API server is behind the clocks of other API servers.
    /// If an event merges several changes, the returned writer made the last change.
    ///
    /// Returns `None` if the writer is unknown, which happens in the following cases:
    ///
    /// - The event delivers an initial object, comes from a resync, or reports a deletion.
    /// - The change did not add a newer time to `managedFields`, as with delete requests, writes of the subresource
    ///   `scale`, and updates that only remove fields.
    /// - The object has no `managedFields`, or the projection drops a part of `managedFields`.
    /// - The event's objects do not come from an informer.
    /// - The process has already seen 4,000 other writers. Several writers of an object within the same second count as
    ///   one writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_informer::ResourceEvent;
    /// use pintle_meta::PartialObject;
    ///
    /// fn print(event: &ResourceEvent<PartialObject>) {
    ///     match event.writer() {
    ///         Some(writer) => println!("{} was changed by {writer}", event.key()), // by kubectl-edit (Update)
    ///         None => println!("{} was changed", event.key()),
    ///     }
    /// }
    /// ```
    pub fn writer(&self) -> Option<Arc<Writer>> {
        match self {
            Self::Added { object, is_initial: false } => object.last_write().writer(LastWrite::default()),
            Self::Updated { old, new } if !old.is_same(new) => new.last_write().writer(old.last_write()),
            Self::Added { .. } | Self::Updated { .. } | Self::Deleted { .. } => None,
        }
    }
}

impl<T> ResourceEvent<T> {
    /// Returns the newest state of the object, which for a deletion is the last known state. The object is decoded when
    /// its fields are first accessed.
    pub fn object(&self) -> &EventObject<T> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Deleted { object, .. } => object,
        }
    }

    /// Returns `true` if a reader of this event has decoded an object that was stored as JSON.
    pub(crate) fn has_decoded(&self) -> bool {
        match self {
            Self::Updated { old, new } => old.has_decoded() || new.has_decoded(),
            Self::Added { object, .. } | Self::Deleted { object, .. } => object.has_decoded(),
        }
    }

    /// Returns `true` if this event is a deletion.
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
