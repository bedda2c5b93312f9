//! A controller run.

use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_workqueue::{AddOptions, ShutdownMode};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::Inner;
use crate::error::{ControllerError, UnfinishedKeys};
use crate::key::RequestKey;
use crate::metrics::Metrics;
use crate::order::OrderPanic;
use crate::panic::{catch, caught, message};
use crate::requests::Queue;
use crate::source::{Feed, Named, Synced};
use crate::stop::Stop;
use crate::worker::{Worker, WorkerEnd};

/// The time for which a run waits for its aborted tasks.
const DROPPED: Duration = Duration::from_secs(1);

/// A controller run, which ends when it is dropped.
pub(super) struct Run<'a, K: RequestKey> {
    inner: &'a Inner<K>,
    queue: Queue<K>,
    order_panic: OrderPanic,
    /// The sources' tasks. A task returns the index of its source, and the panic message if the source panicked.
    feeds: JoinSet<(usize, Result<(), String>)>,
    workers: JoinSet<WorkerEnd>,
    _running: Running<'a, K>,
}

/// Owns the queue's last handle, and prevents concurrent runs of the same controller. Dropping this handle may run user
/// code in the queue's limiter, order and metrics.
struct Running<'a, K: RequestKey> {
    inner: &'a Inner<K>,
    queue: Option<Queue<K>>,
    /// The panic message if the queue's `Drop` has panicked.
    panic: &'a OnceLock<String>,
}

impl<'a, K: RequestKey> Run<'a, K> {
    pub(super) fn begin(inner: &'a Inner<K>, panic: &'a OnceLock<String>) -> Result<Self, ControllerError> {
        if inner.is_running.swap(true, Ordering::AcqRel) {
            return Err(ControllerError::AlreadyRunning { controller: inner.name.clone() });
        }
        let mut running = Running { inner, queue: None, panic };
        let setup = catch(|| inner.config.queue_config());
        let (mut config, order_panic) = setup.map_err(|panic| inner.panicked("the setup of its queue", panic))?;
        config.name.clone_from(&inner.name);
        let queue = Queue::new(config);
        running.queue = Some(queue.clone());
        inner.requests.open(queue.clone());
        let (feeds, workers) = (JoinSet::new(), JoinSet::new());
        Ok(Self { inner, queue, order_panic, feeds, workers, _running: running })
    }

    /// Runs until a stop is requested or the leadership term ends. Returns after all tasks have ended, or after a
    /// timeout.
    pub(super) async fn work(mut self, stop: &Stop, leadership: Option<&Leadership>) -> Result<(), ControllerError> {
        let ended = self.reconcile(pin!(stop.requested_or_term_ended(leadership)), leadership).await;
        if ended.is_err() {
            stop.request();
        }
        // Shut down the queue first, so that workers take no more keys.
        self.inner.requests.stop_taking_keys();
        let drain = self.queue.shut_down(ShutdownMode::FinishInFlight);
        self.feeds.abort_all();
        let report = drain.with_timeout(stop.left()).await;
        self.workers.abort_all();
        // Wait for the tasks to end, because a reconciliation that blocks its thread cannot be dropped.
        let all_ended = timeout(DROPPED, self.inner.tasks.wait()).await.is_ok();
        let unfinished = UnfinishedKeys::of(&report);
        if report.complete && all_ended {
            if !unfinished.is_empty() {
                tracing::info!(controller = self.inner.name, %unfinished, "stopped with unfinished keys, which the next run reconciles");
            }
            return ended;
        }
        ended.and(Err(ControllerError::StopTimedOut {
            controller: self.inner.name.clone(),
            unfinished: Box::new(unfinished),
            after: stop.timeout,
        }))
    }

    async fn reconcile(
        &mut self,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
        leadership: Option<&Leadership>,
    ) -> Result<(), ControllerError> {
        let inner = self.inner;
        tokio::select! {
            biased;
            () = &mut stopped => return Ok(()),
            previous_runs_ended = inner.wait_for_previous_runs() => previous_runs_ended?,
        }
        let syncs = self.start_sources()?;
        tokio::select! {
            biased;
            () = &mut stopped => return Ok(()),
            fault = self.fault() => return fault.map(drop),
            synced = inner.sync(syncs) => synced?,
        }
        inner.requests.mark_synced();
        for (key, priority) in inner.requests.take_kept() {
            self.queue.add_with(key, AddOptions { priority, ..AddOptions::default() });
        }
        tracing::info!(controller = inner.name, "caches are synced; starting workers");
        let mut limit = inner.concurrency.subscribe();
        let mut workers = Workers::new(&inner.metrics);
        loop {
            let next = *limit.borrow_and_update();
            for index in workers.missing(next) {
                let worker = self.worker(index, limit.clone(), leadership);
                self.workers.spawn(inner.tasks.track_future(worker.run()));
            }
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(()),
                ended = self.fault() => match ended? {
                    WorkerEnd::Stopped => return Ok(()),
                    WorkerEnd::Excess { index } => workers.ended(index),
                },
                Ok(()) = limit.changed() => {}
            }
        }
    }

    fn worker(&self, index: usize, limit: watch::Receiver<usize>, leadership: Option<&Leadership>) -> Worker<K> {
        let inner = self.inner;
        Worker {
            controller: inner.name.clone(),
            queue: self.queue.clone(),
            requests: inner.requests.clone(),
            reconciler: inner.reconciler.clone(),
            metrics: inner.metrics.clone(),
            poll: inner.polls.add_worker(),
            no_subscriber: inner.no_subscriber.clone(),
            timeout: inner.config.reconcile_timeout,
            leadership: leadership.cloned(),
            index,
            limit,
        }
    }

    fn start_sources(&mut self) -> Result<Vec<Synced>, ControllerError> {
        let mut syncs = Vec::new();
        for (index, Named { name, attached, source }) in self.inner.sources.iter().enumerate() {
            let unnamed = |panic: &String| self.inner.panicked("the name of a source", panic.clone());
            name.as_ref().map_err(unnamed)?;
            attached.clone().map_err(|panic| self.inner.source_panicked(index, panic))?;
            let started = catch(|| source.start(self.inner.requests.clone()));
            let Feed { synced, run } = started.map_err(|panic| self.inner.source_panicked(index, panic))?;
            syncs.push(synced);
            let feed = async move {
                // Move the future into the inner block, so that `caught` also catches a panic in the future's `Drop`.
                let run = async move {
                    run.await;
                };
                (index, caught(run).await)
            };
            self.feeds.spawn(self.inner.tasks.track_future(feed));
        }
        Ok(syncs)
    }

    /// Waits until a worker ends, a source ends, or the queue's order panics.
    async fn fault(&mut self) -> Result<WorkerEnd, ControllerError> {
        let inner = self.inner;
        tokio::select! {
            biased;
            panic = self.order_panic.message() => Err(inner.panicked("the order of its queue", panic)),
            Some(ended) = self.feeds.join_next() => Err(match ended {
                Ok((index, Ok(()))) => ControllerError::SourceEnded {
                    controller: inner.name.clone(),
                    source_name: inner.sources[index].name().to_owned(),
                },
                Ok((index, Err(panic))) => inner.source_panicked(index, panic),
                Err(error) => inner.panicked("a source", why(error)),
            }),
            // A worker that stops without a panic has noticed the end of the leadership term earlier than this task.
            Some(ended) = self.workers.join_next() => ended.map_err(|error| inner.panicked("a worker", why(error))),
        }
    }
}

/// The started workers and the concurrency limit. Dropping this value resets the limit in the metrics to 0.
struct Workers<'a> {
    exist: Vec<bool>,
    limit: usize,
    metrics: &'a Metrics,
}

impl<'a> Workers<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        Self { exist: Vec::new(), limit: 0, metrics }
    }

    /// Sets the concurrency limit. Returns the indexes of the workers that the caller must start.
    fn missing(&mut self, limit: usize) -> Vec<usize> {
        self.metrics.limit(std::mem::replace(&mut self.limit, limit), limit);
        self.exist.resize(self.exist.len().max(limit), false);
        (0..limit).filter(|index| !std::mem::replace(&mut self.exist[*index], true)).collect()
    }

    fn ended(&mut self, index: usize) {
        self.exist[index] = false;
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        self.metrics.limit(self.limit, 0);
    }
}

impl<K: RequestKey> Drop for Run<'_, K> {
    fn drop(&mut self) {
        // Shut down the queue explicitly, because sources may still have handles to it.
        let report = self.queue.shut_down(ShutdownMode::Abandon).wait(); // `Abandon` never waits.
        self.inner.requests.keep(report.queued.into_iter().chain(report.delayed));
        let queue = self.inner.requests.close();
        drop(queue);
    }
}

impl<K: RequestKey> Drop for Running<'_, K> {
    fn drop(&mut self) {
        if let Err(panic) = catch(|| drop(self.queue.take())) {
            tracing::error!(controller = self.inner.name, panic, "the queue panicked when it was dropped");
            // `set` cannot fail, because each run drops only one queue.
            _ = self.panic.set(panic);
        }
        self.inner.is_running.store(false, Ordering::Release);
    }
}

fn why(error: JoinError) -> String {
    error.try_into_panic().map_or_else(|error| error.to_string(), message)
}
