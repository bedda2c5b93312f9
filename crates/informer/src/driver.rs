//! The task of an informer: it owns the requests, the clock and the batches.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_core::Stream;
use pintle_delta_fifo::{RealFifo, RealFifoConfig, StoreError};
use pintle_meta::{
    ApiError, List, ListMeta, ListOptions, ListPart, ListWatch, Object, ObjectKey, ObjectMeta, RawObject, TypeMeta,
    WatchEvent,
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::decode::{Decoded, decode};
use crate::metrics::Metrics;
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

type Fifo<T> = RealFifo<ObjectKey, Decoded<Arc<T>>>;

/// So many events are taken up in one step at most. It bounds the queue, which is filled and emptied by one task.
const BATCH: usize = 500;

impl<T: Object + DeserializeOwned, L: ListWatch<Object = T>> Driver<T, L> {
    /// Runs until told to stop. However it ends, a panic included, the subscriptions end with it.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let _end = End { publisher: self.publisher.clone(), state: self.state.clone() };
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
                input = carry_out(&self.list_watch, &mut events, command) => input,
            };
            command = self.step(input, &mut fifo);
            // What has come already is taken up in one step with it.
            while matches!(command, Command::Read { .. }) && fifo.len() < BATCH {
                let Some(event) = ready_event(&mut events) else { break };
                command = self.step(Input::Received(decoded(event)), &mut fifo);
            }
            while let Some(batch) = fifo.pop_batch(BATCH) {
                match &mut self.metrics {
                    Some(metrics) => {
                        metrics.queued(fifo.len());
                        metrics.process(|| publisher.apply(batch));
                    }
                    None => publisher.apply(batch),
                }
            }
            // A source that always has something ready would keep everybody else from running.
            tokio::task::coop::consume_budget().await;
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
            if let Some(handler) = &self.on_error {
                handler(&error);
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
        match self.state.borrow().cause() {
            Some(known) if known.is_like(error) => {
                tracing::debug!(informer = %self.name, %error, "still not up to date")
            }
            _ => tracing::warn!(informer = %self.name, %error, "not up to date"),
        }
    }

    fn enqueue(&self, output: Output<Decoded<T>>, fifo: &mut Fifo<T>) -> Result<(), StoreError> {
        match output {
            Output::Replaced { objects, resource_version } => {
                tracing::debug!(informer = %self.name, objects = objects.len(), resource_version, "listed");
                fifo.replace(objects.into_iter().map(|object| self.share(object)).collect(), &resource_version)
            }
            Output::Added(object) => fifo.add(self.share(object)),
            Output::Updated(object) => fifo.update(self.share(object)),
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
        let metadata = ObjectMeta {
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
            ..ObjectMeta::new(object.namespace().unwrap_or_default(), object.name())
        };
        match catch_unwind(AssertUnwindSafe(|| {
            transform(&mut object);
            object
        })) {
            Ok(object) => Decoded::Object(Arc::new(object)),
            Err(_) => {
                let key = ObjectKey::new(&metadata.namespace, &metadata.name);
                tracing::error!(informer = %self.name, %key, "the transform panicked on an object; the others go on");
                Decoded::undecodable(metadata, "the transform panicked on it".into())
            }
        }
    }

    fn publish_state(&self) {
        let next = self.reflector.state();
        self.state.send_if_modified(|state| {
            let is_news = matches!(next, InformerState::Degraded { .. })
                || std::mem::discriminant(state) != std::mem::discriminant(&next);
            if is_news {
                if state.cause().is_some() && next.is_synced() {
                    tracing::info!(informer = %self.name, "up to date again");
                }
                *state = next;
            }
            is_news
        });
    }
}

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn carry_out<T: DeserializeOwned, L: ListWatch<Object = T>>(
    list_watch: &L,
    events: &mut Option<L::Events>,
    command: Command,
) -> Input<Decoded<T>> {
    match command {
        Command::List(options) => {
            *events = None;
            Input::Listed(read_page(list_watch, &options).await)
        }
        Command::Watch(options) => {
            *events = None;
            Input::Opened(list_watch.watch(&options).await.map(|opened| *events = Some(opened)))
        }
        Command::Read { until } => match timeout_at(until.into(), next(events)).await {
            Ok(event) => Input::Received(decoded(event)),
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
async fn read_page<T: DeserializeOwned, L: ListWatch<Object = T>>(
    list_watch: &L,
    options: &ListOptions,
) -> Result<List<Decoded<T>>, ApiError> {
    let mut page = Some(list_watch.list(options).await?);
    let mut items = Vec::new();
    let mut metadata: Option<ListMeta> = None;
    while let Some(part) = next(&mut page).await {
        match part? {
            ListPart::Item(item) => {
                let object = decode(&item);
                if let Some(error) = object.nameless() {
                    return Err(ApiError::decode(format!("item {} of the list has no name: {error}", items.len())));
                }
                items.push(object);
            }
            ListPart::Metadata(told) => metadata = Some(told),
        }
        // A page that is there as a whole would keep everybody else from running.
        tokio::task::coop::consume_budget().await;
    }
    let metadata = metadata.ok_or_else(|| ApiError::decode("the list ended without its metadata"))?;
    Ok(List { types: TypeMeta::default(), metadata, items })
}

type Event<T> = Option<Result<WatchEvent<T>, ApiError>>;

fn decoded<T: DeserializeOwned>(event: Event<RawObject>) -> Event<Decoded<T>> {
    event.map(|event| {
        event?.try_map(|object| {
            let object = decode(&object);
            match object.nameless() {
                Some(error) => Err(ApiError::decode(format!("the object of an event has no name: {error}"))),
                None => Ok(object),
            }
        })
    })
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
}

impl<T: Object> Drop for End<T> {
    fn drop(&mut self) {
        self.state.send_replace(InformerState::Stopped);
        self.publisher.close();
    }
}
