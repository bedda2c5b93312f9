mod frames;

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{ApiError, RawFrame, WatchEvent};
use serde::de::DeserializeOwned;

pub use frames::{FrameSplitter, FrameTooLarge};

use crate::Error;
use crate::stream::ByteStream;

/// The events of a watch, in the order of the server.
///
/// It ends without an item when the server ends the watch properly. It ends after an error when the connection is lost,
/// within a frame too, rests for longer than the request's idle deadline, or brings what is no watch frame. What the server
/// itself has to say on the end of the watch comes as [`WatchEvent::Error`], which is an event like the others.
///
/// Dropping it ends the watch.
#[must_use = "a watch does nothing until it is polled"]
pub struct Watch<T> {
    bytes: ByteStream,
    frames: FrameSplitter,
    done: bool,
    object: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Watch<T> {
    pub(crate) fn new(bytes: ByteStream, max_frame: usize) -> Self {
        Self { bytes, frames: FrameSplitter::new(max_frame), done: false, object: PhantomData }
    }

    /// The next event, `None` at the end.
    ///
    /// # Errors
    ///
    /// As for the stream. The watch is at its end then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn event(&mut self) -> Option<Result<WatchEvent<T>, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<T>, Error>>> {
        loop {
            if let Some(frame) = self.frames.next_frame() {
                return Poll::Ready(Some(match frame {
                    Ok(frame) => self.decode(&frame),
                    Err(too_large) => Err(self.unreadable(too_large.to_string())),
                }));
            }
            match ready!(Pin::new(&mut self.bytes).poll_next(cx)) {
                Some(Ok(chunk)) => self.frames.push(chunk),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.frames.is_between_frames() => return Poll::Ready(None),
                None => return Poll::Ready(Some(Err(self.unreadable("the watch ended within a frame".into())))),
            }
        }
    }

    fn decode(&self, frame: &[u8]) -> Result<WatchEvent<T>, Error> {
        let raw: RawFrame<'_> =
            serde_json::from_slice(frame).map_err(|error| self.unreadable(format!("no watch frame: {error}")))?;
        raw.decode().map_err(|error| match error {
            ApiError::Decode(cause) => self.unreadable(cause.to_string()),
            other => self.unreadable(other.to_string()),
        })
    }

    fn unreadable(&self, message: String) -> Error {
        Error::Decode { request: self.bytes.request().clone(), message: message.into() }
    }
}

impl<T: DeserializeOwned> Stream for Watch<T> {
    type Item = Result<WatchEvent<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_event(cx));
        self.done = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

impl<T> std::fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
