//! A subscription for threads without a runtime.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use pintle_meta::Object;

use super::{Queue, Subscription};
use crate::event::ResourceEvent;
use crate::subscription::{SubscriptionStatus, SyncHandle};

/// A channel that delivers the events of a [`Subscription`] to threads without a runtime. A receiver may take as long
/// as it needs to handle an event.
///
/// A dedicated thread moves events into the channel, and waits while the channel is full. Further events wait in the
/// subscription. [`Subscription`] describes how many events can wait in it. Several threads may receive. Each event is
/// delivered to one receiver, so events of one key may be handled concurrently. When the informer stops, the channel
/// delivers the remaining events and then ends.
///
/// Dropping the `EventChannel` unsubscribes from the informer. Cloned receivers then receive only the events that are
/// still in the channel.
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
    /// The queue of the subscription. Only the channel's thread has a strong reference, so a failed upgrade means that
    /// the thread has ended.
    queue: Weak<Queue<T>>,
    synced: SyncHandle,
    /// Dropping this sender ends a thread that waits for space in the channel.
    _stop: Sender<()>,
}

impl<T: Object> Subscription<T> {
    /// Starts a thread that moves the events into a channel, which holds up to `capacity` events. With a capacity of 0,
    /// the thread hands each event directly to a receiver.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system if it cannot start a thread.
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
    /// Returns the receiver of the channel. The receiver can be cloned and used in [`select!`].
    ///
    /// [`select!`]: https://docs.rs/crossbeam-channel/0.5/crossbeam_channel/macro.select.html
    pub fn receiver(&self) -> &Receiver<ResourceEvent<T>> {
        &self.events
    }

    /// Returns a handle that reports when all initial events were moved into the channel. If the capacity is 0, this
    /// means that receivers have received these events. The handle does not report whether receivers have handled these
    /// events.
    pub fn sync_handle(&self) -> SyncHandle {
        self.synced.clone()
    }

    /// Returns the backlog of the subscription. The backlog does not include the events in the channel. The backlog is
    /// empty after the informer has ended.
    pub fn status(&self) -> SubscriptionStatus {
        self.queue.upgrade().map(|queue| queue.status()).unwrap_or_default()
    }
}

impl<T: Object> Drop for EventChannel<T> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.disconnect();
        }
    }
}

impl<T: Object> fmt::Debug for EventChannel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").field("status", &self.status()).finish_non_exhaustive()
    }
}
