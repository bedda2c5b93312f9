//! Broadcasts recorded events.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// The configuration of an [`EventBroadcaster`]. The default values come from client-go.
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
    /// The capacity of each sink's and each watcher's queue, at least 1. The default is 1000. If a queue is full, its sink or watcher loses
    /// new events.
    pub queue: usize,
    /// The number of attempts to write an event while the server is unreachable, at least 1. The default is 12.
    pub tries: u32,
    /// The pause between two attempts to write an event. The default is 10 s.
    pub retry_pause: Duration,
    /// Limits how many `v1` events the sinks write.
    pub correlator: CorrelatorConfig,
    /// Determines when sinks update and end event series of the `events.k8s.io` API.
    pub series: SeriesConfig,
    /// The metrics provider. `None` disables metrics. The provider is used until the broadcaster and its last recorder are dropped. Each
    /// metric is the sum over the broadcaster's sinks, and over all broadcasters with this provider.
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
/// Each sink writes events to a server in its own task. Each sink and each watcher has its own queue, so a slow sink or watcher does not
/// delay the others. Dropping the broadcaster stops all writes immediately and loses the queued events.
/// [`shutdown`](EventBroadcaster::shutdown) writes the queued events first.
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

/// Ends the watchers when the broadcaster is dropped, even if recorders still exist.
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

    /// Adds a sink that writes `v1` events with `api`. Each sink counts repetitions, combines similar events and limits the rate of events,
    /// independently of other sinks. The sink writes an event to the namespace of the event's object, so `api` must be able to write to all
    /// of these namespaces.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn start_recording_to_sink(&self, api: impl ObjectApi<Event>) {
        let sink = self.core_sink(api);
        self.start(|events| sink.run(events));
    }

    /// Adds a sink that writes `events.k8s.io/v1` events with `api`. Repetitions of an event become a series. The sink writes a series'
    /// count with the second event, at each [refresh interval](SeriesConfig::refresh), when the series [ends](SeriesConfig::finish), and at
    /// shutdown.
    ///
    /// The response to the first event shows whether the server supports the `events.k8s.io/v1` API. If the server does not support it, the
    /// sink writes `v1` events with `fallback` instead, like [`start_recording_to_sink`](Self::start_recording_to_sink).
    ///
    /// The `events.k8s.io/v1` API requires a qualified component name, such as `example.com/website-controller`. The sink replaces a
    /// missing action by the reason, and a missing host by this machine's name. The sink shortens each message to 1024 bytes, and each
    /// reason, action and instance to 128 bytes.
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

    /// Starts logging each recorded event, like client-go's `StartStructuredLogging`. The log level is INFO, and the fields are `object`,
    /// `field_path`, `kind`, `api_version`, `type`, `reason`, `action` and `message`.
    pub fn start_logging(&self) {
        self.hub.add(Listener::Log);
    }

    /// Returns a watcher that receives each event that is recorded after this call and accepted by `filter`. The thread that records an
    /// event calls `filter`, so `filter` should be fast. If `filter` panics, the watcher does not receive the event.
    pub fn watch(&self, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> EventWatcher {
        let (watch, watcher) = Watch::new(self.config.queue, filter);
        self.hub.add(Listener::Watcher(watch));
        watcher
    }

    /// Returns a recorder for one component of the program.
    pub fn recorder(&self, source: EventSource) -> EventRecorder {
        EventRecorder::new(source, self.hub.clone())
    }

    /// Writes the queued events and the series' counts, and then stops the broadcaster. The broadcaster accepts no new events, and makes
    /// one more attempt for each queued event. After `timeout`, the broadcaster stops even if events are still queued. Returns the counts
    /// of all events. Events that were not written count as failed. Each watcher still receives the events in its queue, and then ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all writes immediately.
    pub async fn shutdown(self, timeout: Duration) -> EventCounts {
        self.hub.close();
        self.stop.cancel();
        let Self { hub, sinks, .. } = self;
        let mut sinks = sinks.into_inner().unwrap_or_else(PoisonError::into_inner);
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
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner).spawn(run(events));
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

/// Returns the host name. In a pod, the host name is the pod's name.
fn host() -> String {
    let non_empty = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().and_then(non_empty);
    host.or_else(|| std::env::var("HOSTNAME").ok().and_then(non_empty)).unwrap_or_else(|| "unknown".into())
}
