//! Request bodies.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use pintle_meta::__private::Mutex;
use pintle_transport::{ByteSource, RequestBody};

use crate::error::InvalidRequest;

#[derive(Clone, Default)]
pub(crate) enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    /// A stream, which can be sent only once and is therefore never retried.
    Stream(Arc<Mutex<Option<ByteSource>>>),
}

impl Body {
    pub(crate) fn stream(source: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Self {
        Self::Stream(Arc::new(Mutex::new(Some(Box::pin(source)))))
    }

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

    pub(crate) fn to_http(&self) -> Result<RequestBody, InvalidRequest> {
        Ok(match self {
            Self::Empty => RequestBody::default(),
            Self::Bytes(bytes) => RequestBody::of_bytes(bytes.clone()),
            Self::Stream(source) => {
                let source = source.lock().take();
                RequestBody::of_stream(source.ok_or(InvalidRequest::BodyUsed)?)
            }
        })
    }
}

impl fmt::Debug for Body {
    /// Prints only the size, because the body may contain a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(_) => f.write_str("stream"),
        }
    }
}
