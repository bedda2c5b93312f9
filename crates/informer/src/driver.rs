//! The task of an informer: it owns the requests, the clock and the batches.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_core::Stream;
use pintle_delta_fifo::{RealFifo, RealFifoConfig, StoreError};
use pintle_meta::{
    ApiError, List, ListMeta, ListOptions, ListPart, ListWatch, Object, ObjectKey, ObjectMeta, RawObject, RequestLine,
    TypeMeta, WatchEvent,
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::decode::{Decoded, decode};
use crate::metrics::Metrics;
use crate::panic::{catch, caught};
use crate::publisher::Publisher;
use crate::reflector::{Command, Input, Output, Reflector};
use crate::{ErrorHandler, InformerState, ReflectorError, Transform, Undecodable};

/// What drives a reflector: it owns the requests, the clock and the task.
pub(crate) struct Driver<T, L> {
    pub(crate) name: String,
    pub(crate) list_watch: L,
    pub(crate) reflector: Reflector<Decoded<T>>,
    pub(crate) publisher: Arc<Publisher<T>>,
    pub(crate) state: watch::Sender<InformerState>,
    pub(crate) transform: Option<Transform<T>>,
    pub(crate) on_error: Option<ErrorHandler>,
    pub(crate) metrics: Option<Metrics>,
}

type Event<T> = Option<Result<WatchEvent<T>, ApiError>>;

type Fifo<T> = RealFifo<ObjectKey, Decoded<Arc<T>>>;

/// So many events are taken up in one step at most. It bounds the queue, which is filled and emptied by one task, and how long a
/// stop may take.
const BATCH: usize = 500;

impl<T: Object + DeserializeOwned, L: ListWatch<Object = T>> Driver<T, L> {
    /// Runs until told to stop. However it ends, a panic included, the subscriptions end with it.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let (publisher, state) = (self.publisher.clone(), self.state.clone());
        let mut end = End { publisher, state, as_state: InformerState::Stopped };
        let name = self.name.clone();
        if let Err(message) = caught(self.drive(stop)).await {
            tracing::error!(informer = name, panic = message, "the informer panicked, and has ended");
            end.as_state = InformerState::Panicked { message };
        }
    }

    async fn drive(mut self, stop: CancellationToken) {
        let publisher = self.publisher.clone();
        let mut resyncs = pin!(resync(&publisher));
        let mut fifo = RealFifo::new(|object: &Decoded<Arc<T>>| Ok(object.key()), RealFifoConfig::default());
        let mut events = None;
        let mut command = self.reflector.start();
        if let Some(metrics) = &mut self.metrics {
            metrics.commanded(now(), &command);
        }
        loop {
            self.publish_state();
            let input = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                never = &mut resyncs => match never {},
                input = self.carry_out(&mut events, command) => input,
            };
            command = self.step(input, &mut fifo);
            // What has come already is taken up in one step with it.
            for _ in 1..BATCH {
                // A source that always has something ready would keep everybody else from running.
                tokio::task::coop::consume_budget().await;
                if !matches!(command, Command::Read { .. }) || stop.is_cancelled() {
                    break;
                }
                let Some(event) = ready_event(&mut events) else { break };
                command = self.step(Input::Received(self.decoded(event)), &mut fifo);
            }
            while let Some(batch) = fifo.pop_batch(BATCH) {
                if let Some(metrics) = &mut self.metrics {
                    metrics.queued(fifo.len());
                }
                let begun = now();
                publisher.apply(batch);
                if let Some(metrics) = &mut self.metrics {
                    metrics.processed(begun);
                }
            }
        }
    }

    fn step(&mut self, input: Input<Decoded<T>>, fifo: &mut Fifo<T>) -> Command {
        let now = now();
        let step = self.reflector.step(now, input);
        if let Some(metrics) = &mut self.metrics {
            metrics.stepped(now, &step, self.reflector.resource_version());
        }
        if let Some(error) = step.error {
            self.log(&error);
            if let Some(handler) = &self.on_error
                && let Err(panic) = catch(|| handler(&error))
            {
                tracing::error!(informer = %self.name, panic, "the error handler panicked");
            }
        }
        if let Some(Err(error)) = step.output.map(|output| self.enqueue(output, fifo)) {
            tracing::error!(informer = %self.name, %error, "an object is not taken up");
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.queued(fifo.len());
        }
        step.command
    }

    /// Each trouble once, since a resource that is missing for good fails twice a minute for good.
    fn log(&self, error: &ReflectorError) {
        let is_known = self.state.borrow().cause().is_some_and(|known| known.is_like(error));
        match is_known {
            true => tracing::debug!(informer = %self.name, %error, "still not up to date"),
            false => tracing::warn!(informer = %self.name, %error, "not up to date"),
        }
    }

    fn enqueue(&self, output: Output<Decoded<T>>, fifo: &mut Fifo<T>) -> Result<(), StoreError> {
        match output {
            Output::Replaced { objects, resource_version } => {
                tracing::debug!(informer = %self.name, objects = objects.len(), resource_version, "listed");
                let indexable = objects.into_iter().map(|object| self.indexable(self.share(object)));
                fifo.replace(indexable.collect(), &resource_version)
            }
            Output::Added(object) => fifo.add(self.indexable(self.share(object))),
            Output::Updated(object) => fifo.update(self.indexable(self.share(object))),
            Output::Deleted(object) => fifo.delete(self.share(object)),
            Output::Bookmark { resource_version } => {
                fifo.bookmark(&resource_version);
                Ok(())
            }
        }
    }

    fn share(&self, object: Decoded<T>) -> Decoded<Arc<T>> {
        if let Decoded::Undecodable(entry) = &object {
            let Undecodable { key, error, .. } = &entry.0;
            tracing::warn!(informer = %self.name, %key, error, "an object cannot be decoded; the others go on");
        }
        let Some(transform) = &self.transform else { return object.map(Arc::new) };
        let Decoded::Object(mut object) = object else { return object.map(Arc::new) };
        let identity = identity(&object);
        match catch(|| transform(&mut object)) {
            Ok(()) => Decoded::Object(Arc::new(object)),
            Err(panic) => self.panicked("the transform", panic, identity),
        }
    }

    /// An object that an index function fails on is none for the cache, where not everybody would find it.
    fn indexable(&self, object: Decoded<Arc<T>>) -> Decoded<Arc<T>> {
        let Decoded::Object(shared) = &object else { return object };
        match self.publisher.cache.try_index(shared) {
            Ok(()) => object,
            Err(error) => {
                tracing::error!(informer = %self.name, key = %error.key, %error, "an object cannot be indexed; the others go on");
                Decoded::undecodable(identity(&**shared), error.to_string())
            }
        }
    }

    fn panicked(&self, what: &str, panic: String, identity: ObjectMeta) -> Decoded<Arc<T>> {
        let key = ObjectKey::new(&identity.namespace, &identity.name);
        tracing::error!(informer = %self.name, %key, panic, "{what} panicked on an object; the others go on");
        Decoded::undecodable(identity, format!("{what} panicked on it: {panic}"))
    }

    fn publish_state(&self) {
        let next = self.reflector.state();
        let has_recovered = next.is_synced() && self.state.borrow().cause().is_some();
        self.state.send_if_modified(|state| {
            let is_news = matches!(next, InformerState::Degraded { .. })
                || std::mem::discriminant(state) != std::mem::discriminant(&next);
            if is_news {
                *state = next;
            }
            is_news
        });
        if has_recovered {
            tracing::info!(informer = %self.name, "up to date again");
        }
    }

    async fn carry_out(&self, events: &mut Option<L::Events>, command: Command) -> Input<Decoded<T>> {
        match command {
            Command::List(options) => {
                *events = None;
                Input::Listed(self.read_page(&options).await)
            }
            Command::Watch(options) => {
                *events = None;
                Input::Opened(self.list_watch.watch(&options).await.map(|opened| *events = Some(opened)))
            }
            Command::Read { until } => match timeout_at(until.into(), next(events)).await {
                Ok(event) => Input::Received(self.decoded(event)),
                Err(_) => Input::TimedOut,
            },
            Command::Sleep(delay) => {
                *events = None;
                sleep(delay).await;
                Input::Woke
            }
        }
    }

    /// Reads a page to its end, and decodes each object as it comes.
    async fn read_page(&self, options: &ListOptions) -> Result<List<Decoded<T>>, ApiError> {
        let mut page = Some(self.list_watch.list(options).await?);
        let mut items = Vec::new();
        let mut metadata: Option<ListMeta> = None;
        while let Some(part) = next(&mut page).await {
            match part? {
                ListPart::Item(item) => {
                    let object = decode(&item);
                    if let Some(error) = object.nameless() {
                        return Err(self.unreadable(&format!("item {} of the list has no name: {error}", items.len())));
                    }
                    items.push(object);
                }
                ListPart::Metadata(told) => metadata = Some(told),
            }
            // A page that is there as a whole would keep everybody else from running.
            tokio::task::coop::consume_budget().await;
        }
        let metadata = metadata.ok_or_else(|| self.unreadable("the list ended without its metadata"))?;
        Ok(List { types: TypeMeta::default(), metadata, items })
    }

    fn decoded(&self, event: Event<RawObject>) -> Event<Decoded<T>> {
        event.map(|event| {
            event?.try_map(|object| {
                let object = decode(&object);
                match object.nameless() {
                    Some(error) => Err(self.unreadable(&format!("the object of an event has no name: {error}"))),
                    None => Ok(object),
                }
            })
        })
    }

    /// An answer that came whole, and is not what was asked for.
    fn unreadable(&self, what: &str) -> ApiError {
        let url = self.list_watch.api_resource().path(self.list_watch.namespace());
        let request = RequestLine { method: "GET".into(), url: url.into() };
        ApiError { request: Some(Arc::new(request)), ..ApiError::decode(what) }
    }
}

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What tells an object from others.
fn identity(object: &impl Object) -> ObjectMeta {
    ObjectMeta {
        uid: object.uid().into(),
        resource_version: object.resource_version().into(),
        ..ObjectMeta::new(object.namespace().unwrap_or_default(), object.name())
    }
}

fn next<S: Stream + Unpin>(events: &mut Option<S>) -> impl Future<Output = Option<S::Item>> {
    poll_fn(move |context| match events {
        Some(events) => Pin::new(events).poll_next(context),
        None => Poll::Ready(None),
    })
}

/// The next event, or the end of the stream, if it is there.
fn ready_event<S: Stream + Unpin>(events: &mut Option<S>) -> Option<Option<S::Item>> {
    match pin!(next(events)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => Some(event),
        // Whoever polls it next leaves a waker that wakes.
        Poll::Pending => None,
    }
}

/// Reminds subscribers of all objects whenever they are due.
async fn resync<T: Object>(publisher: &Publisher<T>) -> std::convert::Infallible {
    loop {
        let changed = publisher.resyncs_changed.notified();
        match publisher.next_resync() {
            Some(next) => tokio::select! {
                () = sleep_until(next.into()) => publisher.resync(now()),
                () = changed => {}
            },
            None => changed.await,
        }
    }
}

/// Ends what depends on a driver.
struct End<T: Object> {
    publisher: Arc<Publisher<T>>,
    state: watch::Sender<InformerState>,
    as_state: InformerState,
}

impl<T: Object> Drop for End<T> {
    fn drop(&mut self) {
        self.state.send_replace(self.as_state.clone());
        self.publisher.close();
    }
}
