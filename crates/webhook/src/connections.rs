//! The server's open connections, and the rule for closing idle connections if there are too many.
//!
//! A connection counts as idle here if none of its requests has a complete body. Otherwise, clients could lock out other
//! clients with bodies that never end.

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
    /// The tokens of idle connections, longest idle first.
    idle: BTreeMap<u64, CancellationToken>,
    /// The number of calls to `open` that wait for a connection slot.
    waiting: usize,
    /// The connections that the server is closing to free their slots, by their former key in `idle`.
    closing: BTreeSet<u64>,
}

struct Waiter<'a>(&'a Mutex<Shared>);

pub(crate) struct Connection {
    shared: Arc<Mutex<Shared>>,
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
    /// The connection's current or last key in `idle`.
    place: u64,
    since: Instant,
}

/// A request in flight, which ends when the `InFlight` is dropped.
pub(crate) struct InFlight {
    connection: Arc<Connection>,
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
    /// idle longest, or else the next connection that becomes idle. Returns `None` only if the semaphore is closed,
    /// which never happens.
    pub(crate) async fn open(&self) -> Option<Arc<Connection>> {
        let slot = match self.slots.clone().try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                let _waiter = Waiter::new(&self.shared);
                self.slots.clone().acquire_owned().await.ok()?
            }
        };
        let give_way = CancellationToken::new();
        let place = self.shared.lock().place(&give_way);
        let activity = Mutex::new(Activity { in_flight: 0, complete: 0, place, since: Instant::now() });
        Some(Arc::new(Connection {
            shared: self.shared.clone(),
            activity,
            give_way,
            stuck: CancellationToken::new(),
            _slot: slot,
        }))
    }
}

impl<'a> Waiter<'a> {
    fn new(shared: &'a Mutex<Shared>) -> Self {
        let longest_idle = {
            let mut shared = shared.lock();
            shared.waiting += 1;
            shared.close_longest_idle()
        };
        longest_idle.inspect(CancellationToken::cancel);
        Self(shared)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Shared {
    /// Returns `true` if more calls wait for a slot than connections are closing.
    fn needs_slot(&self) -> bool {
        self.waiting > self.closing.len()
    }

    /// Returns the token of the next connection to close, if more connections must close.
    fn close_longest_idle(&mut self) -> Option<CancellationToken> {
        if !self.needs_slot() {
            return None;
        }
        let (place, give_way) = self.idle.pop_first()?;
        self.closing.insert(place);
        Some(give_way)
    }

    fn place(&mut self, give_way: &CancellationToken) -> u64 {
        let place = self.next;
        self.next += 1;
        self.idle.insert(place, give_way.clone());
        place
    }
}

impl Connection {
    pub(crate) fn request(self: &Arc<Self>) -> InFlight {
        self.activity.lock().in_flight += 1;
        InFlight { connection: self.clone(), is_complete: AtomicBool::new(false), ended: CancellationToken::new() }
    }

    /// Returns whether a request is in flight that can still be served. A connection that gives way serves only requests
    /// with complete bodies.
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
        shared.idle.remove(&place);
        shared.closing.remove(&place);
    }
}

impl InFlight {
    /// Records that the body of the request is complete.
    pub(crate) fn complete(&self) {
        if self.is_complete.swap(true, Ordering::Relaxed) {
            return;
        }
        let other = {
            let mut activity = self.connection.activity.lock();
            activity.complete += 1;
            let mut shared = self.connection.shared.lock();
            shared.idle.remove(&activity.place);
            // The connection cannot close before the response, so another one gives way.
            if shared.closing.remove(&activity.place) { shared.close_longest_idle() } else { None }
        };
        other.inspect(CancellationToken::cancel);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.ended.cancel();
        let connection = &self.connection;
        let mut activity = connection.activity.lock();
        activity.in_flight -= 1;
        activity.since = Instant::now();
        if !*self.is_complete.get_mut() {
            return;
        }
        activity.complete -= 1;
        if activity.complete > 0 {
            return;
        }
        let mut shared = connection.shared.lock();
        if shared.needs_slot() || connection.give_way.is_cancelled() {
            shared.closing.insert(activity.place);
            drop(shared);
            drop(activity);
            connection.give_way.cancel();
        } else {
            activity.place = shared.place(&connection.give_way);
        }
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
    async fn next_idle_connection_gives_way_to_a_waiting_client() {
        let connections = Connections::new(2);
        let (first, second) = (connections.open().await.unwrap(), connections.open().await.unwrap());
        let (request, other) = (complete(&first), complete(&second));
        let mut waiting = Box::pin(connections.open());
        assert!((&mut waiting).now_or_never().is_none() && !first.must_give_way());
        drop(request);
        assert!(first.must_give_way());
        drop(other);
        assert!(!second.must_give_way(), "one connection is enough for one client");
        drop(first);
        let third = waiting.await.unwrap();

        let request = complete(&third);
        let mut cancelled = Box::pin(connections.open());
        assert!((&mut cancelled).now_or_never().is_none() && second.must_give_way());
        drop(cancelled);
        drop(second);
        drop(request);
        assert!(!third.must_give_way(), "the client no longer waits");
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
