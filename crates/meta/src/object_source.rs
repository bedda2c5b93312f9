//! Sources that have objects and no bytes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use bytes::Bytes;
use futures_core::Stream;
use serde::Serialize;

use crate::{ApiError, List, ListOptions, ListPart, ListWatch, WatchEvent, WatchOptions};

/// The reading side of one resource whose objects are at hand, not their JSON: in a test, or for a source of one's own that is
/// no API server. [`Encoded`] makes it a [`ListWatch`].
///
/// # Cancel safety
///
/// As for [`ListWatch`].
pub trait ObjectSource: Send + Sync + 'static {
    /// The objects.
    type Object: Serialize + Send + 'static;

    /// The events of a watch.
    type Events: Stream<Item = Result<WatchEvent<Self::Object>, ApiError>> + Send + Unpin + 'static;

    /// One page of objects.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<List<Self::Object>, ApiError>> + Send;

    /// Opens a watch.
    fn watch(&self, options: &WatchOptions) -> impl Future<Output = Result<Self::Events, ApiError>> + Send;
}

/// An [`ObjectSource`] as a [`ListWatch`]: it writes each object as JSON.
#[derive(Clone, Debug, Default)]
pub struct Encoded<S>(pub S);

impl<S: ObjectSource> ListWatch for Encoded<S> {
    type Object = S::Object;
    type Page = Parts;
    type Events = EncodedEvents<S::Events>;

    async fn list(&self, options: &ListOptions) -> Result<Parts, ApiError> {
        let list = self.0.list(options).await?;
        let mut parts = vec![Ok(ListPart::Metadata(list.metadata))];
        parts.extend(list.items.iter().map(|object| encode(object).map(ListPart::Item)));
        Ok(Parts(parts.into_iter()))
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        Ok(EncodedEvents(self.0.watch(options).await?))
    }
}

/// The parts of a page that is at hand as a whole.
#[derive(Debug)]
pub struct Parts(vec::IntoIter<Result<ListPart, ApiError>>);

impl Parts {
    /// A page of these parts.
    pub fn new(parts: Vec<Result<ListPart, ApiError>>) -> Self {
        Self(parts.into_iter())
    }
}

impl Stream for Parts {
    type Item = Result<ListPart, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}

/// The events of an [`ObjectSource`], their objects as JSON.
#[derive(Debug)]
pub struct EncodedEvents<S>(S);

impl<T, S> Stream for EncodedEvents<S>
where
    T: Serialize,
    S: Stream<Item = Result<WatchEvent<T>, ApiError>> + Unpin,
{
    type Item = Result<WatchEvent<Bytes>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.0).poll_next(context);
        next.map(|event| event.map(|event| event?.try_map(|object| encode(&object))))
    }
}

fn encode(object: &impl Serialize) -> Result<Bytes, ApiError> {
    serde_json::to_vec(object).map(Bytes::from).map_err(ApiError::decode)
}
