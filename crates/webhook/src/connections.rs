//! The server's open connections, and the rule for closing connections if there are too many.
//!
//! A connection counts as idle here if none of its requests has a complete body. Otherwise, clients could lock out other
//! clients with bodies that never end.
//!
//! Without an idle connection, the longest-lived connection closes. Its client may finish its requests, but new requests
//! do not keep it open. Otherwise, clients could lock out other clients with overlapping requests.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use pintle_meta::__private::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(crate) struct Connections {
    slots: Arc<Semaphore>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    next: u64,
    /// The tokens of open connections in the order in which they give way.
    open: BTreeMap<Place, CancellationToken>,
    /// The number of calls to `open` that wait for a connection slot.
    waiting: usize,
    /// The connections that the server is closing to free their slots, by their former key in `open`.
    closing: BTreeSet<Place>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The number grows with the start of the idle time.
    Idle(u64),
    /// The number grows with the start of the connection.
    Busy(u64),
}

struct Waiter<'a>(&'a Mutex<Shared>);

pub(crate) struct Connection {
    shared: Arc<Mutex<Shared>>,
    number: u64,
    activity: Mutex<Activity>,
    /// Cancelled when the server closes this connection to free its slot.
    give_way: CancellationToken,
    /// Cancelled when the client has not received a response in time.
    stuck: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

struct Activity {
    /// The number of all requests in flight.
    in_flight: usize,
    /// The number of requests in flight with complete bodies.
    complete: usize,
    /// The connection's current or last key in `open`.
    place: Place,
    since: Instant,
}

/// A request in flight, which ends when the `InFlight` is dropped.
pub(crate) struct InFlight {
    connection: Arc<Connection>,
    /// The server was already closing the connection when this request began.
    is_late: bool,
    is_complete: AtomicBool,
    ended: CancellationToken,
}

/// Bytes of a response that are not sent yet.
struct Unsent {
    bytes: Bytes,
    _request: Arc<InFlight>,
}

/// A request body that reports its end to the connection.
pub(crate) struct ReportedBody<B> {
    pub(crate) body: B,
    pub(crate) request: Arc<InFlight>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(limit)), shared: Arc::default() }
    }

    /// Adds a connection to the open connections. At the connection limit, it first closes the connection that has been
    /// idle longest, or else the longest-lived one. Returns `None` only if the semaphore is closed, which never happens.
    pub(crate) async fn open(&self) -> Option<Arc<Connection>> {
        let slot = match self.slots.clone().try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                let _waiter = Waiter::new(&self.shared);
                self.slots.clone().acquire_owned().await.ok()?
            }
        };
        let give_way = CancellationToken::new();
        let number = self.shared.lock().next();
        let place = Place::Idle(number);
        self.shared.lock().open.insert(place, give_way.clone());
        let activity = Mutex::new(Activity { in_flight: 0, complete: 0, place, since: Instant::now() });
        let (shared, stuck) = (self.shared.clone(), CancellationToken::new());
        Some(Arc::new(Connection { shared, number, activity, give_way, stuck, _slot: slot }))
    }
}

impl<'a> Waiter<'a> {
    fn new(shared: &'a Mutex<Shared>) -> Self {
        let first = {
            let mut shared = shared.lock();
            shared.waiting += 1;
            shared.close_first()
        };
        first.inspect(CancellationToken::cancel);
        Self(shared)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Shared {
    /// Returns the token of the next connection to close, if more calls wait for a slot than connections are closing.
    fn close_first(&mut self) -> Option<CancellationToken> {
        // A busy connection can take long to close, so it does not spare an idle one.
        let soon = self.closing.iter().filter(|place| matches!(place, Place::Idle(_))).count();
        if self.waiting <= soon {
            return None;
        }
        let (place, give_way) = self.open.pop_first()?;
        self.closing.insert(place);
        Some(give_way)
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Connection {
    pub(crate) fn request(self: &Arc<Self>) -> InFlight {
        self.activity.lock().in_flight += 1;
        let is_late = self.give_way.is_cancelled();
        InFlight {
            connection: self.clone(),
            is_late,
            is_complete: AtomicBool::new(false),
            ended: CancellationToken::new(),
        }
    }

    /// Records the end of a request. Returns the token of a connection to close, if the end frees one.
    fn ended(&self, was_complete: bool) -> Option<CancellationToken> {
        let mut activity = self.activity.lock();
        activity.in_flight -= 1;
        activity.since = Instant::now();
        activity.complete -= usize::from(was_complete);
        if !was_complete || activity.complete > 0 {
            return None;
        }
        let mut shared = self.shared.lock();
        let idle = Place::Idle(shared.next());
        let busy = std::mem::replace(&mut activity.place, idle);
        if let Some(give_way) = shared.open.remove(&busy) {
            shared.open.insert(idle, give_way);
            return shared.close_first();
        }
        shared.closing.remove(&busy);
        shared.closing.insert(idle);
        None
    }

    /// Returns whether a request is in flight that can still be served. A connection that gives way serves only earlier
    /// requests with complete bodies.
    pub(crate) fn is_busy(&self) -> bool {
        let activity = self.activity.lock();
        if self.give_way.is_cancelled() { activity.complete > 0 } else { activity.in_flight > 0 }
    }

    /// Waits until the client has not received a response in time.
    pub(crate) async fn is_stuck(&self) {
        self.stuck.cancelled().await;
    }

    #[cfg(test)]
    pub(crate) fn must_give_way(&self) -> bool {
        self.give_way.is_cancelled()
    }

    /// Waits until the server should close this connection, because its slot is needed or it has been idle for `limit`.
    pub(crate) async fn is_useless(&self, limit: Duration) {
        let idle = async {
            loop {
                let until = match *self.activity.lock() {
                    Activity { in_flight: 0, since, .. } if since.elapsed() >= limit => return,
                    Activity { in_flight: 0, since, .. } => since + limit,
                    _ => Instant::now() + limit,
                };
                sleep_until(until).await;
            }
        };
        tokio::select! {
            () = self.give_way.cancelled() => {}
            () = idle => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let place = self.activity.lock().place;
        let mut shared = self.shared.lock();
        shared.open.remove(&place);
        shared.closing.remove(&place);
    }
}

impl InFlight {
    /// Records that the body of the request is complete.
    pub(crate) fn complete(&self) {
        if self.is_late || self.is_complete.swap(true, Ordering::Relaxed) {
            return;
        }
        let other = {
            let mut activity = self.connection.activity.lock();
            activity.complete += 1;
            if activity.complete > 1 {
                return;
            }
            let idle = std::mem::replace(&mut activity.place, Place::Busy(self.connection.number));
            let mut shared = self.connection.shared.lock();
            if let Some(give_way) = shared.open.remove(&idle) {
                shared.open.insert(activity.place, give_way);
            }
            // The connection cannot close before the response, so another one gives way.
            if shared.closing.remove(&idle) { shared.close_first() } else { None }
        };
        other.inspect(CancellationToken::cancel);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.ended.cancel();
        let first = self.connection.ended(*self.is_complete.get_mut());
        first.inspect(CancellationToken::cancel);
    }
}

/// Keeps a request in flight until all bytes of the response are sent or dropped. After `limit`, the connection is stuck.
pub(crate) fn in_transit(
    body: Full<Bytes>,
    request: Arc<InFlight>,
    limit: Duration,
) -> impl Body<Data = Bytes, Error = Infallible> {
    let (ended, stuck) = (request.ended.clone(), request.connection.stuck.clone());
    // A separate task, because hyper does not poll a body without a window for it.
    tokio::spawn(async move {
        if timeout(limit, ended.cancelled()).await.is_err() {
            stuck.cancel();
        }
    });
    body.map_frame(move |frame| {
        // hyper drops the body before it has sent the last bytes, so the bytes own the request, too.
        frame.map_data(|bytes| Bytes::from_owner(Unsent { bytes, _request: request.clone() }))
    })
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<B: Body + Unpin> Body for ReportedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() {
            self.request.complete();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use futures_util::FutureExt;

    use super::*;

    const IDLE: Duration = Duration::from_secs(120);

    fn complete(connection: &Arc<Connection>) -> InFlight {
        let request = connection.request();
        request.complete();
        request
    }

    #[tokio::test]
    async fn oldest_busy_connection_gives_way_without_an_idle_one() {
        let connections = Connections::new(3);
        let first = connections.open().await.unwrap();
        let (second, idle) = (connections.open().await.unwrap(), connections.open().await.unwrap());
        // The first connection is the longest-lived one, although its request is newer.
        let (other, request) = (complete(&second), complete(&first));
        let mut waiting = Box::pin(connections.open());
        assert!((&mut waiting).now_or_never().is_none() && idle.must_give_way() && !first.must_give_way());
        drop(idle);
        let third = waiting.await.unwrap();
        let last = complete(&third);
        let mut waiting = Box::pin(connections.open());
        assert!((&mut waiting).now_or_never().is_none() && first.must_give_way() && first.is_busy());
        assert!(!second.must_give_way() && !third.must_give_way(), "one connection is enough for one client");
        drop((request, first));
        assert!(waiting.now_or_never().is_some());
        drop((other, last));
    }

    #[tokio::test]
    async fn connection_that_becomes_idle_gives_way_at_once() {
        let connections = Connections::new(2);
        let (slow, fast) = (connections.open().await.unwrap(), connections.open().await.unwrap());
        let (request, short) = (complete(&slow), complete(&fast));
        let mut waiting = Box::pin(connections.open());
        assert!((&mut waiting).now_or_never().is_none() && slow.must_give_way() && !fast.must_give_way());
        drop(short);
        assert!(fast.must_give_way(), "the longest-lived connection is still busy");
        drop(fast);
        assert!(waiting.now_or_never().is_some());
        drop((request, slow));
    }

    #[tokio::test]
    async fn new_requests_do_not_save_a_closing_connection() {
        let connections = Connections::new(1);
        let first = connections.open().await.unwrap();
        let request = complete(&first);
        let mut waiting = Box::pin(connections.open());
        assert!((&mut waiting).now_or_never().is_none());
        let late = complete(&first);
        assert!(first.is_busy());
        drop(request);
        assert!(!first.is_busy());
        drop((late, first));
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn body_that_ends_late_does_not_save_its_connection() {
        let connections = Connections::new(2);
        let (first, second) = (connections.open().await.unwrap(), connections.open().await.unwrap());
        let request = first.request();
        let mut waiting = Box::pin(connections.open());
        assert!((&mut waiting).now_or_never().is_none() && first.must_give_way() && !first.is_busy());
        request.complete();
        assert!(first.is_busy() && second.must_give_way(), "the client does not wait for the request");
        drop(second);
        let third = waiting.await.unwrap();
        drop(request);
        let mut waiting = Box::pin(connections.open());
        assert!(
            (&mut waiting).now_or_never().is_none() && !third.must_give_way(),
            "the first connection closes anyway"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_connection_gives_way() {
        let connections = Connections::new(2);
        let (busy, idle) = (connections.open().await.unwrap(), connections.open().await.unwrap());
        let request = complete(&busy);
        let (third, ()) = tokio::join!(connections.open(), async move {
            idle.is_useless(IDLE).await;
            drop(idle);
        });
        assert!(third.is_some() && !busy.must_give_way());
        drop(request);
        let third = third.unwrap();
        let (fourth, ()) = tokio::join!(connections.open(), async move {
            third.is_useless(IDLE).await;
            drop(third);
        });
        assert!(fourth.is_some() && !busy.must_give_way(), "the connection with the last request stays");
    }
}
