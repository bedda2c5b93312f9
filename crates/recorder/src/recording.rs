//! Replays recordings.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::future::{Future, pending};
use std::io::{self, BufReader};
use std::marker::PhantomData;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pintle_meta::__private::Mutex;
use pintle_meta::{ApiError, ApiResource, ListOptions, ListPart, ListWatch, RawObject, WatchEvent, WatchOptions};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::line::{Line, Record, Source};

/// A source that replays the recording of a [`Recorder`](crate::Recorder) to an informer in a test.
///
/// The source responds to requests in the recorded order, each after the recorded delay. With a paused tokio clock,
/// even the replay of a recording of many hours takes almost no time. A recording ignores the options of requests. If
/// the informer requests a list and the recording contains a watch, or vice versa, the request fails, and the
/// informer's state contains the error. Requests after the last recorded response remain pending. If the file is
/// incomplete, for example because the recording process was killed, the recording contains all complete entries. A
/// recording ignores entries after a `FULL` or `LOST` entry.
///
/// A recording does not replay the delays between requests, because the informer determines these delays. To get the
/// same delays, use the same `InformerConfig::seed` as in the recorded process.
///
/// # Examples
///
/// See the [crate documentation](crate) for an example.
pub struct Recording<T> {
    /// The resource and the namespace of the replayed requests.
    source: Source,
    calls: Arc<Calls>,
    object: PhantomData<fn() -> T>,
}

/// The recorded requests that remain to be replayed, by namespace, where `None` means all namespaces.
type Calls = BTreeMap<Option<String>, Mutex<VecDeque<Call>>>;

struct Call {
    is_watch: bool,
    began: Duration,
    /// The recorded responses to the request, with their times since the start of the request.
    records: VecDeque<(Duration, Record)>,
}

impl<T> Recording<T> {
    /// Reads a recording into memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is not a recording.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let Some(Line { record: Record::Source(source), .. }) = Line::read(&mut file)? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file is not a recording: it has no SOURCE entry",
            ));
        };
        let mut calls: Vec<(Option<String>, Call)> = Vec::new();
        while let Some(Line { at, call, record }) = Line::read(&mut file)? {
            if matches!(record, Record::Full | Record::Lost(_)) {
                break;
            }
            let is_watch = matches!(record, Record::Watch(_));
            if let Record::List(request) | Record::Watch(request) = record {
                let namespace = match request.namespace {
                    None => source.namespace.clone(),
                    Some(namespace) => Some(namespace).filter(|namespace| !namespace.is_empty()),
                };
                calls.push((namespace, Call { is_watch, began: at, records: VecDeque::new() }));
            } else if let Some((_, call)) =
                usize::try_from(call).ok().and_then(|call| calls.get_mut(call.checked_sub(1)?))
            {
                call.records.push_back((at.saturating_sub(call.began), record));
            }
        }
        let mut by_namespace: BTreeMap<_, VecDeque<Call>> = BTreeMap::new();
        for (namespace, call) in calls {
            by_namespace.entry(namespace).or_default().push_back(call);
        }
        let calls = by_namespace.into_iter().map(|(namespace, calls)| (namespace, Mutex::new(calls)));
        Ok(Self { source, calls: Arc::new(calls.collect()), object: PhantomData })
    }

    /// Returns the source of one namespace, or of all namespaces for `None`. Use the returned source for an informer of
    /// several namespaces whose sources were all [recorded](crate::Recorder::record). If a namespace is removed and
    /// added again, its replay continues after the last replayed request. Requests in a namespace that the file does
    /// not contain remain pending.
    #[must_use]
    pub fn in_namespace(&self, namespace: Option<&str>) -> Self {
        let mut source = self.source.clone();
        source.namespace = namespace.map(str::to_owned);
        Self { source, calls: self.calls.clone(), object: PhantomData }
    }

    async fn answer<I>(
        &self,
        is_watch: bool,
        item: fn(Record) -> Result<Option<I>, ApiError>,
    ) -> Result<Replayed<I>, ApiError> {
        let began = Instant::now();
        let Some(calls) = self.calls.get(&self.source.namespace) else { return pending().await };
        let call = {
            let mut calls = calls.lock();
            match calls.front() {
                Some(call) if call.is_watch != is_watch => return Err(other(is_watch)),
                _ => calls.pop_front(),
            }
        };
        let Some(mut call) = call else { return pending().await };
        let Some((after, answer)) = call.records.pop_front() else { return pending().await };
        sleep_until(began + after).await;
        match answer {
            Record::Failed(failure) => Err((*failure).into()),
            _ => Ok(Replayed { began, records: call.records, item, sleep: Box::pin(sleep(Duration::ZERO)) }),
        }
    }
}

fn other(is_watch: bool) -> ApiError {
    let (requested, recorded) = if is_watch { ("a watch", "a list") } else { ("a list", "a watch") };
    ApiError::invalid_request(format!("{requested} was requested, but the recording continues with {recorded}"))
}

impl<T: 'static> ListWatch for Recording<T> {
    type Object = T;
    type Page = Replayed<ListPart>;
    type Events = Replayed<WatchEvent<RawObject>>;

    fn api_resource(&self) -> ApiResource {
        self.source.resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.source.namespace.as_deref()
    }

    async fn list(&self, _: &ListOptions) -> Result<Self::Page, ApiError> {
        let part = |record| match record {
            Record::Item(object) => Ok(Some(ListPart::Item(object))),
            Record::Metadata(metadata) => Ok(Some(ListPart::Metadata(metadata))),
            record => rest(record),
        };
        self.answer(false, part).await
    }

    async fn watch(&self, _: &WatchOptions) -> Result<Self::Events, ApiError> {
        let event = |record| match record {
            Record::Event(event) => Ok(Some(event)),
            record => rest(record),
        };
        self.answer(true, event).await
    }
}

/// Converts a recorded entry to the end or the error of a stream.
fn rest<I>(record: Record) -> Result<Option<I>, ApiError> {
    match record {
        Record::Failed(failure) => Err((*failure).into()),
        Record::End => Ok(None),
        _ => Err(ApiError::decode("the next entry of the recording does not answer a request of this kind")),
    }
}

/// A recorded stream.
pub struct Replayed<I> {
    began: Instant,
    records: VecDeque<(Duration, Record)>,
    item: fn(Record) -> Result<Option<I>, ApiError>,
    sleep: Pin<Box<Sleep>>,
}

impl<I> Stream for Replayed<I> {
    type Item = Result<I, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Return `Pending` if the recording has no more entries for this stream.
        let Some((after, _)) = self.records.front() else { return Poll::Pending };
        let due = self.began + *after;
        if due > Instant::now() {
            self.sleep.as_mut().reset(due);
            ready!(self.sleep.as_mut().poll(context));
        }
        let Some((_, record)) = self.records.pop_front() else { return Poll::Pending };
        Poll::Ready((self.item)(record).transpose())
    }
}

// Omits the objects.
pintle_meta::debug_struct!(Recording<T> { source, .. });

pintle_meta::debug_struct!(Replayed<I> |self| { records = self.records.len(), .. });
