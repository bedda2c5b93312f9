//! Executes a reflector's commands: lists, watches and waits.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pintle_meta::{
    ApiError, List, ListMeta, ListOptions, ListPart, ListWatch, Object, RawObject, RequestLine, TypeMeta, WatchEvent,
};
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout, timeout_at};

use super::BATCH;
use super::decoding::{Decode, Decoding};
use super::offload::drop_off_the_runtime;
use crate::decode::Observed;
use crate::decoder::Decoder;
use crate::reflector::{Command, Input};
use crate::states::States;
use crate::stored::Stored;

/// Executes a driver's requests. Owns the open watch, and the permit of the list in progress.
pub(super) struct Requests<T, L: ListWatch> {
    list_watch: L,
    request: Arc<RequestLine>,
    decoder: Arc<Decoder<T>>,
    decode_event: Arc<Decode<WatchEvent<RawObject>, Change<T>>>,
    /// Whether the current list requests the newest state. If `true`, the driver does not reuse cached objects. After a
    /// restore from a backup, the same resourceVersion may identify another state.
    is_anew: bool,
    states: States,
    limits: Limits,
    permit: Option<OwnedSemaphorePermit>,
    events: Option<Events<T, L>>,
}

#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) idle: Duration,
    pub(crate) lists: Arc<Semaphore>,
}

type Events<T, L> = Decoding<<L as ListWatch>::Events, WatchEvent<RawObject>, Change<T>>;

type Change<T> = WatchEvent<Observed<Stored<T>>>;

/// The number of received objects after which a list in progress reports its progress again.
const PROGRESS: usize = 100;

enum Part<T> {
    Item(Observed<Stored<T>>),
    Metadata(ListMeta),
}

impl<T: Object + DeserializeOwned, L: ListWatch<Object = T>> Requests<T, L> {
    pub(super) fn new(list_watch: L, decoder: &Arc<Decoder<T>>, states: States, limits: Limits) -> Self {
        let url = list_watch.api_resource().path(list_watch.namespace());
        let request = Arc::new(RequestLine { method: "GET".into(), url: url.into() });
        let (later, of_later) = (decoder.clone(), request.clone());
        let decode_event =
            move |event: WatchEvent<RawObject>| event.try_map(|object| named(later.changed(&object), &of_later));
        Self {
            list_watch,
            request,
            decoder: decoder.clone(),
            decode_event: Arc::new(decode_event),
            is_anew: false,
            states,
            limits,
            permit: None,
            events: None,
        }
    }

    pub(super) async fn carry_out(&mut self, command: Command) -> Input<Observed<Stored<T>>> {
        match command {
            Command::List(options) => {
                self.events = None;
                if options.continue_token.is_empty() {
                    self.is_anew = options.resource_version.is_empty();
                }
                self.acquire_permit().await;
                let page = self.read_page(&options).await;
                if page.as_ref().map_or(true, |page| page.metadata.continue_token.is_empty()) {
                    self.permit = None;
                }
                Input::Listed(page)
            }
            Command::Watch(options) => {
                self.events = None;
                let decode = if options.send_initial_events {
                    self.acquire_permit().await;
                    self.decode_initial(options.resource_version.is_empty())
                } else {
                    self.permit = None;
                    self.decode_event.clone()
                };
                let opened = match timeout(self.limits.idle, self.list_watch.watch(&options)).await {
                    Ok(opened) => opened,
                    Err(_) => Err(self.unanswered()),
                };
                Input::Opened(opened.map(|opened| self.events = Some(Decoding::new(opened, decode))))
            }
            Command::Read { until } => {
                match timeout_at(until.into(), poll_fn(|context| self.poll_event(context))).await {
                    Ok(event) => Input::Received(event),
                    Err(_) => Input::TimedOut,
                }
            }
            Command::Sleep(delay) => {
                (self.events, self.permit) = (None, None);
                sleep(delay).await;
                Input::Woke
            }
        }
    }

    fn decode_page(&self) -> Arc<Decode<ListPart, Part<T>>> {
        let (decoder, is_anew) = (self.decoder.clone(), self.is_anew);
        Arc::new(move |part| {
            Ok(match part {
                ListPart::Item(object) => Part::Item(decoder.listed(&object, is_anew).into()),
                ListPart::Metadata(metadata) => Part::Metadata(metadata),
            })
        })
    }

    fn decode_initial(&self, is_anew: bool) -> Arc<Decode<WatchEvent<RawObject>, Change<T>>> {
        let (decoder, request) = (self.decoder.clone(), self.request.clone());
        Arc::new(move |event| match event {
            WatchEvent::Added(object) => {
                Ok(WatchEvent::Added(named(decoder.listed(&object, is_anew).into(), &request)?))
            }
            event => event.try_map(|object| named(decoder.changed(&object), &request)),
        })
    }

    /// Returns the next event if it is ready, or the end of the watch if the watch has ended.
    pub(super) fn ready(&mut self) -> Option<Input<Observed<Stored<T>>>> {
        match self.poll_event(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => Some(Input::Received(event)),
            // This poll used a no-op waker, but the next poll of the stream registers a real waker.
            Poll::Pending => None,
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Change<T>, ApiError>>> {
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        let event = events.poll_next(context);
        let ends_list = |event: &Option<_>| match event {
            Some(Ok(WatchEvent::Bookmark(bookmark))) => bookmark.initial_events_end,
            Some(Ok(_)) => false,
            None | Some(Err(_)) => true,
        };
        if matches!(&event, Poll::Ready(event) if ends_list(event)) {
            self.permit = None;
        }
        event
    }

    async fn acquire_permit(&mut self) {
        if self.permit.is_none() {
            // `acquire_owned` fails only if the semaphore is closed, and this semaphore is never closed.
            self.permit = self.limits.lists.clone().acquire_owned().await.ok();
        }
    }

    /// Returns the next object of `page`, or the page's metadata. Returns an error if the source delivers no data
    /// within the idle timeout.
    async fn next_part(
        &mut self,
        page: &mut Decoding<L::Page, ListPart, Part<T>>,
    ) -> Option<Result<Part<T>, ApiError>> {
        // If an item is ready, return it without the cost of starting a timer.
        if let Poll::Ready(part) = poll_fn(|context| Poll::Ready(page.poll_next(context))).await {
            return part;
        }
        loop {
            match timeout(self.limits.idle, poll_fn(|context| page.poll_next(context))).await {
                Ok(part) => return part,
                Err(_) if page.waits_for_its_source() => return Some(Err(self.unanswered())),
                // Ignore the timeout, because the source has delivered data that is still being decoded.
                Err(_) => {}
            }
        }
    }

    fn unanswered(&self) -> ApiError {
        let error = ApiError::timeout(format!("the source sent nothing for {:?}", self.limits.idle));
        ApiError { request: Some(self.request.clone()), ..error }
    }

    async fn read_page(&mut self, options: &ListOptions) -> Result<List<Observed<Stored<T>>>, ApiError> {
        let page = timeout(self.limits.idle, self.list_watch.list(options)).await;
        let mut page = Decoding::new(page.unwrap_or_else(|_| Err(self.unanswered()))?, self.decode_page());
        let mut items = Gathered(Vec::new());
        let mut metadata: Option<ListMeta> = None;
        let before = self.states.last().map_or(0, |state| state.received());
        while let Some(part) = self.next_part(&mut page).await {
            match part? {
                Part::Item(observed) => {
                    if let Some(error) = observed.object.nameless() {
                        let what = format!("item {} of the list has no name: {error}", items.0.len());
                        return Err(unreadable(&self.request, &what));
                    }
                    items.0.push(observed);
                    if items.0.len().is_multiple_of(PROGRESS) {
                        // Report the progress after each few objects, because the reflector processes only complete
                        // pages.
                        self.states.report_progress(before + items.0.len());
                    }
                }
                Part::Metadata(observed) => metadata = Some(observed),
            }
            // Without this yield, a page whose objects are all ready would block other tasks.
            tokio::task::coop::consume_budget().await;
        }
        let metadata = metadata.ok_or_else(|| unreadable(&self.request, "the list ended without its metadata"))?;
        Ok(List { types: TypeMeta::default(), metadata, items: std::mem::take(&mut items.0) })
    }
}

/// The objects of a page that is not complete yet. A large number of objects is dropped on another thread.
struct Gathered<T: Send + 'static>(Vec<T>);

impl<T: Send + 'static> Drop for Gathered<T> {
    fn drop(&mut self) {
        if self.0.len() > BATCH {
            drop_off_the_runtime(std::mem::take(&mut self.0));
        }
    }
}

fn named<T>(observed: Observed<T>, request: &Arc<RequestLine>) -> Result<Observed<T>, ApiError> {
    match observed.object.nameless() {
        Some(error) => Err(unreadable(request, &format!("the object of an event has no name: {error}"))),
        None => Ok(observed),
    }
}

fn unreadable(request: &Arc<RequestLine>, what: &str) -> ApiError {
    ApiError { request: Some(request.clone()), ..ApiError::decode(what) }
}
