//! A subscription for plain threads.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use pintle_meta::Object;

use super::{Queue, Subscription};
use crate::{ResourceEvent, SubscriptionStatus, SyncHandle};

/// The events of a [`Subscription`] in a channel, for threads without a runtime, which may take as long over one as they like.
///
/// A thread of its own moves the events into the channel, and waits where that is full; what waits beyond that, waits in the
/// subscription, by whose rules it is bounded. Several threads may receive: each event comes to one of them, so that events of one key
/// may be handled at one time. The channel ends when the informer has stopped, after what was still to be told.
///
/// Dropping it unsubscribes. Receivers that were cloned then get what is in the channel, and no more.
///
/// # Examples
///
/// ```
/// use std::thread;
///
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     let channel = informer.subscribe().into_channel(16)?;
///     let worker = thread::spawn(move || channel.receiver().iter().map(|event| event.key()).collect::<Vec<_>>());
///
///     informer.start();
///     informer.wait_for_sync().await?;
///     informer.shutdown().await;
///     assert_eq!(worker.join().unwrap().len(), 1);
///     Ok(())
/// }
/// ```
pub struct EventChannel<T: Object> {
    events: Receiver<ResourceEvent<T>>,
    /// The thread's, so that its end is seen.
    queue: Weak<Queue<T>>,
    synced: SyncHandle,
    /// Dropped to end a thread that waits for room.
    _stop: Sender<()>,
}

impl<T: Object> Subscription<T> {
    /// Hands the events on to plain threads, by a channel with room for `capacity` of them; 0: each is handed over in person.
    ///
    /// # Errors
    ///
    /// That of the operating system, if it gives no thread.
    pub fn into_channel(mut self, capacity: usize) -> io::Result<EventChannel<T>> {
        let (sender, events) = bounded(capacity);
        let (stop, stopped) = bounded::<()>(0);
        let (queue, synced) = (Arc::downgrade(&self.queue), self.sync_handle());
        thread::Builder::new().name("informer-events".into()).spawn(move || {
            while let Some(event) = self.blocking_next() {
                let is_sent = select! {
                    send(sender, event) -> sent => sent.is_ok(),
                    recv(stopped) -> _ => false,
                };
                if !is_sent {
                    return;
                }
            }
        })?;
        Ok(EventChannel { events, queue, synced, _stop: stop })
    }
}

impl<T: Object> EventChannel<T> {
    /// The end from which to receive, alone or in a [`select!`]. It may be cloned.
    ///
    /// [`select!`]: https://docs.rs/crossbeam-channel/0.5/crossbeam_channel/macro.select.html
    pub fn receiver(&self) -> &Receiver<ResourceEvent<T>> {
        &self.events
    }

    /// Tells whether all that was there at the beginning has gone into the channel, and with a capacity of 0, was received. When a
    /// receiver is through with it, only that one knows.
    pub fn sync_handle(&self) -> SyncHandle {
        self.synced.clone()
    }

    /// How the receivers keep up, without what is in the channel; empty after its end.
    pub fn status(&self) -> SubscriptionStatus {
        self.queue.upgrade().map(|queue| queue.status()).unwrap_or_default()
    }
}

impl<T: Object> Drop for EventChannel<T> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.hang_up();
        }
    }
}

impl<T: Object> fmt::Debug for EventChannel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").field("status", &self.status()).finish_non_exhaustive()
    }
}
