//! Subscriptions that deliver only the newest state of each object.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_delta_fifo::Change;
use pintle_meta::{Object, ObjectKey};

use super::known::KnownChange;
use super::{Queue, blocking};
use crate::subscription::{SubscriptionStatus, SyncHandle};

/// Delivers the newest state of each changed object, or `None` if the object was deleted.
///
/// Unlike a [`Subscription`](crate::Subscription), a `NewestSubscription` does not keep or deliver previous states.
/// Objects are decoded before they are delivered. Dropping the subscription unsubscribes from the informer. When the
/// informer stops, the subscription delivers the queued events and then ends.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, ObjectKey, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///     let informer = SharedInformer::new(pods.clone(), InformerConfig::default());
///     let mut newest = informer.subscribe_newest();
///     informer.start();
///
///     let web = ObjectKey::new("team-a", "web-1");
///     assert!(matches!(newest.next().await, Some((key, Some(_))) if key == web));
///     pods.remove(&web);
///     assert!(matches!(newest.next().await, Some((key, None)) if key == web));
///     Ok(())
/// }
/// ```
pub struct NewestSubscription<T> {
    queue: Arc<Queue<T>>,
}

impl<T: Object> NewestSubscription<T> {
    pub(crate) fn new(queue: Arc<Queue<T>>) -> Self {
        Self { queue }
    }

    /// Waits for the next changed object. Returns `None` if the informer has stopped and all events have been
    /// delivered.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not lose an event.
    pub async fn next(&mut self) -> Option<(ObjectKey, Option<Arc<T>>)> {
        poll_fn(|context| self.queue.poll_known(context)).await.map(newest)
    }

    /// Like [`next`](Self::next), but blocks the thread until the next changed object arrives. This method does not
    /// require a runtime. Do not call this method from an async task.
    pub fn blocking_next(&mut self) -> Option<(ObjectKey, Option<Arc<T>>)> {
        blocking(|context| self.queue.poll_known(context)).map(newest)
    }

    /// Returns the next changed object if one is queued.
    pub fn try_next(&mut self) -> Option<(ObjectKey, Option<Arc<T>>)> {
        self.queue.try_known().map(newest)
    }

    /// Returns a handle with which other tasks can wait until the subscriber has handled all initial objects.
    pub fn sync_handle(&self) -> SyncHandle {
        self.queue.sync_handle()
    }

    /// Returns the backlog of the subscriber.
    pub fn status(&self) -> SubscriptionStatus {
        self.queue.status()
    }
}

impl<T: Object> Stream for NewestSubscription<T> {
    type Item = (ObjectKey, Option<Arc<T>>);

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll_known(context).map(|next| next.map(newest))
    }
}

pintle_meta::debug_struct!(NewestSubscription<T: Object> |self| { status = self.status(), .. });

fn newest<T>(((key, change), _lease): KnownChange<T>) -> (ObjectKey, Option<Arc<T>>) {
    match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => (key, object.read()),
        Change::Deleted { .. } => (key, None),
    }
}
