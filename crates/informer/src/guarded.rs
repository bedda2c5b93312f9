//! Objects of a user's in our hands.

use std::ops::Deref;
use std::sync::Arc;

use crate::panic::catch;
use crate::store::Value;

/// An object that is shared with users, and may be dropped where it lies last: their `Drop` may panic, which costs nobody anything else.
pub(crate) struct Guarded<T> {
    /// None: it has been given away.
    object: Option<Arc<T>>,
}

impl<T> Guarded<T> {
    /// For a user.
    pub(crate) fn into_arc(mut self) -> Arc<T> {
        self.object.take().expect(THERE)
    }
}

/// It is taken by what takes the whole of it.
const THERE: &str = "an object is there until it is given away";

impl<T> From<Arc<T>> for Guarded<T> {
    fn from(object: Arc<T>) -> Self {
        Self { object: Some(object) }
    }
}

impl<T> Deref for Guarded<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        self.object.as_ref().expect(THERE)
    }
}

impl<T> Clone for Guarded<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone() }
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let object = self.object.take();
        if let Err(panic) = catch(|| drop(object)) {
            tracing::error!(
                object = std::any::type_name::<T>(),
                panic,
                "the Drop of an object panicked; the others go on"
            );
        }
    }
}

impl<T> Value for Guarded<T> {
    fn warm(&self) -> bool {
        Arc::strong_count(self) > 0
    }
}
