//! Shared references to users' objects whose `Drop` may panic.

use std::ops::Deref;
use std::sync::Arc;

use crate::panic::catch;
use crate::store::Value;

/// A shared reference to a user's object. The last reference drops the object and catches a panic of the object's
/// `Drop`.
pub(crate) struct CatchDrop<T> {
    /// `None` after `into_arc`.
    object: Option<Arc<T>>,
}

impl<T> CatchDrop<T> {
    pub(crate) fn into_arc(mut self) -> Arc<T> {
        self.object.take().expect(THERE)
    }
}

/// `object` is `Some` until a method that consumes `self` takes it.
const THERE: &str = "the object is present until it is taken";

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

impl<T> Value for CatchDrop<T> {
    fn warm(&self) -> bool {
        Arc::strong_count(self) > 0
    }
}
