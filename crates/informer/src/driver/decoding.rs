//! Decodes what comes off the runtime, many at once, and keeps the order.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{ApiError, ListPart, RawObject, WatchEvent};
use tokio::task::JoinHandle;

use super::offload::off_the_runtime;

/// A stream of raw things as a stream of decoded ones.
///
/// What is ready is gathered into batches, which are decoded off the runtime, several at once; what comes out has the order of what went in.
/// A little, such as the events of a quiet watch, is decoded on the spot, which takes less than to hand it over.
pub(super) struct Decoding<S, I, O> {
    /// None when it has ended.
    source: Option<S>,
    decode: Arc<Decode<I, O>>,
    gathered: Vec<Result<I, ApiError>>,
    gathered_bytes: usize,
    /// Oldest first.
    under_way: VecDeque<JoinHandle<Vec<Result<O, ApiError>>>>,
    ready: VecDeque<Result<O, ApiError>>,
}

pub(super) type Decode<I, O> = dyn Fn(I) -> Result<O, ApiError> + Send + Sync;

/// About how large a batch is: a few milliseconds of a thread, which makes little of what it costs to hand it over.
const BATCH_BYTES: usize = 256 << 10;

/// The most items in a batch: what a source that always has something ready gives in one go.
const BATCH_ITEMS: usize = 200;

/// Up to that size it takes less time to decode than a current-thread runtime can spare.
const ON_THE_SPOT: usize = 32 << 10;

/// The most items that are decoded on the spot: each is a call of a transform, which is a user's and may take long.
const ITEMS_ON_THE_SPOT: usize = 16;

/// The most batches that are being decoded. It bounds what is held of a source that is faster than its decoder.
const UNDER_WAY: usize = 4;

/// How much of an object there is to decode.
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

    /// The next item, None at the end. After an error, it is at its end as well.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<O, ApiError>>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            while self.under_way.len() < UNDER_WAY && self.gather(context) && !self.is_for_the_spot() {
                self.hand_over();
            }
            if self.is_for_the_spot() {
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
                // The runtime is going, and this task with it.
                Err(_) => return Poll::Pending,
            }
        }
    }

    /// Whether there is nothing to wait for but the source.
    pub(super) fn waits_for_its_source(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Takes what the source has ready. Whether that makes a batch; else the source has no more for now, or for good.
    fn gather(&mut self, context: &mut Context<'_>) -> bool {
        while self.gathered_bytes < BATCH_BYTES && self.gathered.len() < BATCH_ITEMS {
            let Some(source) = &mut self.source else { return false };
            match Pin::new(source).poll_next(context) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(item))) => {
                    self.gathered_bytes += item.raw_size();
                    self.gathered.push(Ok(item));
                }
                Poll::Ready(end) => {
                    self.source = None;
                    self.gathered.extend(end);
                }
            }
        }
        true
    }

    /// Whether what is gathered is little, and next.
    fn is_for_the_spot(&self) -> bool {
        let is_little = self.gathered_bytes <= ON_THE_SPOT && self.gathered.len() <= ITEMS_ON_THE_SPOT;
        self.under_way.is_empty() && !self.gathered.is_empty() && is_little
    }

    fn hand_over(&mut self) {
        let (decode, batch) = (self.decode.clone(), self.take_gathered());
        // A task of its own, so that it goes on while another batch is waited for.
        self.under_way.push_back(tokio::spawn(off_the_runtime(move || decode_all(&*decode, batch))));
    }

    fn take_gathered(&mut self) -> Vec<Result<I, ApiError>> {
        self.gathered_bytes = 0;
        std::mem::take(&mut self.gathered)
    }
}

impl<S, I, O> Drop for Decoding<S, I, O> {
    /// What nobody waits for any more need not begin.
    fn drop(&mut self) {
        self.under_way.iter().for_each(JoinHandle::abort);
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
