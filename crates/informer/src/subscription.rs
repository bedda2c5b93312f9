//! Subscriptions to the events of an informer.

mod known;
mod newest;
mod queue;
mod unknown;
mod walk;

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

pub(crate) use self::known::DECODE_COST;
use self::known::KnownChange;
pub use self::newest::NewestSubscription;
pub(crate) use self::queue::{DeferredDrops, HashedState, Notification, Queue};
pub(crate) use self::walk::{Entry, Walk};
use crate::event::ResourceEvent;
use crate::event_object::EventObject;
use crate::panic::isolated;

/// Delivers an informer's events to one subscriber. Dropping the subscription unsubscribes from the informer.
///
/// A subscription first delivers a [`ResourceEvent::Added`] for each cached object. After the initial objects, the
/// subscription delivers each change after the cache has changed. An initial object is read from the cache when the
/// subscriber requests the event, so the event contains the object's current state. Superseded states of initial
/// objects stay in memory until the subscriber has read all initial objects, as with a [`Snapshot`](crate::Snapshot).
///
/// A slow subscriber does not delay the informer or other subscribers, and its backlog has a limit:
///
/// - By default, all updates of an object are merged. The `old` state of a queued update is the last delivered state,
///   and the `new` state is the newest state. If an object was updated and then deleted, the subscription delivers an
///   update to the last state, followed by the deletion. Events are queued in the order in which their keys first
///   changed. Both states of an event stay in memory until the subscriber receives the event. In the worst case, the
///   queue keeps two additional states of each object in memory. Use a [`NewestSubscription`] if you do not need old states.
/// - With [`subscribe_ordered`](crate::SharedInformer::subscribe_ordered), the subscription delivers every change in
///   order as long as fewer than `bound` changes are queued. If the limit is reached, a new change is merged into the
///   last queued change of its key. The merged change may arrive before earlier changes of other keys. The subscriber
///   always receives the final state of each object. [`status`](Self::status) returns the number of merged changes.
///
/// With [`handle_on_thread`](Self::handle_on_thread) and [`blocking_next`](Self::blocking_next), a thread without an
/// async runtime can receive the events.
///
/// When the informer stops, the subscription delivers the queued events and then ends.
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
    resyncs_changed: Arc<Notify>,
    pub(crate) informer: Arc<str>,
}

/// The backlog of a subscription: the events that are queued for the subscriber.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_informer::SharedInformer;
/// use pintle_meta::PartialObject;
///
/// /// Counts subscribers that have not taken a waiting event for a minute.
/// fn stuck(pods: &SharedInformer<PartialObject>) -> usize {
///     let age = |status: &pintle_informer::SubscriptionStatus| status.age.unwrap_or_default();
///     pods.subscriptions().iter().filter(|status| age(status) > Duration::from_secs(60)).count()
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionStatus {
    /// The number of queued events: see [`Subscription::len`].
    pub depth: usize,
    /// The time since the oldest queued event arrived or the subscriber last received an event, whichever is shorter.
    /// The age is `None` if no event is queued.
    pub age: Option<Duration>,
    /// The number of changes that were merged with queued changes of the same object, or cancelled by them.
    pub joined: u64,
    /// Whether the subscriber has handled all initial objects.
    pub has_synced: bool,
}

/// Reports when a subscriber has handled all initial objects of its [`Subscription`]. The handle may outlive the
/// subscription.
#[derive(Clone, Debug)]
pub struct SyncHandle {
    synced: watch::Receiver<bool>,
}

impl<T: Object> Subscription<T> {
    pub(crate) fn new(queue: Arc<Queue<T>>, resyncs_changed: Arc<Notify>, informer: Arc<str>) -> Self {
        Self { queue, resyncs_changed, informer }
    }

    pub(crate) fn queue(&self) -> Arc<Queue<T>> {
        self.queue.clone()
    }

    /// Sets the resync period of this subscription, or disables resyncs if `period` is `None`. Periods of less than one
    /// second are raised to one second. The first period starts when this method is called.
    ///
    /// After each period, the subscriber receives each object as an update with equal `old` and `new` states. Queued
    /// events are delivered first, and objects that change during the resync are skipped. A resync is skipped if the
    /// subscriber is still reading the initial objects or the objects of the previous resync. A resync does not send
    /// any requests to the server.
    pub fn set_resync(&mut self, period: Option<Duration>) {
        self.queue.set_resync(period.map(clamp_period));
        self.resyncs_changed.notify_one();
    }

    /// Waits for the next event. Returns `None` if the informer has stopped and all events have been delivered.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not lose an event.
    pub async fn next(&mut self) -> Option<ResourceEvent<T>> {
        poll_fn(|context| self.queue.poll_known(context)).await.map(event)
    }

    /// Like [`next`](Self::next), but blocks the thread until the next event arrives. This method does not require a
    /// runtime. Do not call this method from an async task.
    pub fn blocking_next(&mut self) -> Option<ResourceEvent<T>> {
        blocking(|context| self.queue.poll_known(context)).map(event)
    }

    /// Returns the next event if one is queued.
    pub fn try_next(&mut self) -> Option<ResourceEvent<T>> {
        self.queue.try_known().map(event)
    }

    /// Returns `true` if the subscriber has handled all initial objects. The last initial object is considered handled
    /// when the subscriber requests the next event. A subscription may sync later than the informer's cache.
    pub fn has_synced(&self) -> bool {
        *self.queue.synced.borrow()
    }

    /// Returns a handle with which other tasks can wait until the subscriber has handled all initial objects.
    pub fn sync_handle(&self) -> SyncHandle {
        self.queue.sync_handle()
    }

    /// Returns the backlog of the subscriber.
    pub fn status(&self) -> SubscriptionStatus {
        self.queue.status()
    }

    /// Returns the number of objects with queued events. A recreated object, and an object that was updated and then
    /// deleted, has several events. Initial objects and objects in a resync may change before they are delivered, and
    /// then have no event.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns `true` if no events are queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Object> Stream for Subscription<T> {
    type Item = ResourceEvent<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ResourceEvent<T>>> {
        self.queue.poll_known(context).map(|next| next.map(event))
    }
}

pintle_meta::debug_struct!(Subscription<T> |self| { has_synced = *self.queue.synced.borrow(), .. });

impl SyncHandle {
    /// Returns `true` if the subscriber has handled all initial objects.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the subscriber has handled all initial objects. Returns `false` if the subscription is dropped
    /// before the subscriber has handled all initial objects.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn synced(&mut self) -> bool {
        isolated(self.synced.wait_for(|synced| *synced)).await.is_ok()
    }
}

/// Converts a change into an event. The objects in the change must be decodable.
fn event<T: Object>(((_, change), lease): KnownChange<T>) -> ResourceEvent<T> {
    match change {
        Change::Added { object, is_initial } => {
            ResourceEvent::Added { object: EventObject::new(object, lease), is_initial }
        }
        Change::Updated { old, new } => {
            let new = EventObject::new(new, lease);
            // The queue of a `Subscription` keeps old states, so `old` is always present.
            let old = old.map_or_else(|| new.clone(), |old| EventObject::new(old, None));
            ResourceEvent::Updated { old, new }
        }
        Change::Deleted { object, final_state_known } => {
            ResourceEvent::Deleted { object: EventObject::new(object, lease), final_state_known }
        }
    }
}

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
            // No wake-up is lost, because `park` returns immediately if `unpark` was called after the poll.
            Poll::Pending => thread::park(),
        }
    }
}

pub(crate) fn clamp_period(period: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_secs(1);
    period.max(SHORTEST)
}
