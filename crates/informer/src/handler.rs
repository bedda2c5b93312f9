//! Handlers: what is called with the events of an informer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use pintle_meta::Object;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::panic::catch;
use crate::{ResourceEvent, SharedInformer, Subscription, SyncHandle};

/// Is called with what changes: client-go's `ResourceEventHandler`.
///
/// One call at a time, in order. A handler should be quick where it runs on a thread of the runtime: to do more, put the key into a
/// queue, or let it have [a thread of its own](SharedInformer::handle_on_thread).
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
    /// An object that the handler did not know: see [`ResourceEvent::Added`].
    fn on_add(&self, object: &Arc<T>, is_initial: bool);

    /// An object changed: see [`ResourceEvent::Updated`].
    fn on_update(&self, old: &Arc<T>, new: &Arc<T>);

    /// An object is gone: see [`ResourceEvent::Deleted`].
    fn on_delete(&self, object: &Arc<T>, final_state_known: bool);
}

/// Any function of an event is a handler.
impl<T: 'static, F: Fn(&ResourceEvent<T>) + Send + Sync + 'static> ResourceEventHandler<T> for F {
    fn on_add(&self, object: &Arc<T>, is_initial: bool) {
        self(&ResourceEvent::Added { object: object.clone(), is_initial });
    }

    fn on_update(&self, old: &Arc<T>, new: &Arc<T>) {
        self(&ResourceEvent::Updated { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&self, object: &Arc<T>, final_state_known: bool) {
        self(&ResourceEvent::Deleted { object: object.clone(), final_state_known });
    }
}

/// Shows a handler only the objects that pass a filter: client-go's `FilteringResourceEventHandler`.
///
/// An object that comes to pass the filter is added in the handler's eyes, and one that ceases to is deleted, in its last
/// state that passed.
#[derive(Clone, Copy, Debug)]
pub struct FilteringResourceEventHandler<F, H> {
    filter: F,
    handler: H,
}

impl<F, H> FilteringResourceEventHandler<F, H> {
    /// Shows `handler` what `filter` is true of.
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

/// A registered handler. Dropping it removes the handler; a call under way comes to its end, and no other follows.
#[must_use = "dropping the guard removes the handler"]
pub struct HandlerGuard {
    synced: SyncHandle,
    worker: Worker,
}

/// Who calls a handler.
enum Worker {
    Task(JoinHandle<()>),
    Thread { dismiss: Box<dyn Fn() + Send + Sync>, ended: oneshot::Receiver<()> },
}

impl<T: Object> SharedInformer<T> {
    /// Calls `handler` with each event of a subscription, in a task of its own, until the guard is dropped or the informer
    /// has stopped.
    ///
    /// An event at which the handler panics is skipped, and after a second the next one follows.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn add_event_handler(&self, handler: impl ResourceEventHandler<T>) -> HandlerGuard {
        self.handle(self.subscribe(), handler)
    }

    /// Calls `handler` with the events of this subscription to the informer, such as one with
    /// [a resync period of its own](Subscription::set_resync).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn handle(&self, subscription: Subscription<T>, handler: impl ResourceEventHandler<T>) -> HandlerGuard {
        let synced = subscription.sync_handle();
        let task = tokio::spawn(handle(self.name().to_owned(), subscription, handler));
        HandlerGuard { synced, worker: Worker::Task(task) }
    }

    /// Calls `handler` with the events of this subscription to the informer on a thread of its own, where it may block. It needs no
    /// runtime. What waits meanwhile waits in the subscription, by whose rules it is bounded.
    ///
    /// # Errors
    ///
    /// That of the operating system, if it gives no thread.
    pub fn handle_on_thread(
        &self,
        mut subscription: Subscription<T>,
        handler: impl ResourceEventHandler<T>,
    ) -> io::Result<HandlerGuard> {
        let synced = subscription.sync_handle();
        let queue = Arc::downgrade(&subscription.queue());
        let informer = self.name().to_owned();
        let ((dismissal, dismissed), (end, ended)) = (bounded(1), oneshot::channel());
        thread::Builder::new().name("informer-handler".into()).spawn(move || {
            while let Some(event) = subscription.blocking_next() {
                if !call(&informer, &handler, &event) && dismissed.recv_timeout(AFTER_PANIC).is_ok() {
                    break;
                }
            }
            drop((subscription, handler));
            // Nobody need wait for it.
            let _ = end.send(());
        })?;
        let dismiss = Box::new(move || {
            if let Some(queue) = queue.upgrade() {
                queue.hang_up();
            }
            // There is room for the one that counts.
            let _ = dismissal.try_send(());
        });
        Ok(HandlerGuard { synced, worker: Worker::Thread { dismiss, ended } })
    }
}

impl HandlerGuard {
    /// Whether the handler has been through all objects that were there at the beginning, those on which it panicked included.
    pub fn has_synced(&self) -> bool {
        self.synced.has_synced()
    }

    /// Waits for that. False: the informer stopped before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn synced(&mut self) -> bool {
        self.synced.synced().await
    }

    /// Removes the handler, and waits for the end of a call that is under way.
    ///
    /// # Cancel safety
    ///
    /// The handler is removed at the first poll, even if the future is dropped then.
    pub async fn remove(mut self) {
        self.worker.dismiss();
        match &mut self.worker {
            // It was aborted, and what it says of that is no news.
            Worker::Task(task) => _ = task.await,
            // It has ended either way.
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

impl fmt::Debug for HandlerGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerGuard").field("has_synced", &self.has_synced()).finish_non_exhaustive()
    }
}

/// How long a handler that panicked is left alone.
const AFTER_PANIC: Duration = Duration::from_secs(1);

async fn handle<T: Object>(informer: String, mut events: Subscription<T>, handler: impl ResourceEventHandler<T>) {
    while let Some(event) = events.next().await {
        if !call(&informer, &handler, &event) {
            sleep(AFTER_PANIC).await;
        }
        tokio::task::coop::consume_budget().await;
    }
}

/// Whether the handler came through it.
fn call<T: Object>(informer: &str, handler: &impl ResourceEventHandler<T>, event: &ResourceEvent<T>) -> bool {
    let handled = catch(|| match event {
        ResourceEvent::Added { object, is_initial } => handler.on_add(object, *is_initial),
        ResourceEvent::Updated { old, new } => handler.on_update(old, new),
        ResourceEvent::Deleted { object, final_state_known } => handler.on_delete(object, *final_state_known),
    });
    if let Err(panic) = &handled {
        tracing::error!(%informer, ?event, panic, "an event handler panicked, and the event is skipped");
    }
    handled.is_ok()
}
