//! Shared references to user-defined objects whose `Drop` may panic.

use std::ops::Deref;
use std::sync::Arc;

use crate::panic::catch;

/// A shared reference to a user-defined object. A panic in the object's `Drop` is caught and logged if it occurs when
/// the last reference is dropped.
pub(crate) struct CatchDrop<T> {
    object: Option<Arc<T>>,
}

const THERE: &str = "the object is present until the drop";

impl<T> From<Arc<T>> for CatchDrop<T> {
    fn from(object: Arc<T>) -> Self {
        Self { object: Some(object) }
    }
}

impl<T> CatchDrop<T> {
    /// Returns the `Arc`. If dropping the returned `Arc` drops the last reference, a panic in the object's `Drop` is
    /// not caught.
    pub(crate) fn into_arc(mut self) -> Arc<T> {
        self.object.take().expect(THERE)
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
        // `into_arc` has moved the object out of `self`.
        let Some(object) = self.object.take() else { return };
        if let Err(panic) = catch(|| drop(object)) {
            tracing::error!(object = std::any::type_name::<T>(), panic, "the Drop of an object panicked");
        }
    }
}
