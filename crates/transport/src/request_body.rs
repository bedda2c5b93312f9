//! Request bodies.

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use pintle_meta::__private::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::BoxError;

/// A stream that yields the chunks of a body.
pub type ByteSource = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A request body, which is empty by default.
pub struct RequestBody {
    pieces: Pieces,
    /// Completes when the response is dropped, after which the remaining body must not be sent.
    over: Option<oneshot::Receiver<()>>,
    /// The time at which the last chunk was taken, or `None` for a body in memory.
    last_chunk: Option<LastChunk>,
}

/// The time at which the transport last took a chunk of a streaming body to send it.
#[derive(Clone, Debug, Default)]
pub struct LastChunk(Arc<Mutex<Option<Instant>>>);

impl LastChunk {
    /// Returns the time at which the last chunk was taken, or `None` if no chunk was taken.
    pub(crate) fn time(&self) -> Option<Instant> {
        *self.0.lock()
    }

    fn set_to_now(&self) {
        *self.0.lock() = Some(Instant::now());
    }
}

/// The content of a request body. The mutexes are never contended: they only make the body `Sync`, which a shared
/// connection requires.
enum Pieces {
    Whole(Option<Bytes>),
    Stream(Mutex<ByteSource>),
    Layer(Mutex<UnsyncBoxBody<Bytes, BoxError>>),
}

impl Pieces {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(source) => {
                let source = source.get_mut();
                let next = ready!(source.as_mut().poll_next(cx));
                Poll::Ready(next.map(|chunk| chunk.map(Frame::data).map_err(BoxError::from)))
            }
            Self::Layer(body) => http_body::Body::poll_frame(Pin::new(body.get_mut()), cx),
        }
    }
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::new(Pieces::Whole(None))
    }
}

impl RequestBody {
    fn new(pieces: Pieces) -> Self {
        let last_chunk = if let Pieces::Whole(_) = pieces { None } else { Some(LastChunk::default()) };
        Self { pieces, over: None, last_chunk }
    }

    /// Creates a body from bytes in memory.
    pub fn of_bytes(bytes: Bytes) -> Self {
        Self::new(Pieces::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    /// Creates a body from a stream of chunks.
    pub fn of_stream(source: ByteSource) -> Self {
        Self::new(Pieces::Stream(Mutex::new(source)))
    }

    /// Creates a body from the body that a `tower` layer returned.
    pub fn of_layer(body: UnsyncBoxBody<Bytes, BoxError>) -> Self {
        Self::new(Pieces::Layer(Mutex::new(body)))
    }

    /// Returns a guard for a streaming body. If this guard is dropped before the entire body was sent, the body ends
    /// with an error.
    ///
    /// Without this guard, the body would still be sent over HTTP/2 after its response is dropped. The body would
    /// stay in memory if the server did not read the whole body and did not reset the stream.
    pub(crate) fn cancel_guard(&mut self) -> Option<oneshot::Sender<()>> {
        if let Pieces::Whole(_) = self.pieces {
            return None;
        }
        let (lease, over) = oneshot::channel();
        self.over = Some(over);
        Some(lease)
    }

    /// Returns a handle to the time of the last chunk, which is updated while the body is sent. Returns `None` for a
    /// body in memory.
    pub fn last_chunk(&self) -> Option<LastChunk> {
        self.last_chunk.clone()
    }

    /// Takes the content out of a body that is in memory. Returns `None` for a streaming body.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.pieces {
            Pieces::Whole(bytes) => Some(bytes.take().unwrap_or_default()),
            _ => None,
        }
    }

    /// Returns `Ready` after the guard from [`cancel_guard`](Self::cancel_guard) was dropped.
    pub(crate) fn poll_abandoned(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.over {
            Some(over) => Pin::new(over).poll(cx).map(drop),
            None => Poll::Pending,
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over.as_mut().is_some_and(|over| Pin::new(over).poll(cx).is_ready()) {
            return Poll::Ready(Some(Err("the response was dropped".into())));
        }
        let polled = caught(|| self.pieces.poll_frame(cx));
        if let (Some(last_chunk), Some(Poll::Ready(Some(Ok(_))))) = (&self.last_chunk, &polled) {
            last_chunk.set_to_now();
        }
        polled.unwrap_or_else(|| Poll::Ready(Some(Err("the body of the request panicked".into()))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.pieces {
            Pieces::Whole(bytes) => bytes.is_none(),
            Pieces::Stream(_) => false,
            Pieces::Layer(body) => {
                let body = body.lock();
                caught(|| body.is_end_stream()).unwrap_or(false)
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.pieces {
            Pieces::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Pieces::Stream(_) => SizeHint::default(),
            Pieces::Layer(body) => {
                let body = body.lock();
                caught(|| body.size_hint()).unwrap_or_default()
            }
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let pieces = mem::replace(&mut self.pieces, Pieces::Whole(None));
        // Catch panics here, too, because the destructor of the body may panic.
        caught(|| drop(pieces));
    }
}

/// Runs user code, such as the stream of a body or a layer. Returns `None` if it panics. With HTTP/2, the task of a
/// shared connection runs this code and must not panic.
fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}
