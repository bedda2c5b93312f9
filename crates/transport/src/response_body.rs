//! Response bodies. Each body owns its connection until the body ends.

#[cfg(feature = "gzip")]
mod inflate;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pintle_meta::__private::Mutex;

#[cfg(all(feature = "gzip", any(test, fuzzing)))]
pub(crate) use self::inflate::inflated;
use crate::connection_group::{Incoming, PooledConnection};
use crate::error::BoxError;

/// A response body. When the body ends, another request can use its connection.
pub struct ResponseBody(Source);

enum Source {
    Connection {
        incoming: Incoming,
        connection: Option<PooledConnection>,
    },
    /// A body that a `tower` layer returned. The mutex is never contended: it only makes the body `Sync`.
    Layer(Mutex<Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>>),
    #[cfg(feature = "gzip")]
    Gzip(Box<inflate::Inflate>),
    Whole(Bytes),
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, connection: PooledConnection) -> Self {
        let mut source = Source::Connection { incoming, connection: Some(connection) };
        source.end_if_over();
        Self(source)
    }

    /// Creates a body from any type that implements [`http_body::Body`], such as the body of a `tower` layer.
    pub fn of_layer(body: impl Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static) -> Self {
        use http_body_util::BodyExt as _;
        Self(Source::Layer(Mutex::new(Box::pin(body.map_err(Into::into)))))
    }

    pub(super) fn of_bytes(bytes: Bytes) -> Self {
        Self(Source::Whole(bytes))
    }

    /// Decompresses this gzip body.
    #[cfg(feature = "gzip")]
    pub fn inflated(self) -> Self {
        Self(Source::Gzip(Box::new(inflate::Inflate::new(self))))
    }
}

impl Source {
    fn end_if_over(&mut self) {
        if let Self::Connection { incoming, connection } = self
            && incoming.is_end_stream()
            && let Some(mut connection) = connection.take()
        {
            connection.release();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Source::Connection { incoming, connection } => {
                // The response has ended if there is no connection.
                let Some(active) = connection else { return Poll::Ready(None) };
                let frame = ready!(active.poll_frame(incoming, cx));
                match &frame {
                    Some(Ok(_)) => self.0.end_if_over(),
                    Some(Err(_)) => {}
                    None => connection.take().into_iter().for_each(|mut connection| connection.release()),
                }
                Poll::Ready(frame)
            }
            Source::Layer(body) => body.get_mut().as_mut().poll_frame(cx),
            #[cfg(feature = "gzip")]
            Source::Gzip(inflate) => inflate.poll_frame(cx),
            Source::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Connection { incoming, .. } => incoming.is_end_stream(),
            Source::Layer(body) => body.lock().is_end_stream(),
            #[cfg(feature = "gzip")]
            Source::Gzip(_) => false,
            Source::Whole(bytes) => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Connection { incoming, .. } => incoming.size_hint(),
            Source::Layer(body) => body.lock().size_hint(),
            // The size of the decompressed data is unknown.
            #[cfg(feature = "gzip")]
            Source::Gzip(_) => SizeHint::default(),
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
