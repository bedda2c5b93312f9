//! Lists that are read item by item.

pub(crate) mod splitter;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http::HeaderMap;
use pintle_meta::{ApiError, DecodeError, ListMeta, ListPart, Object as _, PartialObject, RawObject, RequestLine};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::splitter::{Fault, ListSplitter};
use crate::error::{rejected, unreadable};
use crate::status;
use crate::stream::ByteStream;

/// A stream of the items of a list in the order of the response, followed by the metadata of the list.
///
/// Only one item is in memory at a time, and no item larger than [`max_object`](pintle_meta::ClientConfig::max_object).
/// At the end of the list, the stream returns `None`. In the following cases, the stream returns an error and then
/// `None`:
///
/// - The connection is lost.
/// - The server sends no data for longer than the idle timeout.
/// - The body is not a JSON list.
///
/// Dropping the stream cancels the request.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, ListPart, RawObject};
/// use pintle_restreq::RestClient;
///
/// async fn sizes(client: &RestClient) -> Result<(), ApiError> {
///     let mut pods = client.get().abs_path(["/api/v1/pods"]).list().await?;
///     while let Some(part) = pods.next().await {
///         match part? {
///             ListPart::Item(RawObject::Json(json)) => println!("{} bytes", json.len()),
///             ListPart::Item(RawObject::Oversized(pod)) => println!("{:?}: {pod}", pod.key),
///             ListPart::Metadata(list) => println!("at revision {}", list.resource_version),
///         }
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a list is not read until it is polled"]
pub struct ListStream {
    bytes: ByteStream,
    splitter: ListSplitter,
    done: bool,
}

impl ListStream {
    pub(crate) fn new(bytes: ByteStream, max_item: usize) -> Self {
        Self { bytes, splitter: ListSplitter::new(max_item), done: false }
    }

    /// Returns the next item or the metadata. Returns `None` at the end of the list.
    ///
    /// # Errors
    ///
    /// Returns the errors that are described in [`ListStream`]. After an error, the list is incomplete, and further
    /// calls return `None`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no part of the list is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<ListPart, ApiError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Returns the method and the URL of the request for this list.
    pub fn request(&self) -> &Arc<RequestLine> {
        self.bytes.request()
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<ListPart, ApiError>> {
        loop {
            match self.splitter.next_item() {
                Ok(Some(item)) => return Poll::Ready(Ok(ListPart::Item(item))),
                Ok(None) => {}
                Err(fault) => return Poll::Ready(Err(self.faulty(fault))),
            }
            match ready!(Pin::new(&mut self.bytes).poll_next(cx)) {
                Some(Ok(chunk)) => self.splitter.push(chunk),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {
                    self.done = true;
                    return Poll::Ready(self.metadata().map(ListPart::Metadata));
                }
            }
        }
    }

    /// Decodes the metadata of the list from the JSON that surrounds the items. Call this method only after the end of
    /// the body.
    fn metadata(&self) -> Result<ListMeta, ApiError> {
        let envelope = self.splitter.finish().map_err(|fault| self.faulty(fault))?;
        if let Some(status) = status::failure_anywhere(envelope) {
            let body = Bytes::copy_from_slice(envelope);
            return Err(rejected(self.request(), status, &HeaderMap::new(), body));
        }
        read_envelope(envelope).map_err(|message| unreadable(self.request(), message))
    }

    fn faulty(&self, fault: Fault) -> ApiError {
        unreadable(self.request(), fault.to_string())
    }
}

pintle_meta::debug_struct!(ListStream { bytes, .. });

impl Stream for ListStream {
    type Item = Result<ListPart, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let part = ready!(self.poll_part(cx));
        self.done |= part.is_err();
        Poll::Ready(Some(part))
    }
}

pub(crate) fn split(body: Bytes) -> Result<(Vec<RawObject>, ListMeta), String> {
    let mut splitter = ListSplitter::new(body.len());
    splitter.push(body);
    let mut items = Vec::new();
    while let Some(item) = splitter.next_item().map_err(|fault| fault.to_string())? {
        items.push(item);
    }
    Ok((items, read_envelope(splitter.finish().map_err(|fault| fault.to_string())?)?))
}

/// Decodes the list item at index `at`. An error contains this index and, if possible, the key of the object.
pub(crate) fn decode<T: DeserializeOwned>(at: usize, item: &RawObject) -> Result<T, String> {
    let (key, error) = match item {
        RawObject::Json(json) => match serde_json::from_slice(json) {
            Ok(object) => return Ok(object),
            Err(error) => {
                (item.decode().ok().map(|object: PartialObject| object.key()), DecodeError::from(error).to_string())
            }
        },
        RawObject::Oversized(oversized) => (oversized.key.clone(), oversized.to_string()),
    };
    let name = key.map(|key| format!(" ({key})")).unwrap_or_default();
    Err(format!("item {at}{name}: {error}"))
}

fn read_envelope(envelope: &[u8]) -> Result<ListMeta, String> {
    #[derive(Deserialize)]
    struct Envelope {
        kind: Option<String>,
        metadata: Option<ListMeta>,
        items: Option<[(); 0]>,
    }
    let read: Envelope = serde_json::from_slice(envelope).map_err(|error| DecodeError::from(error).to_string())?;
    let kind = read.kind.unwrap_or_default();
    // Reject a `Status` object, even if it also has the fields of a list. An informer would treat it as an empty list,
    // and would therefore delete all objects.
    if kind == "Status" || (read.items.is_none() && !kind.ends_with("List")) {
        return Err(format!("expected a list, got kind {kind:?}"));
    }
    Ok(read.metadata.unwrap_or_default())
}
