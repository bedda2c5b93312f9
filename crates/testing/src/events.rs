//! The streams that lists and watches of a [`Collection`](crate::Collection) return.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use futures_core::Stream;
use pintle_meta::{ApiError, ListPart, RawObject, WatchEvent};

use crate::faults::{Break, FaultScript};
use crate::shared::Shared;

/// A stream of the parts of a list page: first the metadata, and then the items.
#[derive(Debug)]
pub struct Page {
    parts: vec::IntoIter<ListPart>,
    /// How the page ends or breaks after its last part.
    then: Break,
}

impl Page {
    pub(crate) fn new(mut parts: Vec<ListPart>, breaks: Option<(usize, Break)>) -> Self {
        let (parts, then) = match breaks {
            None => (parts, Break::End),
            Some((after, how)) => {
                parts.truncate(after);
                (parts, how)
            }
        };
        Self { parts: parts.into_iter(), then }
    }

    /// Returns the next part of the page, or `None` at the end of the page.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no part of the page is lost.
    pub async fn next(&mut self) -> Option<Result<ListPart, ApiError>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Page {
    type Item = Result<ListPart, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(part) = self.parts.next() {
            return Poll::Ready(Some(Ok(part)));
        }
        match std::mem::replace(&mut self.then, Break::End) {
            Break::End => Poll::Ready(None),
            Break::Fails(error) => Poll::Ready(Some(Err(error))),
            Break::Silent => {
                self.then = Break::Silent;
                Poll::Pending
            }
        }
    }
}

/// A stream of watch events. Dropping the stream closes the watch.
pub struct Events {
    shared: Arc<Shared>,
    faults: FaultScript,
    id: u64,
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>, faults: FaultScript, id: u64) -> Self {
        Self { shared, faults, id }
    }

    /// Returns the next event, or `None` at the end of the watch.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no event is lost.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<RawObject>, ApiError>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Result<WatchEvent<RawObject>, ApiError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.faults.stall(context.waker()) || self.shared.faults.stall(context.waker()) {
            return Poll::Pending;
        }
        let waker = context.waker().clone();
        let (item, unused) = self.shared.with(|store, _| store.poll_watch(self.id, waker));
        // Drop the waker after releasing the lock, because its `Drop` may run code of the executor.
        drop(unused);
        item
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let closed = self.shared.with(|store, _| store.close_watch(self.id));
        drop(closed);
    }
}

pintle_meta::debug_struct!(Events { id, .. });
