//! Streams of lists and watches that return [`ApiError`](pintle_meta::ApiError) as their error type.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_meta::{ApiError, ListPart, RawObject, WatchEvent};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::list::ListStream;
use crate::watch::{RawWatch, Watch};

/// A stream of the items of a list. The error type is [`ApiError`](pintle_meta::ApiError). The
/// [`ListWatch`](pintle_meta::ListWatch) of an [`Api`](crate::Api) returns this stream.
#[must_use = "a list is not read until it is polled"]
#[derive(Debug)]
pub struct PageStream(pub(super) ListStream);

/// A stream of the decoded events of a watch. The error type is [`ApiError`](pintle_meta::ApiError).
/// [`Api::watch`](crate::Api::watch) returns it.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, Object, PartialObject, WatchEvent, WatchOptions};
/// use pintle_restreq::Api;
///
/// async fn follow(pods: &Api<PartialObject>) -> Result<(), ApiError> {
///     let mut events = pods.watch(&WatchOptions::default()).await?;
///     while let Some(event) = events.next().await {
///         match event? {
///             WatchEvent::Deleted(pod) => println!("{} is gone", pod.key()),
///             event => println!("{event:?}"),
///         }
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a watch does nothing until it is polled"]
#[derive(Debug)]
pub struct EventStream<T>(pub(super) Watch<T>);

/// A stream of the undecoded events of a watch. The error type is [`ApiError`](pintle_meta::ApiError). The
/// [`ListWatch`](pintle_meta::ListWatch) of an [`Api`](crate::Api) returns this stream.
#[must_use = "a watch does nothing until it is polled"]
#[derive(Debug)]
pub struct RawEventStream(pub(super) RawWatch);

impl<T: DeserializeOwned> EventStream<T> {
    /// Returns the next event, or `None` when the watch has ended.
    ///
    /// # Errors
    ///
    /// Returns an error in one of these cases. After an error, the watch returns no further events.
    ///
    /// - The connection is lost.
    /// - The server has not sent data for too long.
    /// - The server sends a frame that cannot be decoded as an event of a `T`.
    ///
    /// If the server reports a failure, the method returns [`WatchEvent::Error`] as an event, not an error.
    ///
    /// # Cancel safety
    ///
    /// No event is lost.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<T>, ApiError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for PageStream {
    type Item = Result<ListPart, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(Error::into)
    }
}

impl<T: DeserializeOwned> Stream for EventStream<T> {
    type Item = Result<WatchEvent<T>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(Error::into)
    }
}

impl Stream for RawEventStream {
    type Item = Result<WatchEvent<RawObject>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(Error::into)
    }
}
