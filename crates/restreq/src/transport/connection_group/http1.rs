//! An HTTP/1 connection. The request in progress polls the connection, so no separate task is needed.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;
use tokio::task::unconstrained;

use super::gate::Gate;
use crate::request::HttpBody;
use crate::transport::connect::Conn;

/// hyper's sender and connection future for one HTTP/1 connection.
///
/// The request in progress polls the connection. No separate task is needed, because only one request uses the
/// connection at any time. If there were a separate task, the request and the task would wake each other, often across
/// CPUs. While the connection is idle, a watcher task is notified when the peer sends data or closes the connection.
/// When the connection is polled, hyper gets the waker of the [`Gate`] instead of the task's waker.
pub(super) struct Http1 {
    gate: Arc<Gate>,
    waker: Waker,
    sender: SendRequest<HttpBody>,
    /// The value is `None` after the connection has ended.
    connection: Option<Connection<TokioIo<Conn>, HttpBody>>,
    /// Whether no request has been sent over the connection yet. The first request may be queued before the connection is ready to send. If
    /// the connection fails before it is ready, polling the connection returns the error.
    is_fresh: bool,
    idle_signal: Arc<IdleSignal>,
}

impl Http1 {
    pub(super) async fn over(conn: Conn) -> hyper::Result<Self> {
        let (sender, connection) = handshake(TokioIo::new(conn)).await?;
        let gate = Arc::<Gate>::default();
        let waker = Waker::from(gate.clone());
        Ok(Self { gate, waker, sender, connection: Some(connection), is_fresh: true, idle_signal: Arc::default() })
    }

    /// Returns the signal that notifies the watcher of the idle connection.
    pub(super) fn idle_signal(&self) -> Arc<IdleSignal> {
        self.idle_signal.clone()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.connection.is_some() && (self.is_fresh || self.sender.is_ready())
    }

    /// Finishes the previous request. Returns whether the connection can be used for another request.
    pub(super) async fn ready(&mut self) -> bool {
        poll_fn(|cx| {
            self.drive_until(cx, |http1, cx| match http1.connection {
                Some(_) => http1.sender.poll_ready(cx).map(|ready| ready.is_ok()),
                None => Poll::Ready(false),
            })
        })
        .await
    }

    /// Sends a request. If the error contains the request, no byte of the request was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<HttpBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<HttpBody>>> {
        self.is_fresh = false;
        // The caller polls the connection next, so this code does not need to wake a task.
        let (answer, _) = self.gate.closed_while(|| self.sender.try_send_request(request));
        let mut answer = pin!(answer);
        poll_fn(|cx| self.drive_until(cx, |_, cx| answer.as_mut().poll(cx))).await
    }

    /// Polls the next frame of the response body.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let mut incoming = Pin::new(incoming);
        match self.gate.closed_while(|| poll_without_waking(|cx| incoming.as_mut().poll_frame(cx))) {
            (Poll::Pending, _) => self.drive_until(cx, |_, cx| incoming.as_mut().poll_frame(cx)),
            // Poll the connection before this method returns `Pending`.
            (present, _) => present,
        }
    }

    /// Passes the connection to the watcher of idle connections. Returns whether the connection is still open.
    pub(super) fn hand_to_watcher(&mut self) -> bool {
        self.idle_signal.is_set.store(false, Ordering::Release);
        self.drive(&Waker::from(self.idle_signal.clone()));
        self.connection.is_some()
    }

    /// Polls the connection and `take` in turn, until `take` returns a value or the connection must wait for data.
    fn drive_until<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let gate = self.gate.clone();
        loop {
            self.drive(cx.waker());
            match gate.closed_while(|| poll_without_waking(|cx| take(self, cx))) {
                // `take` or the peer has woken the task in the meantime, so poll the connection again.
                (Poll::Pending, true) => {}
                (taken, _) => return taken,
            }
        }
    }

    /// Polls the connection. The connection does as much work as it can until it must wait for the peer or the request.
    fn drive(&mut self, waker: &Waker) {
        self.gate.set_target(waker);
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            // The request in progress returns the error, so the error is ignored here.
            self.connection = None;
        }
    }
}

impl Drop for Http1 {
    fn drop(&mut self) {
        self.idle_signal.is_over.store(true, Ordering::Release);
        self.idle_signal.notify.notify_one();
    }
}

/// Polls the connection without registering a waker, because the request polls the connection itself. Ignores tokio's
/// cooperative budget. If it did not ignore the budget, a task that has used up its budget would get `Pending` and never be woken.
fn poll_without_waking<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    pin!(unconstrained(poll_fn(poll))).poll(&mut Context::from_waker(Waker::noop()))
}

/// Notifies the watcher of an idle connection that the peer has sent data or closed the connection.
#[derive(Default)]
pub(super) struct IdleSignal {
    notify: Notify,
    is_set: AtomicBool,
    is_over: AtomicBool,
}

impl IdleSignal {
    /// Waits for a notification. Returns `false` if the connection no longer exists.
    pub(super) async fn notified(&self) -> bool {
        self.notify.notified().await;
        !self.is_over.load(Ordering::Acquire)
    }

    /// Repeats a notification that arrived while the watcher took over the connection. The watcher may have missed that
    /// notification.
    pub(super) fn repeat(&self) {
        if self.is_set.load(Ordering::Acquire) {
            self.notify.notify_one();
        }
    }
}

impl Wake for IdleSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}
