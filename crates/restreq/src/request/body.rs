//! The four kinds of body.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Frame, SizeHint};
use tokio::sync::oneshot;

use crate::error::InvalidRequest;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
type ByteSource = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// The body of a request.
#[derive(Clone, Default)]
pub(crate) enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    /// Taken out by the first attempt. Never sent twice, so a request with it is never retried.
    Stream(Arc<Mutex<Option<ByteSource>>>),
}

impl Body {
    pub(crate) fn stream(source: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Self {
        Self::Stream(Arc::new(Mutex::new(Some(Box::pin(source)))))
    }

    /// How many bytes it has; none where only sending it can tell.
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

    /// The body for one attempt.
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
    /// A body may be a Secret: only its size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(_) => f.write_str("stream"),
        }
    }
}

/// What is given to the transport to send.
pub(crate) struct HttpBody {
    pieces: Pieces,
    /// Its other side is dropped once nothing more is to be sent.
    over: Option<oneshot::Receiver<()>>,
}

/// Nobody waits for these mutexes: with them, a connection that holds what nobody shares can be shared itself.
enum Pieces {
    Whole(Option<Bytes>),
    Stream(Mutex<ByteSource>),
    /// What a layer made of one.
    #[cfg(feature = "tower")]
    Layer(Mutex<crate::TransportBody>),
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

impl HttpBody {
    fn new(pieces: Pieces) -> Self {
        Self { pieces, over: None }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn of_layer(body: crate::TransportBody) -> Self {
        Self::new(Pieces::Layer(Mutex::new(body)))
    }

    /// Has it break off once what is returned is dropped, should it not have come to its end: over HTTP/2 it would be sent for as long as it
    /// goes on, whatever has become of the answer. hyper looks at it when there is room to send more: a server that answers early, reads
    /// no more and resets nothing keeps it until the connection ends. What is there as a whole has no end to wait for.
    pub(crate) fn lease(&mut self) -> Option<oneshot::Sender<()>> {
        if let Pieces::Whole(_) = self.pieces {
            return None;
        }
        let (lease, over) = oneshot::channel();
        self.over = Some(over);
        Some(lease)
    }
}

impl http_body::Body for HttpBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over.as_mut().is_some_and(|over| Pin::new(over).poll(cx).is_ready()) {
            return Poll::Ready(Some(Err("the exchange is over".into())));
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
        // Of what panics even now, nothing is left to be told.
        caught(|| drop(pieces));
    }
}

/// Runs what may be somebody else's code, a stream's or a layer's: over HTTP/2 it runs in the task of a connection that others share. None if
/// it panics.
fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}
