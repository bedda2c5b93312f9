//! The events of an informer for one listener.

mod channel;
mod newest;
mod queue;
mod walk;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_core::Stream;
use pintle_delta_fifo::Change;
use pintle_meta::Object;
use tokio::sync::{Notify, watch};

pub use self::channel::EventChannel;
pub use self::newest::NewestSubscription;
use self::queue::Told;
pub(crate) use self::queue::{Aftermath, News, Queue, Seen};
pub(crate) use self::walk::{Entry, Walk};
use crate::ResourceEvent;
use crate::guarded::Guarded;
use crate::panic::isolated;

/// The events of an informer for one listener. Dropping it unsubscribes.
///
/// It begins with a [`ResourceEvent::Added`] for each object that is in the cache, and then tells each change, after the cache has
/// changed. What was there at the beginning is read when the listener asks for it, and in the state that it has by then: until it has
/// asked for all, what is superseded stays in memory, as for a [`Snapshot`](crate::Snapshot).
///
/// What is held back for a slow listener is bounded, and it holds up nobody:
///
/// - by default, at most one event a key, from what the listener was told last to the newest state, in the order in which the keys
///   first changed. Since it tells both, an object that the listener has been told of and that has changed is held in both states until
///   the event is taken: at worst, a second state of all objects that it knows. Who does not look at what was before spares that with a
///   [`NewestSubscription`];
/// - if it was made by [`subscribe_ordered`](crate::SharedInformer::subscribe_ordered), each change, in the order of all, up to a bound.
///   Beyond that, a change joins the last one of its key that waits, and comes before what was between them. So no listener misses
///   how it ended; [`status`](Self::status) tells how many changes were joined.
///
/// A [`NewestSubscription`] leaves out what was before, and an [`EventChannel`] brings the events to threads without a runtime.
///
/// It ends when the informer stops, after what was still to be told.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, ResourceEvent, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///     let informer = SharedInformer::new(pods.clone(), InformerConfig::default());
///
///     let mut events = informer.subscribe();
///     informer.start();
///     assert!(matches!(events.next().await, Some(ResourceEvent::Added { is_initial: true, .. })));
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-2"}}));
///     assert!(matches!(events.next().await, Some(ResourceEvent::Added { is_initial: false, .. })));
///     informer.shutdown().await;
///     assert!(events.next().await.is_none());
///     Ok(())
/// }
/// ```
pub struct Subscription<T> {
    queue: Arc<Queue<T>>,
    /// Whom to tell that it may be due before all others.
    resyncs_changed: Arc<Notify>,
}

/// How a listener keeps up.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_informer::SharedInformer;
/// use pintle_meta::PartialObject;
///
/// /// The listeners that have not come for a minute, though something waits for them.
/// fn stuck(pods: &SharedInformer<PartialObject>) -> usize {
///     let age = |status: &pintle_informer::SubscriptionStatus| status.age.unwrap_or_default();
///     pods.subscriptions().iter().filter(|status| age(status) > Duration::from_secs(60)).count()
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionStatus {
    /// How many events wait: see [`Subscription::len`].
    pub depth: usize,
    /// How long something has waited for the listener to take it: since it took the last event, or since something came after that.
    /// None: nothing waits.
    pub age: Option<Duration>,
    /// How many changes it does not hear of one by one, since they joined others that waited, or came and went.
    pub joined: u64,
    /// Whether it is through with what was there at the beginning.
    pub has_synced: bool,
}

/// Tells whether a [`Subscription`] has handed out all that was there at its beginning. It outlives the subscription.
#[derive(Clone, Debug)]
pub struct SyncHandle {
    synced: watch::Receiver<bool>,
}

impl<T: Object> Subscription<T> {
    pub(crate) fn new(queue: Arc<Queue<T>>, resyncs_changed: Arc<Notify>) -> Self {
        Self { queue, resyncs_changed }
    }

    pub(crate) fn queue(&self) -> Arc<Queue<T>> {
        self.queue.clone()
    }

    /// Gives it a resync period of its own: each time that long passes, from now on, each object is told as an update of itself,
    /// so that the listener may look at it again; but for those that change meanwhile, and not before what waits already. A listener that
    /// is not through with its beginning or the round before is not reminded. This does not ask the server for anything. `None` for never;
    /// less than a second counts as a second.
    pub fn set_resync(&mut self, period: Option<Duration>) {
        self.queue.set_resync(period.map(at_least_the_shortest));
        self.resyncs_changed.notify_one();
    }

    /// Waits for the next event. None: the informer has stopped, and everything has been told.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<ResourceEvent<T>> {
        poll_fn(|context| self.queue.poll_next(context)).await.map(event)
    }

    /// Waits for the next event by blocking the thread. It needs no runtime, and must not be called on one's threads.
    pub fn blocking_next(&mut self) -> Option<ResourceEvent<T>> {
        blocking(|context| self.queue.poll_next(context)).map(event)
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<ResourceEvent<T>> {
        self.queue.try_next().map(event)
    }

    /// Whether the listener is through with all objects that were there at the beginning: it has taken them all, and asked
    /// for an event after that. That the cache is complete does not mean that its listeners know it.
    pub fn has_synced(&self) -> bool {
        *self.queue.synced.borrow()
    }

    /// A handle by which others can wait for [`has_synced`](Self::has_synced).
    pub fn sync_handle(&self) -> SyncHandle {
        self.queue.sync_handle()
    }

    /// How the listener keeps up.
    pub fn status(&self) -> SubscriptionStatus {
        self.queue.status()
    }

    /// How many events wait; less, where objects of the beginning or of a resync have changed since.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Object> Stream for Subscription<T> {
    type Item = ResourceEvent<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ResourceEvent<T>>> {
        self.queue.poll_next(context).map(|told| told.map(event))
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("has_synced", &*self.queue.synced.borrow()).finish_non_exhaustive()
    }
}

impl SyncHandle {
    /// Whether the listener is through with all objects that were there at the beginning.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits for that. False: the subscription was dropped before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn synced(&mut self) -> bool {
        isolated(self.synced.wait_for(|synced| *synced)).await.is_ok()
    }
}

fn event<T: Object>((_, change): Told<T>) -> ResourceEvent<T> {
    match change {
        Change::Added { object, is_initial } => ResourceEvent::Added { object: object.into_arc(), is_initial },
        Change::Updated { old, new } => {
            let new = new.into_arc();
            // The queue of a subscription knows what was before.
            ResourceEvent::Updated { old: old.map_or_else(|| new.clone(), Guarded::into_arc), new }
        }
        Change::Deleted { object, final_state_known } => {
            ResourceEvent::Deleted { object: object.into_arc(), final_state_known }
        }
    }
}

/// Waits by blocking the thread.
fn blocking<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ready) => return ready,
            // To be unparked before is to return at once, so no wake-up is lost between the look and the wait.
            Poll::Pending => thread::park(),
        }
    }
}

/// Reminders more often than once a second are a mistake.
pub(crate) fn at_least_the_shortest(period: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_secs(1);
    period.max(SHORTEST)
}
