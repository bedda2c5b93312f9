//! The body of an answer, and the connection that it comes over.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::lane::Lease;

/// The body of an answer. At its end, its connection is free for the next.
pub(crate) struct AnswerBody {
    incoming: Incoming,
    lease: Option<Lease>,
}

impl AnswerBody {
    pub(super) fn new(incoming: Incoming, lease: Lease) -> Self {
        let mut body = Self { incoming, lease: Some(lease) };
        if body.incoming.is_end_stream() {
            body.end();
        }
        body
    }

    fn end(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            lease.end();
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        if !matches!(frame, Some(Err(_))) && (frame.is_none() || self.incoming.is_end_stream()) {
            self.end();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
