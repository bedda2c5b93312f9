//! The work of an informer: it owns the requests, the clock and the batches.

mod decoding;
mod followers;
mod requests;
mod states;

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pintle_delta_fifo::{Item, RealFifo, RealFifoConfig, StoreError};
use pintle_meta::{ListWatch, Object, ObjectKey};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use self::requests::Requests;
use crate::decode::Told;
use crate::decoder::Decoder;
use crate::guarded::Guarded;
use crate::metrics::Metrics;
use crate::namespaces::Place;
use crate::panic::{catch, caught};
use crate::publisher::Publisher;
use crate::reflector::{Command, Input, Output, Reflector};
use crate::{ErrorHandler, Projection, ReflectorError, StopCause, Transform};

pub(crate) use self::followers::Followers;
pub(crate) use self::states::{States, Whole};

/// What drives a reflector: it owns the requests and the clock.
pub(crate) struct Driver<T, L> {
    pub(crate) name: String,
    /// The part of the store that it fills.
    pub(crate) place: Place,
    pub(crate) list_watch: L,
    /// By which choice of selectors its last list was begun.
    pub(crate) choice: Arc<AtomicU64>,
    pub(crate) reflector: Reflector<Told<Guarded<T>>>,
    pub(crate) publisher: Arc<Publisher<T>>,
    pub(crate) states: States,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform<T>>,
    pub(crate) on_error: Option<Arc<ErrorHandler>>,
    pub(crate) metrics: Option<Metrics>,
}

type Fifo<T> = RealFifo<ObjectKey, Told<Guarded<T>>>;

/// So many events are taken up in one step at most. It bounds the queue, which is filled and emptied by one task, and how long a
/// stop may take. A list that holds more goes into the cache off the runtime.
const BATCH: usize = 500;

impl<T: Object + DeserializeOwned, L: ListWatch<Object = T>> Driver<T, L> {
    /// Follows its source until told to stop.
    pub(crate) async fn drive(self, stop: CancellationToken) {
        let Self {
            list_watch,
            projection,
            transform,
            name,
            place,
            choice,
            reflector,
            publisher,
            states,
            on_error,
            metrics,
        } = self;
        let cache = publisher.cache.clone();
        let decoder = Arc::new(Decoder::new(name.clone(), &projection, transform, cache));
        let mut requests = Requests::new(list_watch, &decoder, states.clone());
        let mut steps = Steps {
            name,
            place,
            choice,
            reflector,
            publisher,
            fifo: RealFifo::new(|told: &Told<Guarded<T>>| Ok(told.key()), RealFifoConfig::default()),
            states,
            on_error,
            metrics,
        };
        steps.go(&mut requests, &stop).await;
        // With what it has of a list.
        drop_off_the_runtime(steps.reflector);
    }
}

/// What follows from what has come.
struct Steps<T> {
    name: String,
    place: Place,
    choice: Arc<AtomicU64>,
    reflector: Reflector<Told<Guarded<T>>>,
    publisher: Arc<Publisher<T>>,
    fifo: Fifo<T>,
    states: States,
    on_error: Option<Arc<ErrorHandler>>,
    metrics: Option<Metrics>,
}

impl<T: Object + DeserializeOwned> Steps<T> {
    /// Until told to stop.
    async fn go<L: ListWatch<Object = T>>(&mut self, requests: &mut Requests<T, L>, stop: &CancellationToken) {
        let mut command = self.start();
        loop {
            self.states.publish(&self.name, self.reflector.state());
            let input = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                input = requests.carry_out(command) => input,
            };
            command = self.step(input);
            // What has come already is taken up in one step with it.
            for _ in 1..BATCH {
                // A source that always has something ready would keep everybody else from running.
                tokio::task::coop::consume_budget().await;
                if !matches!(command, Command::Read { .. }) || stop.is_cancelled() {
                    break;
                }
                let Some(input) = requests.ready() else { break };
                command = self.step(input);
            }
            self.take_up().await;
        }
    }

    fn start(&mut self) -> Command {
        let command = self.reflector.start();
        if let Some(metrics) = &mut self.metrics {
            metrics.commanded(now(), &command);
        }
        command
    }

    fn step(&mut self, input: Input<Told<Guarded<T>>>) -> Command {
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
        if step.discarded.len() > BATCH {
            drop_off_the_runtime(step.discarded);
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
        let is_known = self.states.borrow().cause().is_some_and(|known| known.is_like(error));
        match is_known {
            true => tracing::debug!(informer = %self.name, %error, "still not up to date"),
            false => tracing::warn!(informer = %self.name, %error, "not up to date"),
        }
    }

    fn enqueue(&mut self, output: Output<Told<Guarded<T>>>) -> Result<(), StoreError> {
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
            let (publisher, place) = (self.publisher.clone(), self.place.clone());
            // That of a list in the batch, after which no other was begun.
            let choice = self.choice.load(Ordering::Acquire);
            let is_large = batch.items.iter().any(|item| len(item) > BATCH);
            let turn = publisher.turn().await;
            let apply = move || {
                publisher.apply(&place, choice, batch);
                drop(turn);
            };
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
}

type Entry<T> = Item<ObjectKey, Told<Guarded<T>>>;

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

/// Drops what may be a whole list where nobody has to wait for it. Nor does anybody need to know when that is done.
fn drop_off_the_runtime(much: impl Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(much))),
        Err(_) => drop(much),
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
                () = sleep_until(next.into()) => {
                    let _turn = publisher.turn().await;
                    publisher.resync(now());
                }
                () = changed => {}
            },
            None => changed.await,
        }
    }
}

/// Runs what fills the store of an informer, until that ends by itself, and reminds subscribers meanwhile. However it ends, the
/// subscriptions end with it: by a panic, or as its runtime goes, be it before the first poll.
pub(crate) fn run<T: Object>(
    name: String,
    publisher: Arc<Publisher<T>>,
    whole: Arc<Whole>,
    work: impl Future<Output = ()> + Send,
) -> impl Future<Output = ()> + Send {
    let end = End { publisher: publisher.clone(), whole, cause: StopCause::RuntimeGone };
    async move {
        let mut end = end;
        let work = async {
            tokio::select! {
                biased;
                () = work => {}
                never = resync(&publisher) => match never {},
            }
        };
        end.cause = match caught(work).await {
            Ok(()) => StopCause::ShutDown,
            Err(message) => {
                tracing::error!(informer = name, panic = message, "the informer panicked, and has ended");
                StopCause::Panicked { message }
            }
        };
    }
}

/// Ends what depends on an informer.
struct End<T: Object> {
    publisher: Arc<Publisher<T>>,
    whole: Arc<Whole>,
    cause: StopCause,
}

impl<T: Object> Drop for End<T> {
    fn drop(&mut self) {
        self.whole.stop(self.cause.clone());
        self.publisher.close();
    }
}
