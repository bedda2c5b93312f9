//! What lists and watches give, their errors in the words of the seams.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_meta::{ApiError, ListPart, RawObject, WatchEvent};
use serde::de::DeserializeOwned;

use crate::{Error, ListStream, RawWatch, Watch};

/// A [`ListStream`], its errors in the words of the seams: what an [`Api`](crate::Api) gives as the
/// [`ListWatch`](pintle_meta::ListWatch) that it is.
#[must_use = "a list is not read until it is polled"]
#[derive(Debug)]
pub struct PageStream(pub(super) ListStream);

/// The events of a [`Watch`], their errors in the words of the seams: what [`Api::watch`](crate::Api::watch) gives.
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

/// The events of a [`RawWatch`], their errors in the words of the seams: what an [`Api`](crate::Api) gives as the
/// [`ListWatch`](pintle_meta::ListWatch) that it is.
#[must_use = "a watch does nothing until it is polled"]
#[derive(Debug)]
pub struct RawEventStream(pub(super) RawWatch);

impl<T: DeserializeOwned> EventStream<T> {
    /// The next event, `None` at the end.
    ///
    /// # Errors
    ///
    /// The connection is lost or rests for too long, or brings what is no event of a `T`. The watch is at its end then. What the
    /// server itself has to say on the end of the watch is an event: [`WatchEvent::Error`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
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
