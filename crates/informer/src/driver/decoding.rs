//! Decodes raw objects in order, in batches on threads outside the async runtime.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{ApiError, ListPart, RawObject, WatchEvent};
use tokio::task::JoinHandle;
use tokio::task::coop::poll_proceed;

use super::offload::off_the_runtime;

/// Collects raw items that are ready into batches. Several batches can be decoded at the same time on threads outside
/// the async runtime. The decoded items are in the same order as the raw items. Small numbers of small items, such as
/// the events of a quiet watch, are decoded on the current thread, because offloading them would be slower.
pub(super) struct Decoding<S, I, O> {
    source: Option<S>,
    decode: Arc<Decode<I, O>>,
    gathered: Vec<Result<I, ApiError>>,
    gathered_bytes: usize,
    under_way: VecDeque<JoinHandle<Vec<Result<O, ApiError>>>>,
    ready: VecDeque<Result<O, ApiError>>,
}

pub(super) type Decode<I, O> = dyn Fn(I) -> Result<O, ApiError> + Send + Sync;

/// The approximate size of a batch, in bytes. Decoding a batch takes a few milliseconds, so the overhead of offloading
/// is small.
const BATCH_BYTES: usize = 256 << 10;

/// The maximum number of items in a batch, for sources whose items are always ready.
const BATCH_ITEMS: usize = 200;

/// The maximum number of bytes that are decoded on the current thread. `INLINE_BYTES` is small, so that decoding does
/// not delay other tasks on a current-thread runtime.
const INLINE_BYTES: usize = 32 << 10;

/// The maximum number of items that are decoded on the current thread. Decoding an item may call a transform, which is
/// user code and may be slow.
const INLINE_ITEMS: usize = 16;

/// The maximum number of batches that are decoded at the same time. The number of batches is limited to bound the
/// memory if the source is faster than the decoder.
const MAX_BATCHES: usize = 4;

/// The number of received bytes that consume one unit of tokio's cooperative budget. A task has a budget of 128 units
/// per poll, so a driver reads at most half a megabyte per poll. Reading half a megabyte takes less than a millisecond.
const BYTES_PER_UNIT: usize = 4 << 10;

pub(super) trait RawSize {
    fn raw_size(&self) -> usize;
}

impl<S, I, O> Decoding<S, I, O>
where
    S: Stream<Item = Result<I, ApiError>> + Unpin,
    I: RawSize + Send + 'static,
    O: Send + 'static,
{
    pub(super) fn new(source: S, decode: Arc<Decode<I, O>>) -> Self {
        Self {
            source: Some(source),
            decode,
            gathered: Vec::new(),
            gathered_bytes: 0,
            under_way: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<O, ApiError>>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            while self.under_way.len() < MAX_BATCHES && self.gather(context) && !self.fits_inline() {
                self.hand_over();
            }
            if self.fits_inline() {
                let batch = self.take_gathered();
                self.ready.extend(decode_all(&*self.decode, batch));
                continue;
            }
            if self.under_way.is_empty() && !self.gathered.is_empty() {
                self.hand_over();
            }
            let Some(oldest) = self.under_way.front_mut() else {
                return if self.source.is_some() { Poll::Pending } else { Poll::Ready(None) };
            };
            let decoded = ready!(Pin::new(oldest).poll(context));
            self.under_way.pop_front();
            match decoded {
                Ok(decoded) => self.ready.extend(decoded),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime is shutting down: it has cancelled the decoding task, and will also drop the current
                // task.
                Err(_) => return Poll::Pending,
            }
        }
    }

    /// Returns `true` if the stream only waits for its source, because no batch is being decoded.
    pub(super) fn waits_for_its_source(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Collects the items that the source has ready, and returns `true` if the batch is full.
    fn gather(&mut self, context: &mut Context<'_>) -> bool {
        while self.gathered_bytes < BATCH_BYTES && self.gathered.len() < BATCH_ITEMS {
            let Some(source) = &mut self.source else { return false };
            // Without this call, a source whose items are always ready would fill up to four batches in one poll.
            let Poll::Ready(coop) = poll_proceed(context) else { return false };
            match Pin::new(source).poll_next(context) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(item))) => {
                    coop.made_progress();
                    let size = item.raw_size();
                    self.gathered_bytes += size;
                    self.gathered.push(Ok(item));
                    consume(size / BYTES_PER_UNIT, context);
                }
                Poll::Ready(end) => {
                    coop.made_progress();
                    self.source = None;
                    self.gathered.extend(end);
                }
            }
        }
        true
    }

    /// Returns `true` if the collected items may be decoded on the current thread. The current thread decodes only small
    /// batches, and only while no earlier batch is being decoded.
    fn fits_inline(&self) -> bool {
        let is_little = self.gathered_bytes <= INLINE_BYTES && self.gathered.len() <= INLINE_ITEMS;
        self.under_way.is_empty() && !self.gathered.is_empty() && is_little
    }

    fn hand_over(&mut self) {
        let (decode, batch) = (self.decode.clone(), self.take_gathered());
        // Decode the batch in a new task while this stream waits for the next batch.
        self.under_way.push_back(tokio::spawn(off_the_runtime(move || decode_all(&*decode, batch))));
    }

    fn take_gathered(&mut self) -> Vec<Result<I, ApiError>> {
        self.gathered_bytes = 0;
        std::mem::take(&mut self.gathered)
    }
}

impl<S, I, O> Drop for Decoding<S, I, O> {
    /// Cancels the batches that are not being decoded yet.
    fn drop(&mut self) {
        self.under_way.iter().for_each(JoinHandle::abort);
    }
}

/// Consumes `units` units of the task's cooperative budget, or all remaining units if there are fewer.
fn consume(units: usize, context: &mut Context<'_>) {
    for _ in 0..units {
        match poll_proceed(context) {
            Poll::Ready(coop) => coop.made_progress(),
            Poll::Pending => return,
        }
    }
}

fn decode_all<I, O>(decode: &Decode<I, O>, batch: Vec<Result<I, ApiError>>) -> Vec<Result<O, ApiError>> {
    batch.into_iter().map(|item| item.and_then(decode)).collect()
}

impl RawSize for RawObject {
    fn raw_size(&self) -> usize {
        match self {
            Self::Json(json) => json.len(),
            Self::Oversized(_) => 0,
        }
    }
}

impl RawSize for ListPart {
    fn raw_size(&self) -> usize {
        match self {
            Self::Item(object) => object.raw_size(),
            Self::Metadata(_) => 0,
        }
    }
}

impl RawSize for WatchEvent<RawObject> {
    fn raw_size(&self) -> usize {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object.raw_size(),
            Self::Bookmark(_) | Self::Error(_) => 0,
        }
    }
}
