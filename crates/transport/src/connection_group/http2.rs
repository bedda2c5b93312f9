//! An HTTP/2 connection. This module uses h2 instead of hyper, so that fewer tasks wake each other. The headers and
//! the body of a request are written together.

mod keep_alive;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use thiserror::Error;
use tokio::runtime::Handle;

pub(super) use self::keep_alive::KeepAlive;
use crate::connect::Conn;
use crate::error::BoxError;
use crate::exchange::{SendError, has_body};
use crate::http2_config::Http2Config;
use crate::pool::MAX_STREAMS;
use crate::reads::Reads;
use crate::request_body::RequestBody;

/// The maximum amount of unread response data per stream, in bytes, as in Go.
const STREAM_WINDOW: u32 = 4 << 20;
/// The flow-control window of a connection in bytes, which is the largest window that RFC 9113, section 6.9.1, allows.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// The connection's window must be at least as large as the windows of all its streams together. With a smaller
/// window, unread responses could block other responses.
const _: () = assert!(MAX_STREAMS as u64 * STREAM_WINDOW as u64 <= CONNECTION_WINDOW as u64);
/// The maximum size of the response headers in bytes, as over HTTP/1. Proxies in front of an API server can add large
/// cookies and policies.
const MAX_HEADERS: u32 = 64 << 10;
/// The maximum number of streams until the server has sent its limit, as in hyper.
const INITIAL_STREAMS: usize = 100;

/// Sends requests over one HTTP/2 connection. Clones share the connection.
#[derive(Clone)]
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    pub(super) reads: Arc<Reads>,
    /// The connection's runtime, on which tasks send streaming request bodies.
    runtime: Handle,
}

pub(super) type Connection = client::Connection<Conn, Bytes>;

/// Performs the HTTP/2 handshake. This function must be called within a tokio runtime.
pub(super) async fn handshake(
    conn: Conn,
    config: Http2Config,
) -> Result<(Http2, Connection, Option<KeepAlive>), h2::Error> {
    let reads = Arc::<Reads>::default();
    let conn = conn.observed_by(reads.clone());
    let (sender, mut connection) = client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADERS)
        .initial_max_send_streams(INITIAL_STREAMS)
        // The server may send frames for a stream until it receives the cancellation of the stream. Frames for a
        // cancelled stream must not end the connection.
        .max_concurrent_reset_streams(MAX_STREAMS)
        .max_local_error_reset_streams(None)
        .handshake(conn)
        .await?;
    let keep_alive = KeepAlive::new(&mut connection, config.countable(), reads.clone());
    Ok((Http2 { sender, reads, runtime: Handle::current() }, connection, keep_alive))
}

impl Http2 {
    pub(super) async fn is_ready(&mut self) -> bool {
        poll_fn(|cx| self.sender.poll_ready(cx)).await.is_ok()
    }

    pub(super) async fn send(
        &mut self,
        request: &mut Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, SendError> {
        if let Err(source) = poll_fn(|cx| self.sender.poll_ready(cx)).await {
            return Err(SendError { source: failure(source, &self.reads), is_unsent: true });
        }
        let is_head = *request.method() == Method::HEAD;
        let answer = match self.start(std::mem::take(request)) {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        let answer = answer.map_err(|error| SendError { source: failure(error, &self.reads), is_unsent: false })?;
        Ok(ResponseBody::new(answer, is_head, self.reads.clone()))
    }

    fn start(&mut self, request: Request<RequestBody>) -> Result<ResponseFuture, h2::Error> {
        let (mut head, mut body) = request.into_parts();
        for name in CONNECTION_HEADERS {
            head.headers.remove(name);
        }
        let length = body.size_hint().exact();
        let whole = body.take_whole();
        let is_empty = whole.as_ref().is_some_and(Bytes::is_empty) || body.is_end_stream() && whole.is_none();
        if let Some(length) = if is_empty { Some(0) } else { length } {
            // Replace the `Content-Length` from the caller, because a server rejects a wrong length.
            head.headers.remove(CONTENT_LENGTH);
            if length > 0 || has_body(&head.method) {
                head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
        }
        let request = Request::from_parts(head, ());
        let (answer, mut stream) = self.sender.send_request(request, is_empty)?;
        match whole {
            _ if is_empty => {}
            Some(bytes) => stream.send_data(bytes, true)?,
            None => drop(self.runtime.spawn(upload(body, stream))),
        }
        Ok(answer)
    }
}

/// Headers that are not allowed in HTTP/2 (RFC 9113, section 8.2.2).
const CONNECTION_HEADERS: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Converts an h2 error. If the connection was closed because of a missing ping response, which h2 does not know
/// about, returns [`PingTimeout`].
fn failure(error: h2::Error, reads: &Reads) -> BoxError {
    if reads.is_dead() { Box::new(PingTimeout) } else { error.into() }
}

#[derive(Debug, Error)]
#[error("the server did not answer a ping in time")]
struct PingTimeout;

async fn upload(mut body: RequestBody, mut stream: SendStream<Bytes>) {
    if let Some(reason) = poll_fn(|cx| poll_upload(&mut body, &mut stream, cx)).await {
        stream.send_reset(reason);
    }
}

/// Sends the request body until the flow-control window is full or the body is pending. Returns `None` if the entire
/// body was sent or the stream has ended. If the upload fails or is abandoned, returns the reason for resetting the
/// stream.
fn poll_upload(body: &mut RequestBody, stream: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Poll<Option<Reason>> {
    loop {
        if body.poll_abandoned(cx).is_ready() {
            return Poll::Ready(Some(Reason::CANCEL));
        }
        if stream.poll_reset(cx).is_ready() {
            return Poll::Ready(None);
        }
        // Read from the body only while there is space in the flow-control window. If more were read, h2 would buffer
        // a large body in memory.
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            if !matches!(ready!(stream.poll_capacity(cx)), Some(Ok(_))) {
                return Poll::Ready(None);
            }
        }
        let sent = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Err(_)) => return Poll::Ready(Some(Reason::INTERNAL_ERROR)),
            None => stream.send_data(Bytes::new(), true),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => stream.send_data(data, body.is_end_stream()),
                // Skip trailers, because kube-apiserver ignores them.
                Err(_) => continue,
            },
        };
        if sent.is_err() || body.is_end_stream() {
            return Poll::Ready(None);
        }
    }
}

pub(crate) struct ResponseBody {
    stream: RecvStream,
    reads: Arc<Reads>,
    /// The number of bytes of the body that were not read yet, or `None` if the length is unknown.
    left: Option<u64>,
    /// Whether all response data was read, so that only trailers can follow.
    is_read: bool,
}

impl ResponseBody {
    /// `is_head` is `true` for the response to a HEAD request.
    fn new(response: Response<RecvStream>, is_head: bool, reads: Arc<Reads>) -> Response<Self> {
        // The `Content-Length` of a response without a body is the length that the response to a GET request would
        // have.
        let is_empty = is_head
            || matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || response.body().is_end_stream();
        let length = response.headers().get(CONTENT_LENGTH);
        let left = if is_empty { Some(0) } else { length.and_then(|length| length.to_str().ok()?.parse().ok()) };
        response.map(|stream| Self { stream, reads, left, is_read: false })
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.is_read {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // This cannot fail, because receiving `data` has reduced the flow-control window by the same
                    // length.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                // The response is complete, so ignore the error. The server has reset the stream, because it does not
                // need the remaining request body (RFC 9113, section 8.1).
                Some(Err(error)) if self.is_complete(&error) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(failure(error, &self.reads)))),
                None => self.is_read = true,
            }
        }
        match ready!(self.stream.poll_trailers(cx)) {
            Ok(Some(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Ok(None) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(failure(error, &self.reads)))),
        }
    }

    /// Returns `true` if the server has reset the stream with the reason `NO_ERROR` after a complete response body.
    /// Without a `Content-Length`, only END_STREAM proves completeness, because proxies also use this reason after
    /// losing their connection to the server. A GOAWAY with this reason proves nothing either.
    fn is_complete(&self, error: &h2::Error) -> bool {
        error.is_reset() && error.reason() == Some(Reason::NO_ERROR) && self.left == Some(0)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
