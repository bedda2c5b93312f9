//! Whom events reach, and the owner of what writes them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pintle_meta::ObjectApi;
use pintle_metrics::{CatchPanic, Provider};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::correlator::{Correlator, CorrelatorConfig};
use crate::hub::{self, Hub, Listener};
use crate::metrics::Counters;
use crate::series::{Series, SeriesConfig};
use crate::sink::{CoreSink, Retry, SeriesSink};
use crate::watcher::{EventWatcher, Watch};
use crate::{Event, EventCounts, EventRecorder, EventSource, SeriesEvent};

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
    /// How many events may wait at each sink and watcher: 1000, and at least 1. What comes on top of that is dropped.
    pub queue: usize,
    /// How often an event is tried while the server cannot be reached: 12 times, and at least once.
    pub tries: u32,
    /// The pause between tries: 10 s.
    pub retry_pause: Duration,
    /// When events of `v1` are combined or held back.
    pub correlator: CorrelatorConfig,
    /// When series of `events.k8s.io` are told again, and end.
    pub series: SeriesConfig,
    /// Who is told what becomes of the events, until the broadcaster and the last of its recorders are dropped. None: nobody.
    /// Broadcasters add up, and so do the sinks of each.
    ///
    /// | name | kind | says |
    /// |---|---|---|
    /// | `event_broadcaster_recorded_total` | counter | events that were recorded |
    /// | `event_broadcaster_settled_total` | counter | what became of them, by `outcome`: `created`, `patched`, `counted`, `spam`, `dropped`, `failed` |
    /// | `event_broadcaster_combined_total` | counter | those stored for several different messages |
    pub metrics: Option<Arc<dyn Provider>>,
}

impl Default for BroadcasterConfig {
    fn default() -> Self {
        let retry_pause = Duration::from_secs(10);
        let (correlator, series) = (CorrelatorConfig::default(), SeriesConfig::default());
        Self { queue: 1000, tries: 12, retry_pause, correlator, series, metrics: None }
    }
}

/// Passes events on to all who want them: client-go's `EventBroadcaster`.
///
/// These are sinks, each of which writes to a server in a task of its own; watchers; and the log. Each has its own queue, so that one
/// that is slow costs the others nothing. When the broadcaster is dropped, writing ends at once and events that wait are lost;
/// [`shutdown`](EventBroadcaster::shutdown) writes them first.
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
///     // Clones of the recorder go to whatever records events.
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

/// Watchers see the end when the broadcaster is gone, however many recorders are left.
#[derive(Debug)]
struct CloseOnDrop(Arc<Hub>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl EventBroadcaster {
    /// One that reaches nobody yet.
    pub fn new(config: BroadcasterConfig) -> Self {
        let provider = config.metrics.clone().map(|provider| {
            CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics of events panicked, and are told nothing more");
            })
        });
        let counters = Counters::new(provider.as_ref().map(|provider| provider as &dyn Provider));
        let hub = Arc::new(Hub::new(counters));
        let (stop, sinks, _open) = (CancellationToken::new(), Mutex::default(), CloseOnDrop(hub.clone()));
        Self { hub, config: Box::new(config), stop, sinks, _open }
    }

    /// Starts to write events of `v1` through `api`: repetitions are counted, similar events combined, and floods held back, for
    /// each sink by itself. The events go into the namespaces of the objects that they are about, so `api` has to reach all of these.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start_recording_to_sink(&self, api: impl ObjectApi<Event>) {
        let sink = self.core_sink(api);
        self.start(|events| sink.run(events));
    }

    /// Starts to write events of `events.k8s.io/v1` through `api`: what is repeated becomes a series, whose count is written with the
    /// second event, [from time to time](SeriesConfig::refresh), when it is [over](SeriesConfig::finish), and at the shutdown.
    ///
    /// A server that lacks this API, as the first event finds out, gets events of `v1` through `fallback`, by the rules of
    /// [`start_recording_to_sink`](Self::start_recording_to_sink).
    ///
    /// The API wants what `v1` does not: a component, which is a qualified name, such as `example.com/website-controller`. For an
    /// action that is missing stands the reason; for a host, that of this machine. A message is cut at 1024 bytes, and a reason,
    /// action or instance at 128.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start_recording_series_to_sink(&self, api: impl ObjectApi<SeriesEvent>, fallback: impl ObjectApi<Event>) {
        let sink = SeriesSink {
            api,
            fallback: self.core_sink(fallback),
            series: Series::new(self.config.series.clone()),
            host: host(),
            retry: self.retry(),
            counters: self.hub.counters.clone(),
            is_there: false,
        };
        self.start(|events| sink.run(events));
    }

    /// Starts to log each event as it is recorded, at the level INFO, with `object`, `field_path`, `kind`, `api_version`, `type`,
    /// `reason`, `action` and `message` as fields: client-go's `StartStructuredLogging`.
    pub fn start_logging(&self) {
        self.hub.add(Listener::Log);
    }

    /// Watches the events that are recorded from now on and that `filter` lets pass. It is asked where the event is recorded, so it is
    /// to be quick; an event at which it panics is dropped for this watcher.
    pub fn watch(&self, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> EventWatcher {
        let (watch, watcher) = Watch::new(self.config.queue, filter);
        self.hub.add(Listener::Watcher(watch));
        watcher
    }

    /// A recorder for one component of the program.
    pub fn recorder(&self, source: EventSource) -> EventRecorder {
        EventRecorder::new(source, self.hub.clone())
    }

    /// Takes no more events, and writes those that wait, each with one try, and the counts of series, for at most `timeout`. Answers
    /// what became of all events, where what was not written counts as failed. Watchers have what waits for them, and then the end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the writing at once.
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
        let (queue, events) = hub::queue(self.config.queue);
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

/// The name of this machine: the pod's, in a pod.
fn host() -> String {
    let told = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().and_then(told);
    host.or_else(|| std::env::var("HOSTNAME").ok().and_then(told)).unwrap_or_else(|| "unknown".into())
}
