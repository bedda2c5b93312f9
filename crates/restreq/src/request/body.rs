//! The four kinds of body.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full};

use crate::error::InvalidRequest;

/// What hyper is given to send.
pub(crate) type HttpBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;
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
        Ok(match self {
            Self::Empty => Empty::new().map_err(|never| match never {}).boxed_unsync(),
            Self::Bytes(bytes) => Full::new(bytes.clone()).map_err(|never| match never {}).boxed_unsync(),
            Self::Stream(source) => {
                let source = source.lock().unwrap_or_else(PoisonError::into_inner).take();
                Chunks(source.ok_or(InvalidRequest::BodyUsed)?).boxed_unsync()
            }
        })
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

struct Chunks(ByteSource);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.as_mut().poll_next(cx).map(|next| next.map(|chunk| chunk.map(Frame::data).map_err(BoxError::from)))
    }
}
