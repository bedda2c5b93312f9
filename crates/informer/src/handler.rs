//! Event handlers.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use pintle_meta::Object;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::event::ResourceEvent;
use crate::panic::catch;
use crate::shared_informer::SharedInformer;
use crate::subscription::{DECODE_COST, Subscription, SyncHandle};

/// Receives an informer's events, like client-go's `ResourceEventHandler`.
///
/// The informer calls a handler with one event at a time, in order. A handler that runs on a runtime thread must return
/// quickly. For longer work, add the key to a work queue, or run the handler on [a dedicated
/// thread](Subscription::handle_on_thread).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_informer::{InformerConfig, ResourceEventHandler, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// struct Print;
///
/// impl ResourceEventHandler<PartialObject> for Print {
///     fn on_add(&self, pod: &Arc<PartialObject>, _is_initial: bool) {
///         println!("{} is there", pod.metadata.name);
///     }
///     fn on_update(&self, _old: &Arc<PartialObject>, _new: &Arc<PartialObject>) {}
///     fn on_delete(&self, _pod: &Arc<PartialObject>, _final_state_known: bool) {}
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     let mut handler = informer.add_event_handler(Print);
///     informer.start();
///     assert!(handler.synced().await); // It has been called with web-1.
///     handler.remove().await;
///     Ok(())
/// }
/// ```
pub trait ResourceEventHandler<T>: Send + Sync + 'static {
    /// Handles an object that is new to the handler: see [`ResourceEvent::Added`].
    fn on_add(&self, object: &Arc<T>, is_initial: bool);

    /// Handles a change of an object from the state `old` to the state `new`: see [`ResourceEvent::Updated`].
    fn on_update(&self, old: &Arc<T>, new: &Arc<T>);

    /// Handles the deletion of an object: see [`ResourceEvent::Deleted`].
    fn on_delete(&self, object: &Arc<T>, final_state_known: bool);

    /// Handles an event. The informer calls this method with each event. The default implementation decodes the objects
    /// in the event and calls `on_add`, `on_update` or `on_delete`. Override this method if the handler needs only keys
    /// or metadata. Reading keys and metadata [does not decode the object](crate::EventObject). `on_add`, `on_update`
    /// and `on_delete` are called only if the override calls them.
    fn on_event(&self, event: &ResourceEvent<T>) {
        match event {
            ResourceEvent::Added { object, is_initial } => self.on_add(object, *is_initial),
            ResourceEvent::Updated { old, new } => self.on_update(old, new),
            ResourceEvent::Deleted { object, final_state_known } => self.on_delete(object, *final_state_known),
        }
    }
}

/// A closure that takes an event as its argument is a handler. If objects are decoded on read, the event's object is
/// decoded when the closure accesses its fields.
impl<T: 'static, F: Fn(&ResourceEvent<T>) + Send + Sync + 'static> ResourceEventHandler<T> for F {
    fn on_add(&self, object: &Arc<T>, is_initial: bool) {
        self(&ResourceEvent::Added { object: object.clone().into(), is_initial });
    }

    fn on_update(&self, old: &Arc<T>, new: &Arc<T>) {
        self(&ResourceEvent::Updated { old: old.clone().into(), new: new.clone().into() });
    }

    fn on_delete(&self, object: &Arc<T>, final_state_known: bool) {
        self(&ResourceEvent::Deleted { object: object.clone().into(), final_state_known });
    }

    fn on_event(&self, event: &ResourceEvent<T>) {
        self(event);
    }
}

/// A handler that forwards only objects that match a filter, like client-go's `FilteringResourceEventHandler`.
///
/// If an object matches the filter after an update but not before, `on_add` of the inner handler is called. If an
/// object stops matching the filter, `on_delete` is called with the last matching state.
#[derive(Clone, Copy, Debug)]
pub struct FilteringResourceEventHandler<F, H> {
    filter: F,
    handler: H,
}

impl<F, H> FilteringResourceEventHandler<F, H> {
    /// Creates a handler that forwards only objects for which `filter` returns `true`.
    pub fn new(filter: F, handler: H) -> Self {
        Self { filter, handler }
    }
}

impl<T: 'static, F, H> ResourceEventHandler<T> for FilteringResourceEventHandler<F, H>
where
    F: Fn(&T) -> bool + Send + Sync + 'static,
    H: ResourceEventHandler<T>,
{
    fn on_add(&self, object: &Arc<T>, is_initial: bool) {
        if (self.filter)(object) {
            self.handler.on_add(object, is_initial);
        }
    }

    fn on_update(&self, old: &Arc<T>, new: &Arc<T>) {
        match ((self.filter)(old), (self.filter)(new)) {
            (true, true) => self.handler.on_update(old, new),
            (false, true) => self.handler.on_add(new, false),
            (true, false) => self.handler.on_delete(old, true),
            (false, false) => {}
        }
    }

    fn on_delete(&self, object: &Arc<T>, final_state_known: bool) {
        if (self.filter)(object) {
            self.handler.on_delete(object, final_state_known);
        }
    }
}

/// Keeps an event handler registered. Dropping the guard removes the handler. A call of the handler that is in progress
/// finishes, but the handler is not called again.
#[must_use = "dropping the guard removes the handler"]
pub struct HandlerGuard {
    synced: SyncHandle,
    worker: Worker,
}

enum Worker {
    Task(JoinHandle<()>),
    Thread { dismiss: Box<dyn Fn() + Send + Sync>, ended: oneshot::Receiver<()> },
}

impl<T: Object> SharedInformer<T> {
    /// Subscribes to the informer and calls `handler` for each event in a separate task. The task ends when the
    /// returned guard is dropped or the informer has stopped.
    ///
    /// If the handler panics on an event, the event is skipped, and the handler receives the next event after a pause
    /// of one second.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn add_event_handler(&self, handler: impl ResourceEventHandler<T>) -> HandlerGuard {
        self.subscribe().handle(handler)
    }
}

impl<T: Object> Subscription<T> {
    /// Calls `handler` for each event of this subscription, like [`SharedInformer::add_event_handler`]. Use this method
    /// if the subscription needs other settings, such as [a resync period](Self::set_resync).
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn handle(self, handler: impl ResourceEventHandler<T>) -> HandlerGuard {
        let synced = self.sync_handle();
        let task = tokio::spawn(handle(self, handler));
        HandlerGuard { synced, worker: Worker::Task(task) }
    }

    /// Calls `handler` for each event of this subscription, on a separate thread. The handler may block this thread.
    /// `handle_on_thread` does not require a tokio runtime. While `handler` runs, the subscription queues new events,
    /// up to the limit that [`Subscription`] describes.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error if it cannot start a thread.
    pub fn handle_on_thread(mut self, handler: impl ResourceEventHandler<T>) -> io::Result<HandlerGuard> {
        let synced = self.sync_handle();
        let queue = Arc::downgrade(&self.queue());
        let ((dismissal, dismissed), (end, ended)) = (bounded(1), oneshot::channel());
        thread::Builder::new().name("informer-handler".into()).spawn(move || {
            while let Some(event) = self.blocking_next() {
                if call(&self.informer, &handler, event).has_panicked && dismissed.recv_timeout(AFTER_PANIC).is_ok() {
                    break;
                }
            }
            drop((self, handler));
            // An error means that the receiver of `end` was already dropped.
            let _ = end.send(());
        })?;
        let dismiss = Box::new(move || {
            if let Some(queue) = queue.upgrade() {
                queue.disconnect();
            }
            // If the channel is full, it already contains a message, which the thread will receive.
            let _ = dismissal.try_send(());
        });
        Ok(HandlerGuard { synced, worker: Worker::Thread { dismiss, ended } })
    }
}

impl HandlerGuard {
    /// Returns `true` if the handler has processed all initial objects. An object on which the handler panicked also
    /// counts as processed.
    pub fn has_synced(&self) -> bool {
        self.synced.has_synced()
    }

    /// Waits until the handler has processed all initial objects. Returns `false` if the informer stops before the
    /// handler has processed all initial objects.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn synced(&mut self) -> bool {
        self.synced.synced().await
    }

    /// Removes the handler and waits until a call of the handler that is in progress has finished.
    ///
    /// # Cancel safety
    ///
    /// The handler is removed when the future is first polled, even if the future is dropped later.
    pub async fn remove(mut self) {
        self.worker.dismiss();
        match &mut self.worker {
            // Ignore the result: an error only means that the task was aborted.
            Worker::Task(task) => _ = task.await,
            // Ignore the result: an error only means that the thread has ended.
            Worker::Thread { ended, .. } => _ = ended.await,
        }
    }
}

impl Worker {
    fn dismiss(&self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::Thread { dismiss, .. } => dismiss(),
        }
    }
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.worker.dismiss();
    }
}

pintle_meta::debug_struct!(HandlerGuard |self| { has_synced = self.has_synced(), .. });

/// The pause after a handler has panicked, before the handler receives the next event.
const AFTER_PANIC: Duration = Duration::from_secs(1);

async fn handle<T: Object>(mut events: Subscription<T>, handler: impl ResourceEventHandler<T>) {
    while let Some(event) = events.next().await {
        let Called { has_panicked, has_decoded } = call(&events.informer, &handler, event);
        if has_panicked {
            sleep(AFTER_PANIC).await;
        }
        for _ in 0..if has_decoded { DECODE_COST } else { 1 } {
            tokio::task::coop::consume_budget().await;
        }
    }
}

struct Called {
    has_panicked: bool,
    has_decoded: bool,
}

fn call<T: Object>(informer: &str, handler: &impl ResourceEventHandler<T>, event: ResourceEvent<T>) -> Called {
    let handled = catch(|| handler.on_event(&event));
    if let Err(panic) = &handled {
        tracing::error!(%informer, ?event, panic, "an event handler panicked; skipping the event");
    }
    let called = Called { has_panicked: handled.is_err(), has_decoded: event.has_decoded() };
    // Dropping the event may drop the last reference to an object, and the object's `Drop` is user code.
    if let Err(panic) = catch(|| drop(event)) {
        tracing::error!(%informer, object = std::any::type_name::<T>(), panic, "the Drop of an object panicked");
    }
    called
}
