//! An HTTP/1.1 connection. The current request reads from and writes to the socket itself, without a separate task.

mod body;
mod head;
mod upload;

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::header::CONNECTION;
use http::{HeaderMap, Method, Request, Response};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Notify;

pub(super) use self::body::ResponseBody;
use self::head::{Asked, Head};
use self::upload::Upload;
use crate::connect::Conn;
use crate::error::BoxError;
use crate::exchange::SendError;
use crate::malformed::Malformed;
use crate::request_body::RequestBody;

/// At most one request at a time uses the connection, and it polls the socket itself. With a separate task for the
/// connection, the task and the request would keep waking each other, often on different CPUs. While the connection is
/// idle, a watcher task is notified when the peer sends data or closes the connection.
pub(super) struct Http1 {
    conn: Conn,
    /// Data that was read from the socket but not processed yet.
    buf: BytesMut,
    /// The maximum number of bytes of the next read from the socket.
    room: usize,
    upload: Upload,
    upload_error: Option<BoxError>,
    is_busy: bool,
    /// Whether another request can use the connection after this response.
    is_reusable: bool,
    idle: Idle,
}

/// The initial size of a read in bytes, which grows up to `MAX_ROOM` during a long response.
const MIN_ROOM: usize = 8 << 10;
const MAX_ROOM: usize = 64 << 10;
/// The minimum free space in the buffer before a read, in bytes.
const LEAST_ROOM: usize = 1 << 10;

impl Http1 {
    pub(super) fn new(conn: Conn) -> Self {
        Self {
            conn,
            buf: BytesMut::new(),
            room: MIN_ROOM,
            upload: Upload::default(),
            upload_error: None,
            is_busy: false,
            is_reusable: true,
            idle: Idle(Arc::default()),
        }
    }

    pub(super) fn idle_signal(&self) -> Arc<IdleSignal> {
        self.idle.0.clone()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_reusable && !self.is_busy && self.buf.is_empty() && self.upload.is_done()
    }

    /// Sends a request and waits for the response headers. After an error, the connection must not be used again.
    pub(super) async fn send(
        &mut self,
        request: &mut Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, SendError> {
        self.exchange(request, false).await
    }

    /// Sends an upgrade request. If the response has status 101, the connection then uses the new protocol.
    pub(super) async fn upgrade(
        &mut self,
        request: &mut Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, SendError> {
        self.exchange(request, true).await
    }

    async fn exchange(
        &mut self,
        request: &mut Request<RequestBody>,
        upgrades: bool,
    ) -> Result<Response<ResponseBody>, SendError> {
        let unused = poll_fn(|cx| Poll::Ready(self.poll_unrequested(cx))).await;
        match unused {
            Poll::Pending => {}
            Poll::Ready(source) => return Err(SendError { source, is_unsent: true }),
        }
        self.is_busy = true;
        self.is_reusable = false;
        let asked = Asked { is_head: *request.method() == Method::HEAD, upgrades };
        let closes = asks_to_close(request.headers());
        self.upload_error = None;
        self.upload.start(request);
        // `poll_unrequested` has already registered the waker with the socket.
        let mut is_registered = true;
        let head = poll_fn(|cx| self.poll_head(asked, std::mem::take(&mut is_registered), cx)).await;
        let Head { response, body, keeps_alive } = head.map_err(|source| SendError { source, is_unsent: false })?;
        self.is_busy = !body.is_over();
        self.is_reusable = keeps_alive && !closes;
        Ok(response.map(|()| body))
    }

    /// Polls the next part of the response body, and continues sending the request body.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut ResponseBody,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        if !self.upload.is_over()
            && let Poll::Ready(Err(error)) = self.upload.poll(&mut self.conn, cx)
        {
            // The server may still send a complete response, so report the upload error only if the response fails.
            // The connection is not reused in this case.
            self.upload_error = Some(error);
        }
        let piece = match self.poll_piece(body, cx) {
            Poll::Ready(piece) => piece,
            // The server waits for data that will never arrive, because the request body has failed.
            Poll::Pending if self.upload.has_body_failed() => match self.upload_error.take() {
                Some(error) => Some(Err(error)),
                None => return Poll::Pending,
            },
            Poll::Pending => return Poll::Pending,
        };
        match &piece {
            Some(Err(_)) => self.is_reusable = false,
            _ => self.is_busy = !body.is_over(),
        }
        Poll::Ready(piece)
    }

    /// Returns the socket and the data from the peer that follows the response.
    pub(super) fn into_parts(self) -> (Conn, Bytes) {
        (self.conn, self.buf.freeze())
    }

    /// Makes the watcher task watch the idle connection. Returns `true` if this connection is still open.
    pub(super) fn hand_to_watcher(&mut self) -> bool {
        let signal = self.idle.0.clone();
        signal.is_set.store(false, Ordering::Release);
        if self.buf.is_empty() && self.room > MIN_ROOM {
            (self.buf, self.room) = (BytesMut::new(), MIN_ROOM);
        }
        let is_open = self.poll_unrequested(&mut Context::from_waker(&Waker::from(signal))).is_pending();
        self.is_reusable &= is_open;
        is_open
    }

    /// Sends the request and polls for the response headers. If `is_registered` is `true`, the waker is already
    /// registered with the socket, and this poll does not read.
    fn poll_head(&mut self, asked: Asked, is_registered: bool, cx: &mut Context<'_>) -> Poll<Result<Head, BoxError>> {
        match self.upload.poll(&mut self.conn, cx) {
            Poll::Ready(Err(error)) => self.upload_error = Some(error),
            _ if is_registered => return Poll::Pending,
            _ => {}
        }
        // A server may send an error response and close the connection before it has read the whole request. In this
        // situation, the upload fails, but the client can still read the response.
        loop {
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(self.upload_error.take().unwrap_or_else(|| Malformed::Closed.into())));
                }
                Poll::Ready(Ok(_)) => {
                    if let Some(head) = head::take(&mut self.buf, asked)? {
                        return Poll::Ready(Ok(head));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                // If the socket has failed during the upload, the next read returns data from the server or the end of
                // the stream.
                Poll::Pending if !self.upload.has_body_failed() => return Poll::Pending,
                Poll::Pending => {
                    return self.upload_error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
            }
        }
    }

    fn poll_piece(&mut self, body: &mut ResponseBody, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        loop {
            match body.take(&mut self.buf) {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(None) if body.is_over() => return Poll::Ready(None),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => return Poll::Ready(body.end().err().map(|error| Err(error.into()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    /// Returns `Ready` if the peer has closed the connection, or has sent data without a request in flight.
    fn poll_unrequested(&mut self, cx: &mut Context<'_>) -> Poll<BoxError> {
        Poll::Ready(match ready!(self.poll_read(cx)) {
            Ok(0) => Malformed::Closed.into(),
            Ok(_) => Malformed::Unrequested.into(),
            Err(error) => error.into(),
        })
    }

    /// Reads from the socket, and returns the number of bytes, or 0 at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buf.capacity() - self.buf.len() < LEAST_ROOM {
            self.buf.reserve(self.room);
        }
        let free = self.buf.capacity() - self.buf.len();
        let read = ready!(pin!(self.conn.read_buf(&mut self.buf)).poll(cx))?;
        if read == free {
            self.room = (2 * self.room).min(MAX_ROOM);
        }
        Poll::Ready(Ok(read))
    }
}

/// Returns `true` if the request asks the server to close the connection (RFC 9112, section 9.6).
fn asks_to_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).into_iter();
    let mut options = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Reads a response from a server that sends `bytes` in chunks of `step` bytes and then closes the connection. Returns
/// the response's status and body, and the number of bytes after the response.
#[cfg(any(test, fuzzing))]
pub(crate) fn http1_read(
    bytes: &[u8],
    step: usize,
    is_head: bool,
) -> Result<(http::StatusCode, Vec<u8>, usize), String> {
    let (mut buf, mut data, mut left) = (BytesMut::new(), Vec::new(), bytes.len());
    let mut found: Option<Head> = None;
    for piece in bytes.chunks(step) {
        if found.as_ref().is_some_and(|head| head.body.is_over()) {
            break;
        }
        buf.extend_from_slice(piece);
        left -= piece.len();
        if found.is_none() {
            found = head::take(&mut buf, Asked { is_head, upgrades: false }).map_err(|error| error.to_string())?;
        }
        let Some(head) = &mut found else { continue };
        while let Some(piece) = head.body.take(&mut buf).map_err(|error| error.to_string())? {
            data.extend_from_slice(&piece);
        }
    }
    let mut head = found.ok_or_else(|| Malformed::Closed.to_string())?;
    head.body.end().map_err(|error| error.to_string())?;
    Ok((head.response.status(), data, left + buf.len()))
}

/// Ends the watcher task when it is dropped together with the connection.
struct Idle(Arc<IdleSignal>);

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.notify.notify_one();
    }
}

/// Notifies the watcher of an idle connection when the peer sends data or closes the connection.
#[derive(Default)]
pub(super) struct IdleSignal {
    notify: Notify,
    is_set: AtomicBool,
    is_over: AtomicBool,
}

impl IdleSignal {
    /// Waits for a notification, or returns `false` if the connection was dropped.
    pub(super) async fn notified(&self) -> bool {
        self.notify.notified().await;
        !self.is_over.load(Ordering::Acquire)
    }

    /// Repeats the last notification, which may have arrived before the watcher waited for it.
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
