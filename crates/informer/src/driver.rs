//! An informer's task, which sends requests, reads the clock and stores changes in batches.

mod check;
mod decoding;
mod followers;
mod offload;
mod requests;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pintle_delta_fifo::{Item, RealFifo, RealFifoConfig, StoreError};
use pintle_meta::{ListWatch, Object, ObjectKey};
use serde::de::DeserializeOwned;
use tokio::task::yield_now;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use self::offload::{drop_off_the_runtime, off_the_runtime};
use self::requests::Requests;
use crate::clock::now;
use crate::config::Transform;
use crate::decode::Observed;
use crate::decoder::Decoder;
use crate::error::{IndexFailed, ReflectorError};
use crate::metrics::Metrics;
use crate::namespaces::Place;
use crate::on_error::ErrorHandlers;
use crate::panic::caught;
use crate::projection::Projection;
use crate::publisher::{Notifications, Publisher};
use crate::reflector::{Command, Input, Output, Reflector};
use crate::states::{States, Whole};
use crate::stop_cause::StopCause;
use crate::stored::Stored;

pub(crate) use self::followers::Followers;
pub(crate) use self::requests::Limits;

/// Runs a reflector: executes the reflector's commands, reads the clock and stores the reflector's output.
pub(crate) struct Driver<T, L> {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) list_watch: L,
    /// The number of times the selectors had changed when the last list began.
    pub(crate) choice: Arc<AtomicU64>,
    pub(crate) reflector: Reflector<Observed<Stored<T>>>,
    pub(crate) publisher: Arc<Publisher<T>>,
    pub(crate) states: States,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform<T>>,
    pub(crate) on_error: Arc<ErrorHandlers>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) limits: Limits,
}

type Fifo<T> = RealFifo<ObjectKey, Observed<Stored<T>>>;

/// The maximum number of events that a driver reads before it yields to other tasks. The queue of changes therefore
/// contains at most `BATCH` events. A list with more objects is stored on another thread.
const BATCH: usize = 32;

/// The maximum number of calls to index functions before the driver yields to other tasks. Index functions are user
/// code and may be slow.
const CALLS: usize = 16;

/// The number of notifications that the driver sends before it yields to other tasks.
const NOTIFICATIONS: usize = 512;

impl<T: Object + DeserializeOwned, L: ListWatch<Object = T>> Driver<T, L> {
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
            limits,
        } = self;
        let cache = publisher.cache.clone();
        let decoder = Arc::new(Decoder::new(name.clone(), &projection, transform, cache));
        let mut requests = Requests::new(list_watch, &decoder, states.clone(), limits);
        let mut steps = Steps {
            name,
            place,
            choice,
            reflector,
            publisher,
            fifo: RealFifo::new(|observed: &Observed<Stored<T>>| Ok(observed.key()), RealFifoConfig::default()),
            states,
            on_error,
            metrics,
            stored: 0,
            notified: 0,
        };
        steps.go(&mut requests, &stop).await;
        // Drop the reflector on another thread, because dropping all objects of a list takes long.
        drop_off_the_runtime(steps.reflector);
    }
}

struct Steps<T> {
    name: String,
    place: Place,
    choice: Arc<AtomicU64>,
    reflector: Reflector<Observed<Stored<T>>>,
    publisher: Arc<Publisher<T>>,
    fifo: Fifo<T>,
    states: States,
    on_error: Arc<ErrorHandlers>,
    metrics: Option<Metrics>,
    stored: usize,
    notified: usize,
}

impl<T: Object + DeserializeOwned> Steps<T> {
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
            for _ in 1..BATCH {
                // Without this call, a source whose events are always ready would block other tasks.
                tokio::task::coop::consume_budget().await;
                if !matches!(command, Command::Read { .. }) || stop.is_cancelled() {
                    break;
                }
                let Some(input) = requests.ready() else { break };
                command = self.step(input);
            }
            self.process_queue().await;
        }
    }

    fn start(&mut self) -> Command {
        let command = self.reflector.start();
        if let Some(metrics) = &mut self.metrics {
            metrics.commanded(now(), &command);
        }
        command
    }

    fn step(&mut self, input: Input<Observed<Stored<T>>>) -> Command {
        let now = now();
        let step = self.reflector.step(now, input);
        if let Some(metrics) = &mut self.metrics {
            metrics.stepped(now, &step, self.reflector.resource_version());
        }
        if let Some(error) = step.error {
            self.log(&error);
            self.on_error.call(&self.name, &error);
        }
        if step.discarded.len() > BATCH {
            drop_off_the_runtime(step.discarded);
        }
        if let Some(Err(error)) = step.output.map(|output| self.enqueue(output)) {
            tracing::error!(informer = %self.name, %error, "cannot put an object into the queue of the informer");
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.queued(self.fifo.len());
        }
        step.command
    }

    /// Logs a failure at warn level, or at debug level if it is like the previous failure. A request for a missing
    /// resource, for example, fails twice a minute.
    fn log(&self, error: &ReflectorError) {
        let last = self.states.last();
        let is_known = last.and_then(|last| Some(last.cause()?.is_like(error))).unwrap_or_default();
        if is_known {
            tracing::debug!(informer = %self.name, %error, "the informer is still not up to date")
        } else {
            tracing::warn!(informer = %self.name, %error, "the informer is not up to date")
        }
    }

    fn enqueue(&mut self, output: Output<Observed<Stored<T>>>) -> Result<(), StoreError> {
        match output {
            Output::Replaced { objects, resource_version } => {
                tracing::debug!(informer = %self.name, objects = objects.len(), resource_version, "listed");
                self.fifo.replace(objects, &resource_version)
            }
            Output::Added { object, resource_version } => {
                self.fifo.add(Observed { resource_version: Some(resource_version), ..object })
            }
            Output::Updated { object, resource_version } => {
                self.fifo.update(Observed { resource_version: Some(resource_version), ..object })
            }
            Output::Deleted { object, resource_version } => {
                self.fifo.delete(Observed { resource_version: Some(resource_version), ..object })
            }
            Output::Bookmark { resource_version } => {
                self.fifo.bookmark(&resource_version);
                Ok(())
            }
        }
    }

    /// Stores the queued changes in batches, and notifies the subscribers after each batch. Between batches, this
    /// method yields to other tasks.
    async fn process_queue(&mut self) {
        while !self.fifo.is_empty() {
            let most = self.publisher.batch(CALLS).min(BATCH);
            if self.stored >= most {
                self.stored = 0;
                yield_now().await;
            }
            let Some(batch) = self.fifo.pop_batch(most.saturating_sub(self.stored).max(1)) else { break };
            self.stored += batch.items.len();
            if let Some(metrics) = &mut self.metrics {
                metrics.queued(self.fifo.len());
            }
            let began = now();
            let (publisher, place) = (self.publisher.clone(), self.place.clone());
            // The number of times the selectors had changed when the last list in the batch began.
            let choice = self.choice.load(Ordering::Acquire);
            let is_large = batch.items.iter().any(|item| len(item) > most);
            let is_offloaded = is_large || publisher.decodes_on_write();
            let turn = publisher.turn().await;
            let unindexed = if is_offloaded {
                off_the_runtime(move || {
                    let mut notifications = publisher.apply(&place, choice, batch);
                    let unindexed = notifications.take_unindexed();
                    publisher.notify(notifications);
                    drop(turn);
                    unindexed
                })
                .await
            } else {
                let mut notifications = publisher.apply(&place, choice, batch);
                let unindexed = notifications.take_unindexed();
                self.notify(notifications).await;
                drop(turn);
                unindexed
            };
            self.report(unindexed).await;
            if let Some(metrics) = &mut self.metrics {
                metrics.processed(began);
            }
        }
    }

    /// Reports failures of index functions. Yields to other tasks after each call, because error handlers are user
    /// code.
    async fn report(&mut self, unindexed: Vec<IndexFailed>) {
        for error in unindexed {
            tracing::error!(informer = %self.name, key = %error.key, index = error.index, %error, "cannot index an object");
            if let Some(metrics) = &mut self.metrics {
                metrics.index_failed(&error.index);
            }
            self.on_error.call(&self.name, &ReflectorError::IndexFailed(error));
            tokio::task::coop::consume_budget().await;
        }
    }

    async fn notify(&mut self, mut notifications: Notifications<T>) {
        while let Some(changes) = notifications.step() {
            self.notified += changes;
            if self.notified >= NOTIFICATIONS {
                self.notified = 0;
                yield_now().await;
            }
        }
        self.publisher.delivered(notifications);
    }
}

type Entry<T> = Item<ObjectKey, Observed<Stored<T>>>;

fn len<T>(item: &Entry<T>) -> usize {
    match item {
        Item::ReplacedAll { objects, .. } => objects.len(),
        _ => 1,
    }
}

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

/// Runs `work`, starts resyncs when they are due, and checks objects that were never decoded. When `work` has ended,
/// the informer and its subscriptions also end. The informer also ends if `work` panics or if the runtime shuts down
/// before the first poll.
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
                never = check::check(&publisher) => match never {},
            }
        };
        end.cause = match caught(work).await {
            Ok(()) => StopCause::ShutDown,
            Err(message) => {
                tracing::error!(informer = name, panic = message, "the informer panicked and has ended");
                StopCause::Panicked { message }
            }
        };
    }
}

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
