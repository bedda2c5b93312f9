//! The task that writes events, and its owner.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ApiError, ErrorKind, Object, ObjectApi, ObjectKey, Patch, PostOptions, Reason};
use pintle_metrics::{CatchPanic, Provider};
use pintle_ratelimit::Jitter;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::correlator::{Correlated, Correlator, CorrelatorConfig, Verdict};
use crate::metrics::Counters;
use crate::{Event, EventCounts, EventRecorder, EventSource};

/// How events are written. The defaults are client-go's.
///
/// # Examples
///
/// ```
/// use pintle_events::{BroadcasterConfig, CorrelatorConfig};
///
/// let config = BroadcasterConfig {
///     tries: 3,
///     correlator: CorrelatorConfig { spam_burst: 100, ..CorrelatorConfig::default() },
///     ..BroadcasterConfig::default()
/// };
/// assert_eq!(config.queue, 1000);
/// ```
#[derive(Clone, Debug)]
pub struct BroadcasterConfig {
    /// How many events may wait to be written: 1000, and at least 1. What comes on top of that is dropped.
    pub queue: usize,
    /// How often an event is tried while the server cannot be reached: 12 times, and at least once.
    pub tries: u32,
    /// The pause between tries: 10 s.
    pub retry_pause: Duration,
    /// When events are combined or held back.
    pub correlator: CorrelatorConfig,
    /// Who is told what becomes of the events, until the broadcaster and the last of its recorders are dropped. None: nobody.
    /// Broadcasters add up.
    ///
    /// | name | kind | says |
    /// |---|---|---|
    /// | `event_broadcaster_recorded_total` | counter | events that were recorded |
    /// | `event_broadcaster_settled_total` | counter | what became of them, by `outcome`: `created`, `patched`, `spam`, `dropped`, `failed` |
    /// | `event_broadcaster_combined_total` | counter | those stored for several different messages |
    pub metrics: Option<Arc<dyn Provider>>,
}

impl Default for BroadcasterConfig {
    fn default() -> Self {
        let retry_pause = Duration::from_secs(10);
        Self { queue: 1000, tries: 12, retry_pause, correlator: CorrelatorConfig::default(), metrics: None }
    }
}

/// Owns the task that writes events: client-go's `EventBroadcaster`, with one sink.
///
/// When it is dropped, writing ends at once and events that wait are lost; [`shutdown`](EventBroadcaster::shutdown) writes
/// them first.
///
/// # Examples
///
/// ```
/// use pintle_events::{BroadcasterConfig, Event, EventBroadcaster, EventSource};
/// use pintle_meta::ObjectApi;
/// use std::time::Duration;
///
/// async fn run(events: impl ObjectApi<Event>, program: impl Future<Output = ()>) {
///     let broadcaster = EventBroadcaster::start(events, BroadcasterConfig { tries: 3, ..Default::default() });
///     let recorder = broadcaster.recorder(EventSource { component: "website-controller".into(), ..Default::default() });
///     // Clones of the recorder go to whatever records events.
///     # drop(recorder);
///     program.await;
///     broadcaster.shutdown(Duration::from_secs(5)).await;
/// }
/// ```
#[derive(Debug)]
pub struct EventBroadcaster {
    queue: mpsc::Sender<Event>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl EventBroadcaster {
    /// Starts to write events through `api`. The events go into the namespaces of the objects that they are about, so `api` has
    /// to reach all of these.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(api: impl ObjectApi<Event>, config: BroadcasterConfig) -> Self {
        let (queue, events) = mpsc::channel(config.queue.max(1));
        let provider = config.metrics.clone().map(|provider| {
            CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics of events panicked, and are told nothing more");
            })
        });
        let counters = Arc::new(Counters::new(provider.as_ref().map(|provider| provider as &dyn Provider)));
        let stop = CancellationToken::new();
        let correlator = Correlator::new(config.correlator.clone());
        let writer = Writer { api, config, correlator, counters: counters.clone(), stop: stop.clone() };
        let task = AbortOnDropHandle::new(tokio::spawn(writer.run(events)));
        Self { queue, counters, stop, task }
    }

    /// A recorder for one component of the program.
    pub fn recorder(&self, source: EventSource) -> EventRecorder {
        EventRecorder::new(source, self.queue.clone(), self.counters.clone())
    }

    /// Takes no more events, and writes those that wait, each with one try, for at most `timeout`. Answers what became of all
    /// events, where what was not written counts as failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the writing at once.
    pub async fn shutdown(self, timeout: Duration) -> EventCounts {
        let Self { counters, stop, mut task, queue } = self;
        drop(queue);
        stop.cancel();
        if tokio::time::timeout(timeout, &mut task).await.is_err() {
            task.abort();
        }
        let mut counts = counters.snapshot();
        let settled = counts.created + counts.patched + counts.spam + counts.dropped + counts.failed;
        let lost = counts.recorded.saturating_sub(settled);
        counters.failed.add(lost);
        counts.failed += lost;
        counts
    }
}

/// What the task owns.
struct Writer<A> {
    api: A,
    config: BroadcasterConfig,
    correlator: Correlator,
    counters: Arc<Counters>,
    stop: CancellationToken,
}

impl<A: ObjectApi<Event>> Writer<A> {
    /// Writes one event after the other, until all recorders are gone, or the stop and the last event that waited.
    async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.stop.cancelled(), if !events.is_closed() => {
                    events.close();
                    continue;
                }
                event = events.recv() => event,
            };
            let Some(event) = event else { return };
            self.record(event).await;
        }
    }

    async fn record(&mut self, event: Event) {
        let verdict = self.correlator.correlate(event, Instant::now().into_std());
        let (correlated, patch) = match verdict {
            Verdict::Skip => return self.counters.spam.add(1),
            Verdict::Create(correlated) => (correlated, None),
            Verdict::Patch(correlated, key, patch) => (correlated, Some((key, Patch::Merge(patch)))),
        };
        let tries = self.config.tries.max(1);
        for nth in 1..=tries {
            // What is left at the stop gets one last try.
            let is_last = nth == tries || self.stop.is_cancelled();
            let error = match self.write(&correlated, patch.as_ref()).await {
                Ok(stored) => return self.written(&correlated, &stored, patch.is_some()),
                Err(error) => error,
            };
            if is_last || !is_worth_a_retry(&error) {
                refused(&correlated.event, &error);
                return self.counters.failed.add(1);
            }
            tracing::debug!(%error, nth, "cannot write an event yet");
            // The first pause is random, so that not all who lost the server come back to it at once.
            let pause = self.config.retry_pause;
            let pause = if nth == 1 { Jitter::new(fastrand::u64(..)).up_to(pause) } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled(), if !self.stop.is_cancelled() => {}
            }
        }
    }

    async fn write(&self, correlated: &Correlated, patch: Option<&(ObjectKey, Patch)>) -> Result<Event, ApiError> {
        let options = PostOptions::default();
        if let Some((key, patch)) = patch {
            match self.api.patch(key, patch, &options).await {
                // The server forgets events after a while. This one begins anew, with the count that is known.
                Err(error) if error.is_not_found() => {}
                outcome => return outcome,
            }
        }
        let mut event = correlated.event.clone();
        event.metadata.resource_version.clear();
        self.api.create(&event, &options).await
    }

    fn written(&mut self, correlated: &Correlated, stored: &Event, patched: bool) {
        self.correlator.stored(correlated, stored);
        if correlated.is_combined {
            self.counters.combined.add(1);
        }
        let tally = if patched { &self.counters.patched } else { &self.counters.created };
        tally.add(1);
    }
}

/// What the server has refused it would refuse again.
fn is_worth_a_retry(error: &ApiError) -> bool {
    !matches!(error.kind, ErrorKind::Status(_) | ErrorKind::InvalidRequest(_))
}

fn refused(event: &Event, error: &ApiError) {
    // The event is there already, or its namespace is about to go: nobody will miss it.
    let terminating = error.status().is_some_and(|status| status.message.contains("being terminated"));
    let expected = error.is_already_exists() || (error.reason() == Some(&Reason::Forbidden) && terminating);
    let (key, reason) = (event.key(), &event.reason);
    match expected {
        true => tracing::debug!(%key, reason, %error, "an event was refused"),
        false => tracing::warn!(%key, reason, %error, "an event could not be written"),
    }
}
