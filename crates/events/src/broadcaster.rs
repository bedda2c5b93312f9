//! The broadcaster of events.

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
    /// The maximum number of events in the queue of each sink and each watcher. The minimum is 1. The default is 1000.
    /// If the queue is full, the sink or watcher loses new events.
    pub queue: usize,
    /// The number of attempts to write an event while the server is unreachable. The minimum is 1. The default is 12.
    pub tries: u32,
    /// The pause between attempts. The default is 10 s.
    pub retry_pause: Duration,
    /// The rules by which a sink combines events of the API `v1` and limits their rate.
    pub correlator: CorrelatorConfig,
    /// The rules for event series of the API `events.k8s.io`. The rules determine when the sink updates a series and
    /// when the series ends.
    pub series: SeriesConfig,
    /// The metrics provider. `None` disables metrics. The broadcaster uses the metrics provider until the broadcaster
    /// and its last recorder are dropped. If there are several broadcasters, or if one broadcaster has several sinks, each metric is the
    /// sum of their counts.
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
/// Each sink writes events to a server in its own task. Each sink and each watcher has its own queue, so a slow sink or
/// watcher does not delay the others. Dropping the broadcaster stops all writes immediately. The events in the queues
/// are lost. [`shutdown`](EventBroadcaster::shutdown) writes the queued events before it stops the broadcaster.
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

    /// Adds a sink that uses `api` to write events of the API `v1`. Each sink counts repetitions, combines similar
    /// events and limits the rate of events, independently of other sinks. An event is written to the namespace of its
    /// object, so `api` must be able to write to the namespaces of all these objects.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn start_recording_to_sink(&self, api: impl ObjectApi<Event>) {
        let sink = self.core_sink(api);
        self.start(|events| sink.run(events));
    }

    /// Adds a sink that uses `api` to write events of the API `events.k8s.io/v1`. Repetitions become a series. The sink
    /// writes the count of a series with the second event, at each [refresh interval](SeriesConfig::refresh), when the
    /// series [ends](SeriesConfig::finish), and at shutdown.
    ///
    /// The response to the first event shows whether the server supports this API. If the server does not support this
    /// API, the sink uses `fallback` to write events of the API `v1` instead, in the same way as
    /// [`start_recording_to_sink`](Self::start_recording_to_sink).
    ///
    /// Unlike `v1`, this API requires a qualified component name, such as `example.com/website-controller`. If an event
    /// has no action, the sink sends the reason as the action. If an event has no host, the sink uses the name of this
    /// machine as the host. The sink shortens each message to 1024 bytes, and each reason, action and instance to 128
    /// bytes.
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

    /// Starts to log each recorded event, like client-go's `StartStructuredLogging`. The log level is INFO, and the
    /// fields are `object`, `field_path`, `kind`, `api_version`, `type`, `reason`, `action` and `message`.
    pub fn start_logging(&self) {
        self.hub.add(Listener::Log);
    }

    /// Returns a watcher that receives each event that is recorded after this call and for which
    /// `filter` returns true. The thread that records an event calls the filter, so the filter should be fast. If the
    /// filter panics for an event, the watcher does not receive this event.
    pub fn watch(&self, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> EventWatcher {
        let (watch, watcher) = Watch::new(self.config.queue, filter);
        self.hub.add(Listener::Watcher(watch));
        watcher
    }

    /// Returns a recorder for one component of the program.
    pub fn recorder(&self, source: EventSource) -> EventRecorder {
        EventRecorder::new(source, self.hub.clone())
    }

    /// Writes the queued events and the counts of the series, and then stops the broadcaster. New events are not
    /// accepted. The broadcaster makes one more attempt for each queued event. After `timeout`, the broadcaster stops
    /// even if events are still queued. The method returns the counts of all events, including those that were lost.
    /// Events that were not written count as failed. Each watcher receives the events that are in its queue, and then ends.
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
