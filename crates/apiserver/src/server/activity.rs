//! When a connection is closed because its client does not do its part: as a real server does it, and where that waits for ever,
//! as long as it waits elsewhere.

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
use super::heads::{Heads, NoRoom, RequestHead};

/// How long the head of a request may take, from its first byte on; the first of a connection, from the connection on.
const HEAD: Duration = Duration::from_secs(32);
/// How long a connection stays open between two requests.
const IDLE: Duration = Duration::from_secs(90);
/// How long after its deadline an answer may take to get out, so that the one which says that it is too late does.
pub(super) const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// What goes on on a connection, as far as its deadlines go.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<ConnectionState>,
    /// That it ends sooner than whoever waits for its end knows.
    sooner: Notify,
    /// What comes while no request is open.
    head: Mutex<RequestHead>,
    heads: Heads,
}

#[derive(Clone, Copy, Debug)]
struct ConnectionState {
    http2: bool,
    /// Requests whose answers are not out yet.
    open: usize,
    /// By when the answer that is on its way has to be out.
    answer_by: Option<Instant>,
    /// When the last answer was out; none before the first request.
    idle_since: Option<Instant>,
    /// When the client began to send something else.
    heard: Option<Instant>,
    /// When it began a block of headers of HTTP/2, whatever else is open, that has not ended.
    block: Option<Instant>,
    began: Instant,
    /// When it is looked at again, if it is. A request moves its end further away, and wakes nobody for that.
    looks: Option<Instant>,
}

impl ConnectionState {
    /// When the connection is closed, unless something happens.
    fn ends(&self) -> Option<Instant> {
        let block = self.block.map(|began| began + HEAD);
        self.ends_beside().into_iter().chain(block).min()
    }

    /// The same, for one who waits until then.
    fn look(&mut self) -> Option<Instant> {
        self.looks = self.ends();
        self.looks
    }

    /// The same, if there is no block of headers that has not ended.
    fn ends_beside(&self) -> Option<Instant> {
        if self.open > 0 {
            // One stream of HTTP/2 that nobody reads is no reason to end the others.
            return self.answer_by.filter(|_| !self.http2).map(|by| by + ANSWER_GRACE);
        }
        Some(match (self.idle_since, self.heard) {
            (None, _) => self.began + HEAD,
            (Some(_), Some(heard)) if !self.http2 => heard + HEAD,
            (Some(since), _) => since + IDLE,
        })
    }
}

impl Activity {
    pub(super) fn new(heads: Heads) -> Arc<Self> {
        let began = Instant::now();
        let state = ConnectionState {
            http2: false,
            open: 0,
            answer_by: None,
            idle_since: None,
            heard: None,
            block: None,
            began,
            looks: None,
        };
        Arc::new(Self { state: Mutex::new(state), sooner: Notify::new(), head: Mutex::new(heads.begin()), heads })
    }

    /// A request has come, and is open for as long as what this answers lives; so long its head is kept.
    pub(super) fn open<B>(self: &Arc<Self>, request: &Request<B>) -> Result<Open, NoRoom> {
        let version = request.version();
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = self.heads.begin();
        let head = self.heads.of(request)?;
        self.change(|state| {
            state.http2 = version == Version::HTTP_2;
            state.open += 1;
            state.answer_by = None;
            state.heard = None;
        });
        Ok(Open { activity: self.clone(), _head: head })
    }

    /// What comes from now on is no head of a request, for as long as what this answers lives.
    pub(super) fn hold(self: &Arc<Self>) -> Open {
        self.change(|state| state.open += 1);
        Open { activity: self.clone(), _head: self.heads.begin() }
    }

    /// By when the answer to the request that came last has to be out.
    pub(super) fn answer_by(&self, deadline: Instant) {
        self.change(|state| state.answer_by = Some(deadline));
    }

    /// So many bytes have come.
    fn heard(&self, bytes: usize) -> Result<(), NoRoom> {
        let state = self.state();
        if state.open > 0 {
            return Ok(());
        }
        let is_news = state.heard.is_none();
        drop(state);
        if is_news {
            self.change(|state| state.heard = Some(Instant::now()));
        }
        self.head.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes)
    }

    /// A block of headers of HTTP/2 has begun, or the last of them has ended.
    fn block(&self, has_begun: bool) {
        self.change(|state| state.block = has_begun.then(Instant::now));
    }

    fn is_idle(&self) -> bool {
        self.state().open == 0
    }

    /// Waits until the client has not done its part in time.
    pub(super) async fn overdue(&self) {
        loop {
            let ends = self.state().look();
            if ends.is_some_and(|end| end <= Instant::now()) {
                return;
            }
            let looks = async {
                match ends {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.sooner.notified() => (),
                () = looks => (),
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut ConnectionState)) {
        let mut state = self.state();
        change(&mut state);
        if state.ends().is_some_and(|end| state.looks.is_none_or(|looks| end < looks)) {
            self.sooner.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose answer is not out yet.
#[derive(Debug)]
pub(super) struct Open {
    activity: Arc<Activity>,
    _head: RequestHead,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.activity.change(|state| {
            state.open -= 1;
            state.answer_by = None;
            state.idle_since = Some(Instant::now());
        });
    }
}

/// The body of an answer, whose request is open until it is out.
///
/// On HTTP/2 it goes out in pieces. What is given to hyper there is out of the hands of the task that serves the stream, whether anybody
/// reads it or not: of one that nobody reads, no more than a piece is.
#[derive(Debug)]
pub(super) struct Answered {
    body: crate::http::ResponseBody,
    piece: usize,
    rest: Bytes,
    _open: Open,
}

const PIECE: usize = 64 << 10;

impl Answered {
    pub(super) fn new(body: crate::http::ResponseBody, open: Open, version: Version) -> Self {
        let piece = if version == Version::HTTP_2 { PIECE } else { usize::MAX };
        Self { body, piece, rest: Bytes::new(), _open: open }
    }

    /// The next piece of what is left of a frame.
    fn next_piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.piece.min(self.rest.len())))
    }
}

impl Body for Answered {
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
        // Only the whole of it is asked for, before it begins.
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

/// A socket that tells when its client sends something.
#[derive(Debug)]
pub(super) struct Heard<T> {
    socket: T,
    activity: Arc<Activity>,
    blocks: HeaderBlocks,
    /// The number of the block of headers of which the activity knows.
    block: Option<u64>,
    /// What is kept of blocks.
    kept: RequestHead,
}

impl<T> Heard<T> {
    pub(super) fn new(socket: T, activity: Arc<Activity>) -> Self {
        let kept = activity.heads.begin();
        Self { socket, activity, blocks: HeaderBlocks::new(), block: None, kept }
    }

    /// These bytes have come.
    fn hear(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let Some(frames) = self.blocks.read(bytes) else { return self.activity.heard(bytes.len()) };
        if self.block != frames.open() {
            self.block = frames.open();
            self.activity.block(self.block.is_some());
        }
        if frames.weight() > 0 && self.activity.is_idle() {
            frames.forget_trailers();
        }
        self.kept.set(frames.weight())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Heard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        let more = &buffer.filled()[before..];
        if !more.is_empty()
            && let Err(no_room) = self.hear(more)
        {
            return Poll::Ready(Err(io::Error::other(no_room)));
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Heard<T> {
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
