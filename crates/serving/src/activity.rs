//! Closes the connections of slow clients. The timeouts for headers and idle connections are the same as in
//! kube-apiserver. kube-apiserver has no timeout for the other phases of a request, so this module reuses these timeouts.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::header_blocks::HeaderBlocks;
use super::heads::{HeadBudgetExceeded, Heads, RequestHead};

/// The timeout for receiving a request head, measured from its first byte. For the first request of a connection, it
/// starts when the server accepts the connection.
const HEAD: Duration = Duration::from_secs(32);
/// The timeout for a connection that has no open requests.
const IDLE: Duration = Duration::from_secs(90);
/// The time after a request's deadline in which the server may still send the response, such as the timeout error.
pub const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// Records when the client of a connection sends bytes and when responses end, so that the server knows when to close
/// the connection.
#[derive(Debug)]
pub struct Activity {
    state: Mutex<ConnectionState>,
    /// Wakes [`overdue`](Self::overdue) when the connection's deadline moves to an earlier time.
    earlier_deadline: Notify,
    /// The memory of received bytes that do not belong to an open request yet.
    head: Mutex<RequestHead>,
    heads: Heads,
}

#[derive(Clone, Copy, Debug)]
struct ConnectionState {
    http2: bool,
    open: usize,
    answer_by: Option<Instant>,
    /// The time at which the last response was completed, or `None` before the first response.
    idle_since: Option<Instant>,
    /// The time at which the first byte of the next request head arrived.
    head_started: Option<Instant>,
    /// The time at which the incomplete HTTP/2 header block began, if there is one. While the header block is
    /// incomplete, other streams of the connection may have open requests.
    block: Option<Instant>,
    connected: Instant,
    /// The time of the next check by [`Activity::overdue`], which does not change if the deadline moves to a later
    /// time.
    next_check: Option<Instant>,
}

impl ConnectionState {
    /// Returns the time at which the server must close the connection if the client makes no progress.
    fn deadline(&self) -> Option<Instant> {
        let block = self.block.map(|started| started + HEAD);
        self.deadline_without_block().into_iter().chain(block).min()
    }

    /// Returns the deadline, and records that [`Activity::overdue`] will sleep until then.
    fn schedule_check(&mut self) -> Option<Instant> {
        self.next_check = self.deadline();
        self.next_check
    }

    /// Returns the connection's deadline without considering an incomplete header block.
    fn deadline_without_block(&self) -> Option<Instant> {
        if self.open > 0 {
            // Keep an HTTP/2 connection open if one of its responses misses its deadline. A client that does not read
            // one of the streams must not lose its other streams.
            return self.answer_by.filter(|_| !self.http2).map(|by| by + ANSWER_GRACE);
        }
        Some(match (self.idle_since, self.head_started) {
            (None, _) => self.connected + HEAD,
            (Some(_), Some(started)) if !self.http2 => started + HEAD,
            (Some(since), _) => since + IDLE,
        })
    }
}

impl Activity {
    /// Creates the record of a new connection. The memory of its request heads counts towards the budget `heads`.
    pub fn new(heads: Heads) -> Arc<Self> {
        let connected = Instant::now();
        let state = ConnectionState {
            http2: false,
            open: 0,
            answer_by: None,
            idle_since: None,
            head_started: None,
            block: None,
            connected,
            next_check: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            earlier_deadline: Notify::new(),
            head: Mutex::new(heads.begin()),
            heads,
        })
    }

    /// Marks a request as open until the returned guard is dropped. The head of an open request counts towards the
    /// budget for request heads.
    pub fn open<B>(self: &Arc<Self>, request: &Request<B>) -> Result<OpenRequest, HeadBudgetExceeded> {
        let version = request.version();
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = self.heads.begin();
        let head = self.heads.of(request)?;
        self.change(|state| {
            state.http2 = version == Version::HTTP_2;
            state.open += 1;
            state.answer_by = None;
            state.head_started = None;
        });
        Ok(OpenRequest { activity: self.clone(), _head: head })
    }

    /// Suspends the timeouts for request heads until the returned guard is dropped. Call this method after a
    /// connection has been upgraded to WebSocket.
    pub fn hold_open(self: &Arc<Self>) -> OpenRequest {
        self.change(|state| state.open += 1);
        OpenRequest { activity: self.clone(), _head: self.heads.begin() }
    }

    /// Sets the deadline for the response to the latest request.
    pub fn answer_by(&self, deadline: Instant) {
        self.change(|state| state.answer_by = Some(deadline));
    }

    /// Records that bytes have arrived on a connection that does not use HTTP/2.
    fn received(&self, bytes: usize) -> Result<(), HeadBudgetExceeded> {
        let state = self.state();
        if state.open > 0 {
            return Ok(());
        }
        let is_first = state.head_started.is_none();
        drop(state);
        if is_first {
            self.change(|state| state.head_started = Some(Instant::now()));
        }
        self.head.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes)
    }

    fn block(&self, has_begun: bool) {
        self.change(|state| state.block = has_begun.then(Instant::now));
    }

    fn is_idle(&self) -> bool {
        self.state().open == 0
    }

    /// Waits until the client misses a deadline.
    pub async fn overdue(&self) {
        loop {
            let deadline = self.state().schedule_check();
            if deadline.is_some_and(|end| end <= Instant::now()) {
                return;
            }
            let next_check = async {
                match deadline {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.earlier_deadline.notified() => (),
                () = next_check => (),
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut ConnectionState)) {
        let mut state = self.state();
        change(&mut state);
        if state.deadline().is_some_and(|end| state.next_check.is_none_or(|next_check| end < next_check)) {
            self.earlier_deadline.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard for an open request, whose response is not complete yet.
#[derive(Debug)]
pub struct OpenRequest {
    activity: Arc<Activity>,
    _head: RequestHead,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.activity.change(|state| {
            state.open -= 1;
            state.answer_by = None;
            state.idle_since = Some(Instant::now());
        });
    }
}

/// A response body that keeps its request marked as open until the body is dropped.
///
/// On HTTP/2, the body passes its data to hyper in small chunks. If the client does not read a stream, hyper therefore
/// buffers only one chunk of the stream.
#[derive(Debug)]
pub struct TrackedBody {
    body: crate::body::ResponseBody,
    piece: usize,
    rest: Bytes,
    _open: OpenRequest,
}

const PIECE: usize = 64 << 10;

impl TrackedBody {
    /// Wraps a response body. The request stays open until the returned body is dropped.
    pub fn new(body: crate::body::ResponseBody, open: OpenRequest, version: Version) -> Self {
        let piece = if version == Version::HTTP_2 { PIECE } else { usize::MAX };
        Self { body, piece, rest: Bytes::new(), _open: open }
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.piece.min(self.rest.len())))
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.next_piece())));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                self.next_piece()
            }
            Err(trailers) => trailers,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // hyper calls this method only before it reads the body, so return the full size.
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

/// A socket that reports received bytes to an [`Activity`].
#[derive(Debug)]
pub struct ObservedSocket<T> {
    socket: T,
    activity: Arc<Activity>,
    blocks: HeaderBlocks,
    block: Option<u64>,
    block_memory: RequestHead,
}

impl<T> ObservedSocket<T> {
    /// Wraps a socket and records received bytes in `activity`.
    pub fn new(socket: T, activity: Arc<Activity>) -> Self {
        let block_memory = activity.heads.begin();
        Self { socket, activity, blocks: HeaderBlocks::default(), block: None, block_memory }
    }

    fn observe(&mut self, bytes: &[u8]) -> Result<(), HeadBudgetExceeded> {
        let Some(frames) = self.blocks.read(bytes) else { return self.activity.received(bytes.len()) };
        if self.block != frames.open() {
            self.block = frames.open();
            self.activity.block(self.block.is_some());
        }
        if frames.memory() > 0 && self.activity.is_idle() {
            frames.forget_trailers();
        }
        self.block_memory.set(frames.memory())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ObservedSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        let more = &buffer.filled()[before..];
        if !more.is_empty()
            && let Err(exceeded) = self.observe(more)
        {
            return Poll::Ready(Err(io::Error::other(exceeded)));
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ObservedSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
