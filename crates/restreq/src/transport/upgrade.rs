//! Connections that are upgraded from HTTP/1.1 to another protocol.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection};
use hyper_util::rt::TokioIo;

use super::connect::{Conn, Connector};
use super::{Failure, ResponseBody};
use crate::request::HttpBody;

/// A connection after its upgrade.
pub(crate) struct Upgraded {
    pub(crate) io: Conn,
    /// The data that the peer sent immediately after the response headers.
    pub(crate) received: Bytes,
}

/// The extension of a response that contains the upgraded connection. Extensions must be `Clone`, so all clones of a `Slot` share one
/// connection. Only the first call of [`take`] returns the connection.
#[derive(Clone)]
struct Slot(Arc<Mutex<Option<Upgraded>>>);

/// If the server does not upgrade the connection, the client reads at most this number of bytes of the response body.
const MAX_REFUSAL: usize = 64 << 10;
/// The timeout for reading the response body if the server does not upgrade the connection.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes the upgraded connection out of a response with status 101. Returns `None` if a layer around the transport has
/// dropped the connection.
pub(crate) fn take<B>(response: &Response<B>) -> Option<Upgraded> {
    let Slot(slot) = response.extensions().get()?;
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Sends an upgrade request on a separate connection. Returns the response. If the server accepts the upgrade, the
/// extensions of the response contain the connection. Otherwise, the response contains the body that the server sent.
///
/// The connection does not belong to the pool, because the caller owns it after the upgrade.
pub(super) async fn round_trip(
    connector: &Connector,
    request: Request<HttpBody>,
) -> Result<Response<ResponseBody>, Failure> {
    let conn = connector.clone().without_http2().connect().await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(conn)).await.map_err(|error| Failure::connecting(error.into()))?;
    let mut driven = Driven { connection, is_over: false };
    let response = {
        let mut answer = pin!(sender.send_request(request));
        poll_fn(|cx| {
            driven.drive(cx);
            answer.as_mut().poll(cx)
        })
        .await
    };
    let response = response.map_err(|error| Failure::of_exchange(error.into(), false, true))?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (head, body) = response.into_parts();
        // If the client cannot read the body of the rejection, return the rejection without a body.
        let mut whole = BytesMut::new();
        drop(tokio::time::timeout(REFUSAL_TIMEOUT, driven.read(body, &mut whole)).await);
        whole.truncate(MAX_REFUSAL);
        return Ok(Response::from_parts(head, ResponseBody::of_bytes(whole.freeze())));
    }
    poll_fn(|cx| if driven.drive(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    let parts = driven.connection.into_parts();
    let upgraded = Upgraded { io: parts.io.into_inner(), received: parts.read_buf };
    let mut response = response.map(|_| ResponseBody::of_bytes(Bytes::new()));
    response.extensions_mut().insert(Slot(Arc::new(Mutex::new(Some(upgraded)))));
    Ok(response)
}

/// A connection without a background task. The only request on the connection polls the connection.
struct Driven {
    connection: Connection<TokioIo<Conn>, HttpBody>,
    is_over: bool,
}

impl Driven {
    /// Polls the connection. Returns whether the connection has been upgraded or has ended. If the connection fails,
    /// the request returns the error.
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_over {
            self.is_over = self.connection.poll_without_shutdown(cx).is_ready();
        }
        self.is_over
    }

    async fn read(&mut self, mut body: Incoming, whole: &mut BytesMut) {
        while whole.len() < MAX_REFUSAL
            && let Some(Ok(frame)) = poll_fn(|cx| self.poll_frame(&mut body, cx)).await
        {
            if let Some(data) = frame.data_ref() {
                whole.extend_from_slice(data);
            }
        }
    }

    fn poll_frame(&mut self, body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.drive(cx);
        Pin::new(body).poll_frame(cx)
    }
}
