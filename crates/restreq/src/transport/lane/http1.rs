//! A connection of HTTP/1, which its exchanges drive themselves.

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

/// Both ends of a connection.
///
/// Whoever has it polls it: there is one exchange at a time, so a task of its own would only have the two wake each other, most often
/// across processors. While it rests, its keeper hears of what the peer does. hyper only sees the waker of the [`Gate`].
pub(super) struct Http1 {
    gate: Arc<Gate>,
    waker: Waker,
    sender: SendRequest<HttpBody>,
    /// None once it is over.
    connection: Option<Connection<TokioIo<Conn>, HttpBody>>,
    /// Whether no request has gone to it. The first may before the connection asks for one, and is told by it how it went.
    is_fresh: bool,
    bell: Arc<Bell>,
}

impl Http1 {
    pub(super) async fn over(conn: Conn) -> hyper::Result<Self> {
        let (sender, connection) = handshake(TokioIo::new(conn)).await?;
        let gate = Arc::<Gate>::default();
        let waker = Waker::from(gate.clone());
        Ok(Self { gate, waker, sender, connection: Some(connection), is_fresh: true, bell: Arc::default() })
    }

    /// What its keeper listens to.
    pub(super) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.connection.is_some() && (self.is_fresh || self.sender.is_ready())
    }

    /// Finishes what went before; whether there can be another exchange.
    pub(super) async fn ready(&mut self) -> bool {
        poll_fn(|cx| {
            self.drive_until(cx, |http1, cx| match http1.connection {
                Some(_) => http1.sender.poll_ready(cx).map(|ready| ready.is_ok()),
                None => Poll::Ready(false),
            })
        })
        .await
    }

    /// Sends a request. If the error still has it, nothing of it has left.
    pub(super) async fn send(
        &mut self,
        request: Request<HttpBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<HttpBody>>> {
        self.is_fresh = false;
        // The connection is driven next, so nobody else need be woken for it, such as its keeper.
        let (answer, _) = self.gate.closed_while(|| self.sender.try_send_request(request));
        let mut answer = pin!(answer);
        poll_fn(|cx| self.drive_until(cx, |_, cx| answer.as_mut().poll(cx))).await
    }

    /// Reads on in the body of the answer.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let mut incoming = Pin::new(incoming);
        match self.gate.closed_while(|| quietly(|cx| incoming.as_mut().poll_frame(cx))) {
            (Poll::Pending, _) => self.drive_until(cx, |_, cx| incoming.as_mut().poll_frame(cx)),
            // Before anybody waits for more, it is driven.
            (present, _) => present,
        }
    }

    /// Leaves it to its keeper. Whether it is still there.
    pub(super) fn rest(&mut self) -> bool {
        self.bell.has_rung.store(false, Ordering::Release);
        self.drive(&Waker::from(self.bell.clone()));
        self.connection.is_some()
    }

    /// Drives the connection until it has what `take` looks for, or has nothing to do but wait for the peer.
    fn drive_until<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let gate = self.gate.clone();
        loop {
            self.drive(cx.waker());
            match gate.closed_while(|| quietly(|cx| take(self, cx))) {
                // Asking for it has given the connection something to do, or the peer has, meanwhile.
                (Poll::Pending, true) => {}
                (taken, _) => return taken,
            }
        }
    }

    /// Goes on as far as it can. Of what comes of that, whoever asks sees the rest.
    fn drive(&mut self, waker: &Waker) {
        self.gate.lead_to(waker);
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            // How it ended, the exchange is told.
            self.connection = None;
        }
    }
}

impl Drop for Http1 {
    fn drop(&mut self) {
        self.bell.is_over.store(true, Ordering::Release);
        self.bell.notify.notify_one();
    }
}

/// What the connection has for its exchange comes while that polls it: nobody need be woken for it. So it has to be taken even where the
/// task has used up what it may do at a time: whoever is put off by that is to be woken.
fn quietly<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    pin!(unconstrained(poll_fn(poll))).poll(&mut Context::from_waker(Waker::noop()))
}

/// Tells a connection's keeper that there is something to be seen to.
#[derive(Default)]
pub(super) struct Bell {
    notify: Notify,
    has_rung: AtomicBool,
    is_over: AtomicBool,
}

impl Bell {
    /// Waits until it rings. Whether there still is a connection.
    pub(super) async fn rung(&self) -> bool {
        self.notify.notified().await;
        !self.is_over.load(Ordering::Acquire)
    }

    /// Rings again if it has rung since the connection was left to its keeper, who may not have found it yet.
    pub(super) fn repeat(&self) {
        if self.has_rung.load(Ordering::Acquire) {
            self.notify.notify_one();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}
