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

use crate::request::HttpBody;
use crate::transport::connect::Conn;

/// Both ends of a connection.
///
/// Whoever has it polls it: there is one exchange at a time, so a task of its own would only have the two wake each other, most often
/// across processors. While it rests, its keeper hears of what the peer does.
pub(super) struct Http1 {
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
        Ok(Self { sender, connection: Some(connection), is_fresh: true, bell: Arc::default() })
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
            self.drive(cx);
            match self.connection {
                Some(_) => quietly(|cx| self.sender.poll_ready(cx)).map(|ready| ready.is_ok()),
                None => Poll::Ready(false),
            }
        })
        .await
    }

    /// Sends a request. If the error still has it, nothing of it has left.
    pub(super) async fn send(
        &mut self,
        request: Request<HttpBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<HttpBody>>> {
        self.is_fresh = false;
        // Its keeper, on another thread as likely as not, is not to be woken by what it is handed.
        self.drive(&mut Context::from_waker(Waker::noop()));
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            self.drive(cx);
            quietly(|cx| answer.as_mut().poll(cx))
        })
        .await
    }

    /// Reads on in the body of the answer.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let present = quietly(|cx| Pin::new(&mut *incoming).poll_frame(cx));
        if present.is_ready() {
            return present;
        }
        self.drive(cx);
        quietly(|cx| Pin::new(&mut *incoming).poll_frame(cx))
    }

    /// Leaves it to its keeper. Whether it is still there.
    pub(super) fn rest(&mut self) -> bool {
        self.bell.has_rung.store(false, Ordering::Release);
        let waker = Waker::from(self.bell.clone());
        self.drive(&mut Context::from_waker(&waker));
        self.connection.is_some()
    }

    /// Goes on as far as it can. Of what comes of that, whoever asks sees the rest.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(cx).is_ready()
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
