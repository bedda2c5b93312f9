//! Watches, whose events are decoded as they arrive.

mod frames;

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{ApiError, DecodeError, ErrorKind, RawObject, WatchEvent};
use serde::de::DeserializeOwned;

pub use frames::{FrameSplitter, FrameTooLarge};

use crate::error::{failed, unreadable};
use crate::stream::ByteStream;

/// A stream of decoded watch events, in the order of the server.
///
/// The stream ends in one of the following ways:
///
/// - If the server closes the watch without an error, the stream returns `None`.
/// - If the connection is lost, or no data arrives within the idle timeout, the stream returns an error and then
///   `None`.
/// - If a frame is invalid or too large, or if an object cannot be decoded as `T`, the stream returns an error and then
///   `None`.
///
/// A failure that the server reports is delivered as the event [`WatchEvent::Error`], and is not an error of the
/// stream.
///
/// The watch is closed when the stream is dropped.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, Object, PartialObject, WatchEvent};
/// use pintle_restreq::RestClient;
///
/// async fn follow(client: &RestClient) -> Result<(), ApiError> {
///     let pods = client.get().abs_path(["/api/v1/pods"]).param("watch", "true");
///     let mut watch = pods.watch::<PartialObject>().await?;
///     while let Some(event) = watch.next().await {
///         match event? {
///             WatchEvent::Deleted(pod) => println!("{} is gone", pod.key()),
///             event => println!("{event:?}"),
///         }
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a watch does nothing until it is polled"]
pub struct Watch<T> {
    raw: RawWatch,
    object: PhantomData<fn() -> T>,
}

/// A stream of watch events whose objects are not decoded. Unlike a [`Watch`], a `RawWatch` continues after an object
/// that cannot be decoded, and after a frame that exceeds [`max_object`](pintle_meta::ClientConfig::max_object).
///
/// # Examples
///
/// ```
/// use futures_util::TryStreamExt;
/// use pintle_meta::{ApiError, RawObject, WatchEvent};
/// use pintle_restreq::RestClient;
///
/// async fn follow(client: &RestClient) -> Result<(), ApiError> {
///     let mut watch = client.get().abs_path(["/api/v1/pods"]).param("watch", "true").raw_watch().await?;
///     while let Some(event) = watch.try_next().await? {
///         if let WatchEvent::Added(RawObject::Json(json)) = event {
///             println!("{} bytes", json.len());
///         }
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a watch does nothing until it is polled"]
pub struct RawWatch {
    bytes: ByteStream,
    frames: FrameSplitter,
    done: bool,
}

impl<T: DeserializeOwned> Watch<T> {
    pub(crate) fn new(raw: RawWatch) -> Self {
        Self { raw, object: PhantomData }
    }

    /// Returns the next event, or `None` at the end of the watch.
    ///
    /// # Errors
    ///
    /// Returns the errors that are described in the documentation of this type. After an error, further calls return
    /// `None`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<T>, ApiError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<T: DeserializeOwned> Stream for Watch<T> {
    type Item = Result<WatchEvent<T>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(event) = ready!(self.raw.poll_event(cx)) else { return Poll::Ready(None) };
        let decoded = event.and_then(|event| {
            let kind = event.event_type();
            event.try_map(|object| {
                let fault = |error: String| {
                    unreadable(self.raw.bytes.request(), format!("the object of an event of type {kind}: {error}"))
                };
                match object {
                    RawObject::Json(json) => {
                        serde_json::from_slice(&json).map_err(|error| fault(DecodeError::from(error).to_string()))
                    }
                    RawObject::Oversized(oversized) => Err(fault(oversized.to_string())),
                }
            })
        });
        self.raw.done |= decoded.is_err();
        Poll::Ready(Some(decoded))
    }
}

impl<T> std::fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watch").field(&self.raw).finish()
    }
}

impl RawWatch {
    pub(crate) fn new(bytes: ByteStream, max_frame: usize) -> Self {
        Self { bytes, frames: FrameSplitter::new(max_frame), done: false }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<RawObject>, ApiError>>> {
        if self.done {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_frame(cx));
        self.done = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<RawObject>, ApiError>>> {
        loop {
            if let Some(event) = self.frames.next_event() {
                let request = || Some(self.bytes.request().clone());
                return Poll::Ready(Some(event.map_err(|error| ApiError { request: request(), ..error })));
            }
            match ready!(Pin::new(&mut self.bytes).poll_next(cx)) {
                Some(Ok(chunk)) => self.frames.push(chunk),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.frames.is_between_frames() => return Poll::Ready(None),
                None => return Poll::Ready(Some(Err(self.ended_within_a_frame()))),
            }
        }
    }

    /// Returns the error for a response that ends in the middle of a frame, for example because a proxy has shut down.
    /// The error is the same as for a lost connection. The caller can resume the watch after the last complete event.
    fn ended_within_a_frame(&self) -> ApiError {
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the watch ended within a frame");
        failed(self.bytes.request(), ErrorKind::Transport(Arc::new(error)))
    }
}

pintle_meta::debug_struct!(RawWatch { bytes, .. });

impl Stream for RawWatch {
    type Item = Result<WatchEvent<RawObject>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(cx)
    }
}
