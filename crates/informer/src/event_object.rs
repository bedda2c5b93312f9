//! The objects of events.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pintle_meta::{Metadata, Object};

use crate::stored::{Lease, Stored};
use crate::writer::LastWrite;

/// An object of a [`ResourceEvent`](crate::ResourceEvent). This type dereferences to the object. The object is decoded
/// when its fields are first accessed.
///
/// The methods of [`Object`], such as [`key`](Object::key) and [`metadata`](Object::metadata), do not decode the
/// object. All readers of the same state share one decoded object. The decoded object stays in memory as long as this
/// `EventObject` or a clone of it exists.
///
/// If the state in an update cannot be decoded, the `EventObject` dereferences to an earlier decodable state of the
/// object. The metadata of the `EventObject` still comes from the newest state. While the newest state is undecodable,
/// [`Lister::undecodable`](crate::Lister::undecodable) lists the object.
///
/// # Panics
///
/// Accessing the fields panics if the object's `Deserialize` implementation rejects a state that it accepted before.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_informer::EventObject;
/// use pintle_meta::{Object, ObjectMeta, PartialObject};
///
/// let pod = Arc::new(PartialObject { metadata: ObjectMeta::new("team-a", "web"), ..PartialObject::default() });
/// let object = EventObject::<PartialObject>::from(pod);
/// assert_eq!(object.key().as_str(), "team-a/web"); // Decodes nothing.
/// assert_eq!(object.metadata.name, "web"); // Decodes the object.
/// let pod: Arc<PartialObject> = Arc::clone(&object);
/// assert_eq!(pod.metadata.namespace, "team-a");
/// ```
pub struct EventObject<T> {
    state: Stored<T>,
    object: OnceLock<Arc<T>>,
    /// Keeps the decoded object in memory until the event has been handled. Clones of the event do not keep it in
    /// memory. If this lease is dropped before the object is read, a clone decodes the object again.
    _lease: Option<Lease<T>>,
}

impl<T> EventObject<T> {
    pub(crate) fn new(state: Stored<T>, lease: Option<Lease<T>>) -> Self {
        let object = match &state {
            Stored::Eager(object, _) => OnceLock::from(Arc::clone(object)),
            Stored::Lazy(_) => OnceLock::new(),
        };
        Self { state, object, _lease: lease }
    }

    /// Returns `true` if a reader of this `EventObject` has decoded an object that was stored as JSON.
    pub(crate) fn has_decoded(&self) -> bool {
        matches!(self.state, Stored::Lazy(_)) && self.object.get().is_some()
    }

    /// Returns the field managers of the newest write in this state of the object.
    pub(crate) fn last_write(&self) -> LastWrite {
        self.state.last_write()
    }

    /// Decodes and returns the object.
    pub fn into_arc(self) -> Arc<T> {
        Arc::clone(&self)
    }

    /// Returns `true` if both `EventObject`s refer to the same stored state. In an update caused by a resync, `old` and
    /// `new` refer to the same state.
    pub fn is_same(&self, other: &Self) -> bool {
        self.state.is_same(&other.state)
    }
}

impl<T> From<Arc<T>> for EventObject<T> {
    fn from(object: Arc<T>) -> Self {
        Self::new(object.into(), None)
    }
}

impl<T> Deref for EventObject<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        self.object.get_or_init(|| match self.state.read() {
            Some(object) => object,
            // A subscription delivers a state only after it has checked that the state can be read.
            None => {
                panic!("the Deserialize of {} rejects an object that it accepted before", std::any::type_name::<T>())
            }
        })
    }
}

impl<T> From<T> for EventObject<T> {
    fn from(object: T) -> Self {
        Arc::new(object).into()
    }
}

impl<T> From<EventObject<T>> for Arc<T> {
    fn from(object: EventObject<T>) -> Self {
        object.into_arc()
    }
}

impl<T: Object> Object for EventObject<T> {
    fn metadata(&self) -> &dyn Metadata {
        self.state.metadata()
    }
}

impl<T> Clone for EventObject<T> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), object: self.object.clone(), _lease: None }
    }
}

impl<T: Object> fmt::Debug for EventObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventObject").field(&self.key()).field(&self.resource_version()).finish()
    }
}
