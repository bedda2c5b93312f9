//! The task of an informer: it owns the requests, the clock and the batches.

mod decoding;
mod requests;

use std::future::pending;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use pintle_delta_fifo::{Item, RealFifo, RealFifoConfig, StoreError};
use pintle_meta::{ListWatch, Object, ObjectKey};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use self::requests::Requests;
use crate::decode::Told;
use crate::decoder::Decoder;
use crate::metrics::Metrics;
use crate::panic::{catch, caught};
use crate::publisher::Publisher;
use crate::reflector::{Command, Input, Output, Reflector};
use crate::{ErrorHandler, InformerState, Projection, ReflectorError, StopCause, Transform};

/// What drives a reflector: it owns the requests, the clock and the task.
pub(crate) struct Driver<T, L> {
    pub(crate) name: String,
    pub(crate) list_watch: L,
    pub(crate) reflector: Reflector<Told<Arc<T>>>,
    pub(crate) publisher: Arc<Publisher<T>>,
    pub(crate) state: watch::Sender<InformerState>,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform<T>>,
    pub(crate) on_error: Option<ErrorHandler>,
    pub(crate) metrics: Option<Metrics>,
}

type Fifo<T> = RealFifo<ObjectKey, Told<Arc<T>>>;

/// So many events are taken up in one step at most. It bounds the queue, which is filled and emptied by one task, and how long a
/// stop may take. A list that holds more goes into the cache off the runtime.
const BATCH: usize = 500;

impl<T: Object + DeserializeOwned, L: ListWatch<Object = T>> Driver<T, L> {
    /// Runs until told to stop. However it ends, the subscriptions end with it: by a panic, or as its runtime goes, be it before the
    /// first poll.
    pub(crate) fn run(self, stop: CancellationToken) -> impl Future<Output = ()> + Send {
        let (publisher, state) = (self.publisher.clone(), self.state.clone());
        let end = End { publisher, state, cause: StopCause::RuntimeGone };
        async move {
            let (name, mut end) = (self.name.clone(), end);
            end.cause = match caught(self.drive(stop)).await {
                Ok(()) => StopCause::ShutDown,
                Err(message) => {
                    tracing::error!(informer = name, panic = message, "the informer panicked, and has ended");
                    StopCause::Panicked { message }
                }
            };
        }
    }

    async fn drive(self, stop: CancellationToken) {
        let Self { name, list_watch, reflector, publisher, state, projection, transform, on_error, metrics } = self;
        let cache = publisher.cache.clone();
        let decoder = Arc::new(Decoder::new(name.clone(), &projection, transform, cache));
        let mut requests = Requests::new(list_watch, &decoder, state.clone());
        let mut steps = Steps {
            name,
            reflector,
            publisher: publisher.clone(),
            fifo: RealFifo::new(|told: &Told<Arc<T>>| Ok(told.key()), RealFifoConfig::default()),
            state,
            on_error,
            metrics,
        };
        let mut resyncs = pin!(resync(&publisher));
        let mut command = steps.start();
        loop {
            steps.publish_state();
            let input = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                never = &mut resyncs => match never {},
                input = requests.carry_out(command) => input,
            };
            command = steps.step(input);
            // What has come already is taken up in one step with it.
            for _ in 1..BATCH {
                // A source that always has something ready would keep everybody else from running.
                tokio::task::coop::consume_budget().await;
                if !matches!(command, Command::Read { .. }) || stop.is_cancelled() {
                    break;
                }
                let Some(input) = requests.ready() else { break };
                command = steps.step(input);
            }
            steps.take_up().await;
        }
    }
}

/// What follows from what has come.
struct Steps<T> {
    name: String,
    reflector: Reflector<Told<Arc<T>>>,
    publisher: Arc<Publisher<T>>,
    fifo: Fifo<T>,
    state: watch::Sender<InformerState>,
    on_error: Option<ErrorHandler>,
    metrics: Option<Metrics>,
}

impl<T: Object> Steps<T> {
    fn start(&mut self) -> Command {
        let command = self.reflector.start();
        if let Some(metrics) = &mut self.metrics {
            metrics.commanded(now(), &command);
        }
        command
    }

    fn step(&mut self, input: Input<Told<Arc<T>>>) -> Command {
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
        if let Some(Err(error)) = step.output.map(|output| self.enqueue(output)) {
            tracing::error!(informer = %self.name, %error, "an object is not taken up");
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.queued(self.fifo.len());
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

    fn enqueue(&mut self, output: Output<Told<Arc<T>>>) -> Result<(), StoreError> {
        match output {
            Output::Replaced { objects, resource_version } => {
                tracing::debug!(informer = %self.name, objects = objects.len(), resource_version, "listed");
                self.fifo.replace(objects, &resource_version)
            }
            Output::Added { object, resource_version } => {
                self.fifo.add(Told { resource_version: Some(resource_version), ..object })
            }
            Output::Updated { object, resource_version } => {
                self.fifo.update(Told { resource_version: Some(resource_version), ..object })
            }
            Output::Deleted { object, resource_version } => {
                self.fifo.delete(Told { resource_version: Some(resource_version), ..object })
            }
            Output::Bookmark { resource_version } => {
                self.fifo.bookmark(&resource_version);
                Ok(())
            }
        }
    }

    /// Takes up all that is queued: first the store, and then the subscribers.
    async fn take_up(&mut self) {
        while let Some(batch) = self.fifo.pop_batch(BATCH) {
            if let Some(metrics) = &mut self.metrics {
                metrics.queued(self.fifo.len());
            }
            let begun = now();
            let publisher = self.publisher.clone();
            let is_large = batch.items.iter().any(|item| len(item) > BATCH);
            let apply = move || publisher.apply(batch);
            if is_large {
                off_the_runtime(apply).await;
            } else {
                apply();
            }
            if let Some(metrics) = &mut self.metrics {
                metrics.processed(begun);
            }
        }
    }

    fn publish_state(&self) {
        let next = self.reflector.state();
        let has_recovered = next.is_synced() && self.state.borrow().cause().is_some();
        self.state.send_if_modified(|state| {
            let is_news = !state.is_like(&next);
            *state = next;
            is_news
        });
        if has_recovered {
            tracing::info!(informer = %self.name, "up to date again");
        }
    }
}

type Entry<T> = Item<ObjectKey, Told<Arc<T>>>;

fn len<T>(item: &Entry<T>) -> usize {
    match item {
        Item::ReplacedAll { objects, .. } => objects.len(),
        _ => 1,
    }
}

/// Runs what takes long where nobody else has to wait for it, and waits for it.
async fn off_the_runtime(work: impl FnOnce() + Send + 'static) {
    match spawn_blocking(work).await {
        Ok(()) => {}
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime is going, and this task with it.
        Err(_) => pending().await,
    }
}

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
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
    cause: StopCause,
}

impl<T: Object> Drop for End<T> {
    fn drop(&mut self) {
        self.state.send_replace(InformerState::Stopped { cause: self.cause.clone() });
        self.publisher.close();
    }
}
