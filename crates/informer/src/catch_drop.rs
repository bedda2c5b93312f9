//! Shared references to users' objects whose `Drop` may panic.

use std::ops::Deref;
use std::sync::Arc;

use crate::panic::catch;

/// A shared reference to a user's object. When the last reference is dropped, the object is dropped too, and a panic of
/// the object's `Drop` is caught.
pub(crate) struct CatchDrop<T> {
    /// The field is `None` only while this value is dropped.
    object: Option<Arc<T>>,
}

/// Only this `drop` takes the object out of the option.
const THERE: &str = "the object is present until the drop";

impl<T> From<Arc<T>> for CatchDrop<T> {
    fn from(object: Arc<T>) -> Self {
        Self { object: Some(object) }
    }
}

impl<T> Deref for CatchDrop<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        self.object.as_ref().expect(THERE)
    }
}

impl<T> Clone for CatchDrop<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone() }
    }
}

impl<T> Drop for CatchDrop<T> {
    fn drop(&mut self) {
        let object = self.object.take();
        if let Err(panic) = catch(|| drop(object)) {
            tracing::error!(object = std::any::type_name::<T>(), panic, "the Drop of an object panicked");
        }
    }
}
