//! Broadcasts recorded events.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use pintle_meta::ObjectApi;
use pintle_metrics::{CatchPanic, Provider};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::correlator::{Correlator, CorrelatorConfig};
use crate::event::{Event, EventSource};
use crate::hub::{Hub, Listener};
use crate::metrics::{Counters, EventCounts};
use crate::queue;
use crate::recorder::EventRecorder;
use crate::series::{Series, SeriesConfig};
use crate::series_event::SeriesEvent;
use crate::sink::{CoreSink, Retry, SeriesSink};
use crate::watcher::{EventWatcher, Watch};

/// The configuration of an [`EventBroadcaster`]. The default values match client-go.
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
    /// The capacity of the queue of each sink and watcher, which is at least 1 and by default 1000. New events are dropped while a queue
    /// is full.
    pub queue: usize,
    /// The maximum number of attempts to write an event to an unreachable server, which is at least 1 and by default 12.
    pub tries: u32,
    /// The pause between two attempts to write an event, by default 10 s.
    pub retry_pause: Duration,
    /// The limits for `v1` events, such as the burst size of the spam filter.
    pub correlator: CorrelatorConfig,
    /// The limits for event series of the `events.k8s.io` API, such as the interval between two updates.
    pub series: SeriesConfig,
    /// The metrics provider, or `None` to disable metrics. The broadcaster and its recorders keep the provider alive. Each metric is
    /// the sum over all sinks of the broadcaster, and over all broadcasters with the same provider.
    ///
    /// | name | kind | meaning |
    /// |---|---|---|
    /// | `event_broadcaster_recorded_total` | counter | recorded events |
    /// | `event_broadcaster_settled_total` | counter | events by `outcome`: `created`, `patched`, `counted`, `spam`, `dropped`, `failed` |
    /// | `event_broadcaster_combined_total` | counter | stored events that combine several different messages |
    pub metrics: Option<Arc<dyn Provider>>,
}

impl Default for BroadcasterConfig {
    fn default() -> Self {
        let retry_pause = Duration::from_secs(10);
        let (correlator, series) = (CorrelatorConfig::default(), SeriesConfig::default());
        Self { queue: 1000, tries: 12, retry_pause, correlator, series, metrics: None }
    }
}

/// Delivers events to sinks, to watchers and to the log, like client-go's `EventBroadcaster`.
///
/// Each sink writes events to a server in its own task. Each sink and each watcher has a separate queue, so a slow sink or watcher does
/// not delay the others. Dropping the broadcaster stops all writes immediately, and the queued events are lost. To write the queued
/// events first, use [`shutdown`](EventBroadcaster::shutdown).
///
/// # Examples
///
/// ```
/// use pintle_events::{BroadcasterConfig, Event, EventBroadcaster, EventSource};
/// use pintle_meta::ObjectApi;
/// use std::time::Duration;
///
/// async fn run(events: impl ObjectApi<Event>, program: impl Future<Output = ()>) {
///     let broadcaster = EventBroadcaster::new(BroadcasterConfig { tries: 3, ..Default::default() });
///     broadcaster.start_recording_to_sink(events);
///     let recorder = broadcaster.recorder(EventSource { component: "website-controller".into(), ..Default::default() });
///     // Give clones of the recorder to the parts of the program that record events.
///     # drop(recorder);
///     program.await;
///     broadcaster.shutdown(Duration::from_secs(5)).await;
/// }
/// ```
#[derive(Debug)]
pub struct EventBroadcaster {
    hub: Arc<Hub>,
    config: Box<BroadcasterConfig>,
    stop: CancellationToken,
    sinks: Mutex<JoinSet<()>>,
    _open: CloseOnDrop,
}

/// Closes the watchers when the broadcaster is dropped, even if recorders still exist.
#[derive(Debug)]
struct CloseOnDrop(Arc<Hub>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl EventBroadcaster {
    /// Creates a broadcaster without sinks and watchers.
    pub fn new(config: BroadcasterConfig) -> Self {
        let provider = config.metrics.clone().map(|provider| {
            CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics provider panicked and is not called again");
            })
        });
        let counters = Counters::new(provider.as_ref().map(|provider| provider as &dyn Provider));
        let hub = Arc::new(Hub::new(counters));
        let (stop, sinks, _open) = (CancellationToken::new(), Mutex::default(), CloseOnDrop(hub.clone()));
        Self { hub, config: Box::new(config), stop, sinks, _open }
    }

    /// Adds a sink that writes `v1` events with `api`. Each sink counts repetitions, combines similar events and limits the rate of events
    /// independently. The sink writes each event to the namespace of the event's object, so `api` needs write access to all of these
    /// namespaces.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn start_recording_to_sink(&self, api: impl ObjectApi<Event>) {
        let sink = self.core_sink(api);
        self.start(|events| sink.run(events));
    }

    /// Adds a sink that writes `events.k8s.io/v1` events with `api`. The sink writes repetitions of an event as a series. The sink writes
    /// the count of a series when the event is first repeated, at each [refresh interval](SeriesConfig::refresh), when the series
    /// [ends](SeriesConfig::finish), and at shutdown.
    ///
    /// The sink detects from the response to the first event whether the server supports the `events.k8s.io/v1` API. If
    /// the server lacks this API, the sink writes `v1` events with `fallback`, like
    /// [`start_recording_to_sink`](Self::start_recording_to_sink).
    ///
    /// The `events.k8s.io/v1` API requires a qualified component name, such as `example.com/website-controller`. The sink uses the reason
    /// as the action if the action is missing. If the host is missing, the sink builds the instance from the component name and the host
    /// name of this machine. The sink truncates messages to 1024 bytes, and reasons, actions and instances to 128 bytes.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn start_recording_series_to_sink(&self, api: impl ObjectApi<SeriesEvent>, fallback: impl ObjectApi<Event>) {
        let sink = SeriesSink {
            api,
            fallback: self.core_sink(fallback),
            series: Series::new(self.config.series.clone()),
            host: host(),
            retry: self.retry(),
            counters: self.hub.counters.clone(),
            api_confirmed: false,
        };
        self.start(|events| sink.run(events));
    }

    /// Starts logging all recorded events, like client-go's `StartStructuredLogging`. Events are logged at level INFO
    /// with the fields `object`, `field_path`, `kind`, `api_version`, `type`, `reason`, `action` and `message`.
    pub fn start_logging(&self) {
        self.hub.add(Listener::Log);
    }

    /// Returns a watcher that receives each event that is recorded after this call and that `filter` accepts. `filter` should be fast,
    /// because it runs on the thread that records the event. If `filter` panics, the watcher does not receive the event.
    pub fn watch(&self, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> EventWatcher {
        let (watch, watcher) = Watch::new(self.config.queue, filter);
        self.hub.add(Listener::Watcher(watch));
        watcher
    }

    /// Returns a recorder that records events for the component `source`.
    pub fn recorder(&self, source: EventSource) -> EventRecorder {
        EventRecorder::new(source, self.hub.clone())
    }

    /// Writes the queued events and the counts of all series, and then stops the broadcaster. During the shutdown, the broadcaster rejects
    /// new events, and tries only once more to write each queued event. After `timeout`, the broadcaster stops even if some events are
    /// still queued. Returns the counts of all events that were recorded through this broadcaster, in which unwritten events count as
    /// failed. Each watcher can still receive the events that are already in its queue.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all writes immediately.
    pub async fn shutdown(self, timeout: Duration) -> EventCounts {
        self.hub.close();
        self.stop.cancel();
        let Self { hub, sinks, .. } = self;
        let mut sinks = sinks.into_inner();
        let all = async { while sinks.join_next().await.is_some() {} };
        if tokio::time::timeout(timeout, all).await.is_err() {
            sinks.shutdown().await;
        }
        let mut counts = hub.counters.snapshot();
        let EventCounts { created, patched, counted, spam, dropped, failed, .. } = counts;
        let lost = counts.recorded.saturating_sub(created + patched + counted + spam + dropped + failed);
        hub.counters.failed.add(lost);
        counts.failed += lost;
        counts
    }

    fn start<F: Future<Output = ()> + Send + 'static>(&self, run: impl FnOnce(mpsc::Receiver<Arc<Event>>) -> F) {
        let (queue, events) = queue::queue(self.config.queue);
        self.sinks.lock().spawn(run(events));
        self.hub.add(Listener::Sink(queue));
    }

    fn core_sink<A>(&self, api: A) -> CoreSink<A> {
        let correlator = Correlator::new(self.config.correlator.clone());
        CoreSink { api, correlator, retry: self.retry(), counters: self.hub.counters.clone() }
    }

    fn retry(&self) -> Retry {
        Retry { tries: self.config.tries.max(1), pause: self.config.retry_pause, stop: self.stop.clone() }
    }
}

/// Returns the host name, which is the pod's name in a pod.
fn host() -> String {
    let non_empty = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().and_then(non_empty);
    host.or_else(|| std::env::var("HOSTNAME").ok().and_then(non_empty)).unwrap_or_else(|| "unknown".into())
}
