//! The events of an informer for one listener.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures_core::Stream;
use pintle_delta_fifo::{Change, CoalescingFifo, Delivery};
use pintle_meta::{Object, ObjectKey};
use tokio::sync::{Notify, watch};

use crate::ResourceEvent;
use crate::driver::now;

/// The events of an informer for one listener. Dropping it unsubscribes.
///
/// It begins with a [`ResourceEvent::Added`] for each object that is in the cache, and then tells each change, after the cache has
/// changed. What it holds back for a slow listener is bounded: at most one event a key, from what the listener was told
/// last to the newest state.
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

/// Tells whether a [`Subscription`] has handed out all that was there at its beginning. It outlives the subscription.
#[derive(Clone, Debug)]
pub struct SyncHandle {
    synced: watch::Receiver<bool>,
}

/// The shared side of a subscription: an informer puts in, one listener takes out.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    synced: watch::Sender<bool>,
}

struct State<T> {
    fifo: CoalescingFifo<ObjectKey, Arc<T>>,
    /// Who waits for an entry. There is one at most, since taking needs `&mut Subscription`.
    waker: Option<Waker>,
    upstream_synced: bool,
    /// An initial event was handed out, and the listener has not asked for the next: it is still at work on it.
    initial_in_hand: bool,
    is_closed: bool,
    resync: Option<(Duration, Instant)>,
}

impl<T: Object> Subscription<T> {
    pub(crate) fn new(queue: Arc<Queue<T>>, resyncs_changed: Arc<Notify>) -> Self {
        Self { queue, resyncs_changed }
    }

    /// Gives it a resync period of its own: each time that long passes, from now on, each object is told as an update of itself,
    /// so that the listener may look at it again. This does not ask the server for anything. `None` for never; less than a
    /// second counts as a second.
    pub fn set_resync(&mut self, period: Option<Duration>) {
        self.queue.lock().set_resync(now(), period.map(at_least_the_shortest));
        self.resyncs_changed.notify_one();
    }

    /// Waits for the next event. None: the informer has stopped, and everything has been told.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<ResourceEvent<T>> {
        poll_fn(|context| self.queue.poll_next(context)).await
    }

    /// Waits for the next event by blocking the thread. It needs no runtime, and must not be called on one's threads.
    pub fn blocking_next(&mut self) -> Option<ResourceEvent<T>> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match self.queue.poll_next(&mut Context::from_waker(&waker)) {
                Poll::Ready(event) => return event,
                // To be unparked before is to return at once, so no wake-up is lost between the look and the wait.
                Poll::Pending => thread::park(),
            }
        }
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<ResourceEvent<T>> {
        self.queue.lock().pop(&self.queue.synced)
    }

    /// Whether the listener is through with all objects that were there at the beginning: it has taken them all, and asked
    /// for an event after that. That the cache is complete does not mean that its listeners know it.
    pub fn has_synced(&self) -> bool {
        *self.queue.synced.borrow()
    }

    /// A handle by which others can wait for [`has_synced`](Self::has_synced).
    pub fn sync_handle(&self) -> SyncHandle {
        SyncHandle { synced: self.queue.synced.subscribe() }
    }

    /// How many events wait.
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
        self.queue.poll_next(context)
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
        self.synced.wait_for(|synced| *synced).await.is_ok()
    }
}

impl<T: Object> Queue<T> {
    /// `resync` is how often to remind the listener of all objects.
    pub(crate) fn new(now: Instant, resync: Option<Duration>) -> Self {
        let mut state = State {
            fifo: CoalescingFifo::new(|old: &Arc<T>, new: &Arc<T>| old.uid() == new.uid(), Delivery::Coalesced),
            waker: None,
            upstream_synced: false,
            initial_in_hand: false,
            is_closed: false,
            resync: None,
        };
        state.set_resync(now, resync);
        Self { state: Mutex::new(state), synced: watch::Sender::new(false) }
    }

    /// Tells a listener that came late what is there.
    pub(crate) fn replay(&self, objects: Vec<Arc<T>>) {
        self.change(|state| objects.into_iter().for_each(|object| state.fifo.added(object.key(), object, true)));
    }

    pub(crate) fn added(&self, key: ObjectKey, object: Arc<T>, is_initial: bool) {
        self.change(|state| state.fifo.added(key, object, is_initial));
    }

    pub(crate) fn updated(&self, key: ObjectKey, old: Arc<T>, new: Arc<T>) {
        self.change(|state| state.fifo.updated(key, old, new));
    }

    pub(crate) fn deleted(&self, key: ObjectKey, known: Arc<T>, last: Arc<T>, final_state_known: bool) {
        self.change(|state| state.fifo.deleted(key, known, last, final_state_known));
    }

    /// Tells the listener of all these again.
    pub(crate) fn remind(&self, objects: Vec<Arc<T>>) {
        self.change(|state| objects.into_iter().for_each(|object| state.fifo.sync(object.key(), object)));
    }

    /// All initial events are in.
    pub(crate) fn upstream_synced(&self) {
        self.change(|state| state.upstream_synced = true);
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().fifo.len()
    }

    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.lock().resync.map(|(_, next)| next)
    }

    /// Whether the time has come; and if so, sets the next one.
    pub(crate) fn is_resync_due(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let Some((period, _)) = state.resync.filter(|(_, next)| *next <= now) else { return false };
        state.resync = now.checked_add(period).map(|next| (period, next));
        true
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<ResourceEvent<T>>> {
        let mut state = self.lock();
        if let Some(event) = state.pop(&self.synced) {
            return Poll::Ready(Some(event));
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let mut state = self.lock();
        change(&mut state);
        state.note_synced(&self.synced);
        let waker = if state.fifo.is_empty() && !state.is_closed { None } else { state.waker.take() };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// A period so long that the clock cannot count it is never.
    fn set_resync(&mut self, now: Instant, period: Option<Duration>) {
        self.resync = period.and_then(|period| Some((period, now.checked_add(period)?)));
    }

    fn pop(&mut self, synced: &watch::Sender<bool>) -> Option<ResourceEvent<T>> {
        let popped = self.fifo.pop();
        self.initial_in_hand = matches!(popped, Some((_, Change::Added { is_initial: true, .. })));
        self.note_synced(synced);
        popped.map(|(_, change)| change.into())
    }

    fn note_synced(&self, synced: &watch::Sender<bool>) {
        if self.upstream_synced && !self.initial_in_hand && self.fifo.initial_len() == 0 {
            synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}

/// Reminders more often than once a second are a mistake.
pub(crate) fn at_least_the_shortest(period: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_secs(1);
    period.max(SHORTEST)
}
