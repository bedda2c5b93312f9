//! Request bodies.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Frame, SizeHint};
#[cfg(feature = "tower")]
use http_body_util::combinators::UnsyncBoxBody;
use tokio::sync::oneshot;

use crate::error::{BoxError, InvalidRequest};

type ByteSource = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// The body of a request.
#[derive(Clone, Default)]
pub(crate) enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    /// A stream. The first attempt consumes the stream, so the client never retries a request with a stream.
    Stream(Arc<Mutex<Option<ByteSource>>>),
}

impl Body {
    pub(crate) fn stream(source: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Self {
        Self::Stream(Arc::new(Mutex::new(Some(Box::pin(source)))))
    }

    /// Returns the size of the body in bytes, or `None` for a stream of unknown size.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::Stream(_) => None,
        }
    }

    pub(crate) fn is_replayable(&self) -> bool {
        !matches!(self, Self::Stream(_))
    }

    /// Returns a copy of the body for one attempt.
    pub(crate) fn to_http(&self) -> Result<HttpBody, InvalidRequest> {
        Ok(HttpBody::new(match self {
            Self::Empty => Pieces::Whole(None),
            Self::Bytes(bytes) => Pieces::Whole(Some(bytes.clone()).filter(|bytes| !bytes.is_empty())),
            Self::Stream(source) => {
                let source = source.lock().unwrap_or_else(PoisonError::into_inner).take();
                Pieces::Stream(Mutex::new(source.ok_or(InvalidRequest::BodyUsed)?))
            }
        }))
    }
}

impl fmt::Debug for Body {
    /// The `Debug` output contains only the size, because a body can be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(_) => f.write_str("stream"),
        }
    }
}

/// A request body in the form that the transport needs.
pub(crate) struct HttpBody {
    pieces: Pieces,
    /// A receiver that resolves when the response is dropped. After the response is dropped, the transport must not
    /// send more of the body.
    over: Option<oneshot::Receiver<()>>,
}

/// The content of a request body: bytes, a stream, or a body from a layer. The mutexes are never contended. The mutexes
/// make the body `Sync`, because a shared connection requires a `Sync` body.
enum Pieces {
    Whole(Option<Bytes>),
    Stream(Mutex<ByteSource>),
    /// A body from a layer.
    #[cfg(feature = "tower")]
    Layer(Mutex<UnsyncBoxBody<Bytes, BoxError>>),
}

impl Pieces {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(source) => {
                let source = source.get_mut().unwrap_or_else(PoisonError::into_inner);
                let next = ready!(source.as_mut().poll_next(cx));
                Poll::Ready(next.map(|chunk| chunk.map(Frame::data).map_err(BoxError::from)))
            }
            #[cfg(feature = "tower")]
            Self::Layer(body) => {
                http_body::Body::poll_frame(Pin::new(body.get_mut().unwrap_or_else(PoisonError::into_inner)), cx)
            }
        }
    }
}

impl Default for HttpBody {
    /// Returns an empty body.
    fn default() -> Self {
        Self::new(Pieces::Whole(None))
    }
}

impl HttpBody {
    fn new(pieces: Pieces) -> Self {
        Self { pieces, over: None }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn of_layer(body: UnsyncBoxBody<Bytes, BoxError>) -> Self {
        Self::new(Pieces::Layer(Mutex::new(body)))
    }

    /// Returns a guard. If the returned guard is dropped before the whole body was sent, the body ends with an error.
    ///
    /// Without the guard, HTTP/2 would continue to send the body after the response is dropped. The crate hyper polls
    /// the body only when hyper can send more data. A server may respond early, without reading the whole body and
    /// without resetting the stream. Without the guard, such a body would be dropped only when the connection ends. If
    /// a body is completely in memory, it does not need this guard.
    pub(crate) fn cancel_guard(&mut self) -> Option<oneshot::Sender<()>> {
        if let Pieces::Whole(_) = self.pieces {
            return None;
        }
        let (lease, over) = oneshot::channel();
        self.over = Some(over);
        Some(lease)
    }

    /// Takes the content of a body that is completely in memory. Returns `None` for other bodies.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.pieces {
            Pieces::Whole(bytes) => Some(bytes.take().unwrap_or_default()),
            _ => None,
        }
    }

    /// Returns `Ready` when the guard of [`cancel_guard`](Self::cancel_guard) is dropped.
    pub(crate) fn poll_abandoned(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.over {
            Some(over) => Pin::new(over).poll(cx).map(drop),
            None => Poll::Pending,
        }
    }
}

impl http_body::Body for HttpBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over.as_mut().is_some_and(|over| Pin::new(over).poll(cx).is_ready()) {
            return Poll::Ready(Some(Err("the response was dropped".into())));
        }
        let polled = caught(|| self.pieces.poll_frame(cx));
        polled.unwrap_or_else(|| Poll::Ready(Some(Err("the body of the request panicked".into()))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.pieces {
            Pieces::Whole(bytes) => bytes.is_none(),
            Pieces::Stream(_) => false,
            #[cfg(feature = "tower")]
            Pieces::Layer(body) => {
                let body = body.lock().unwrap_or_else(PoisonError::into_inner);
                caught(|| body.is_end_stream()).unwrap_or(false)
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.pieces {
            Pieces::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Pieces::Stream(_) => SizeHint::default(),
            #[cfg(feature = "tower")]
            Pieces::Layer(body) => {
                let body = body.lock().unwrap_or_else(PoisonError::into_inner);
                caught(|| body.size_hint()).unwrap_or_default()
            }
        }
    }
}

impl Drop for HttpBody {
    fn drop(&mut self) {
        let pieces = mem::replace(&mut self.pieces, Pieces::Whole(None));
        // Ignore a panic in the destructor, because polling the body has already panicked.
        caught(|| drop(pieces));
    }
}

/// Runs user code, such as the body's stream or a layer, and catches its panics. Returns `None` if it panics. Over
/// HTTP/2, this user code runs in the task of a shared connection.
fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}
