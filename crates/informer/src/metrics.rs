//! The metrics of an informer, with client-go's names for metrics that client-go also has.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use pintle_meta::{ApiResource, Object};
use pintle_metrics::{Counter, Gauge, Histogram, Metric, MetricKind, Provider};

use crate::clock::now;
use crate::error::ReflectorError;
use crate::publisher::Publisher;
use crate::reflector::{Command, Output, Step};
use crate::state::InformerState;
use crate::states::Whole;

const LABELS: &[&str] = &["name", "group", "version", "resource"];
const ITEMS: MetricKind = MetricKind::Histogram(&[0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);

static LISTS: Metric = metric(MetricKind::Counter, "reflector_lists_total", "Lists that started");
static LIST_DURATION: Metric = metric(
    MetricKind::Histogram(&[
        0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
    ]),
    "reflector_list_duration_seconds",
    "How long lists took, including decoding",
);
static ITEMS_PER_LIST: Metric = metric(ITEMS, "reflector_items_per_list", "Number of objects in lists");
static WATCHES: Metric = metric(MetricKind::Counter, "reflector_watches_total", "Requested watches");
static SHORT_WATCHES: Metric =
    metric(MetricKind::Counter, "reflector_short_watches_total", "Watches that ended as soon as they began");
static WATCH_DURATION: Metric = metric(
    MetricKind::Histogram(&[0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0]),
    "reflector_watch_duration_seconds",
    "How long watches were open",
);
static ITEMS_PER_WATCH: Metric =
    metric(ITEMS, "reflector_items_per_watch", "Number of events in watches, bookmarks included");
static LAST_RESOURCE_VERSION: Metric = metric(
    MetricKind::MaxGauge,
    "reflector_last_resource_version",
    "Last 15 digits of the resourceVersion up to which all changes were received",
);
static QUEUED: Metric = metric(MetricKind::Gauge, "informer_queued_items", "Items queued on their way into the cache");
static PROCESSING_LATENCY: Metric = metric(
    MetricKind::Histogram(&[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
    "informer_processing_latency_seconds",
    "How long it took to store a batch and to notify all subscribers",
);
static STORE_RESOURCE_VERSION: Metric = metric(
    MetricKind::MaxGauge,
    "informer_store_resource_version",
    "Last 15 digits of the resourceVersion of the cache",
);
static PENDING: Metric =
    metric(MetricKind::Gauge, "informer_pending_notifications", "Events that wait in all subscriptions together");
static UNDECODABLE: Metric =
    metric(MetricKind::Gauge, "informer_undecodable_objects", "Objects that cannot be decoded");
static DEGRADED: Metric =
    metric(MetricKind::Gauge, "informer_degraded_seconds", "How long the informer has been degraded");
static SYNCED: Metric = metric(MetricKind::Gauge, "informer_synced", "Whether the informer has listed and watches");

static INDEX_FAILURES: Metric = Metric::counter(
    "informer_index_failures_total",
    "Calls of index functions that failed or panicked",
    &["name", "group", "version", "resource", "index"],
);

const fn metric(kind: MetricKind, name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind, labels: LABELS }
}

/// The metrics of one driver. Only the driver uses these metrics, so no lock is needed.
pub(crate) struct Metrics {
    lists: Box<dyn Counter>,
    list_duration: Box<dyn Histogram>,
    items_per_list: Box<dyn Histogram>,
    watches: Box<dyn Counter>,
    short_watches: Box<dyn Counter>,
    watch_duration: Box<dyn Histogram>,
    items_per_watch: Box<dyn Histogram>,
    last_resource_version: Level,
    queued: Level,
    processing_latency: Box<dyn Histogram>,
    index_failures: BTreeMap<String, Box<dyn Counter>>,
    provider: Arc<dyn Provider>,
    name: String,
    resource: ApiResource,
    list: Option<Instant>,
    /// The time at which the open watch started, and the number of events received from it.
    watch: Option<(Instant, u32)>,
}

impl Metrics {
    pub(crate) fn new(provider: &Arc<dyn Provider>, name: &str, resource: &ApiResource) -> Self {
        let labels = labels(name, resource);
        let counter = |metric| provider.counter(metric, &labels);
        let histogram = |metric| provider.histogram(metric, &labels);
        let level = |metric| Level { gauge: provider.gauge(metric, &labels), value: 0 };
        Self {
            lists: counter(&LISTS),
            list_duration: histogram(&LIST_DURATION),
            items_per_list: histogram(&ITEMS_PER_LIST),
            watches: counter(&WATCHES),
            short_watches: counter(&SHORT_WATCHES),
            watch_duration: histogram(&WATCH_DURATION),
            items_per_watch: histogram(&ITEMS_PER_WATCH),
            last_resource_version: level(&LAST_RESOURCE_VERSION),
            queued: level(&QUEUED),
            processing_latency: histogram(&PROCESSING_LATENCY),
            index_failures: BTreeMap::new(),
            provider: provider.clone(),
            name: name.into(),
            resource: resource.clone(),
            list: None,
            watch: None,
        }
    }

    pub(crate) fn commanded(&mut self, now: Instant, command: &Command) {
        match command {
            // A streaming list is in progress, which counts as a list and not yet as a watch.
            Command::Read { .. } if self.list.is_some() => {}
            Command::Read { .. } => _ = self.watch.get_or_insert((now, 0)),
            Command::List(options) if !options.continue_token.is_empty() => {}
            Command::List(_) => self.list_begins(now),
            Command::Watch(options) if options.send_initial_events => self.list_begins(now),
            Command::Watch(_) => self.watches.add(1),
            Command::Sleep(_) => {}
        }
    }

    pub(crate) fn stepped<T>(&mut self, now: Instant, step: &Step<T>, resource_version: &str) {
        let is_read_on = matches!(step.command, Command::Read { .. });
        match (&step.output, &mut self.watch) {
            (Some(Output::Replaced { objects, .. }), _) => {
                self.items_per_list.observe(objects.len() as f64);
                if let Some(begun) = self.list.take() {
                    observe(&*self.list_duration, begun, now);
                }
                // A complete streaming list becomes a watch without another request, so count the watch here.
                self.watches.add(u64::from(is_read_on));
            }
            (Some(_), Some((_, events))) => *events += 1,
            _ => {}
        }
        if !is_read_on && let Some((opened, events)) = self.watch.take() {
            observe(&*self.watch_duration, opened, now);
            self.items_per_watch.observe(f64::from(events));
        }
        if let Some(ReflectorError::VeryShortWatch) = step.error {
            self.short_watches.add(1);
        }
        self.last_resource_version.set(last_digits(resource_version));
        self.commanded(now, &step.command);
    }

    pub(crate) fn queued(&mut self, items: usize) {
        self.queued.set(i64::try_from(items).unwrap_or(i64::MAX));
    }

    pub(crate) fn processed(&self, begun: Instant) {
        observe(&*self.processing_latency, begun, now());
    }

    pub(crate) fn index_failed(&mut self, index: &str) {
        let Self { index_failures, provider, name, resource, .. } = self;
        let counter = index_failures.entry(index.into()).or_insert_with(|| {
            let [name, group, version, resource] = labels(name, resource);
            provider.counter(&INDEX_FAILURES, &[name, group, version, resource, index])
        });
        counter.add(1);
    }

    fn list_begins(&mut self, now: Instant) {
        self.lists.add(1);
        self.list = Some(now);
    }
}

/// Gauges that read their values from the informer whenever metrics are collected, until the informer's task ends.
pub(crate) struct Pulled {
    _pulled: [Box<dyn Any + Send + Sync>; 5],
}

impl Pulled {
    pub(crate) fn new<T: Object>(
        provider: &dyn Provider,
        name: &str,
        resource: &ApiResource,
        publisher: &Arc<Publisher<T>>,
        whole: &Arc<Whole>,
    ) -> Self {
        let labels = labels(name, resource);
        let [versions, pending, undecodable] = std::array::from_fn(|_| publisher.clone());
        let [trouble, state] = std::array::from_fn(|_| whole.clone());
        let pulled = |metric, read| provider.pulled(metric, &labels, read);
        let _pulled = [
            pulled(&STORE_RESOURCE_VERSION, Box::new(move || last_digits(&versions.cache.resource_version()) as f64)),
            pulled(&PENDING, Box::new(move || pending.pending() as f64)),
            pulled(&UNDECODABLE, Box::new(move || undecodable.cache.undecodable_len() as f64)),
            pulled(&DEGRADED, Box::new(move || degraded_seconds(&trouble.state()))),
            pulled(&SYNCED, Box::new(move || f64::from(u8::from(state.state().is_synced())))),
        ];
        Self { _pulled }
    }
}

fn labels<'a>(name: &'a str, resource: &'a ApiResource) -> [&'a str; 4] {
    [name, &resource.group_version.group, &resource.group_version.version, &resource.plural]
}

/// A gauge that is set to absolute values. A `Level` stores the last value, because a [`Gauge`] only supports relative
/// changes.
struct Level {
    gauge: Box<dyn Gauge>,
    value: i64,
}

impl Level {
    fn set(&mut self, value: i64) {
        self.gauge.add(value - self.value);
        self.value = value;
    }
}

fn observe(histogram: &dyn Histogram, begun: Instant, now: Instant) {
    histogram.observe(now.saturating_duration_since(begun).as_secs_f64());
}

fn degraded_seconds(state: &InformerState) -> f64 {
    match state {
        InformerState::Degraded { since, .. } => now().saturating_duration_since(*since).as_secs_f64(),
        _ => 0.0,
    }
}

/// Returns the last 15 digits of a revision, as client-go does. A floating-point gauge represents at most 15 digits
/// exactly. Returns 0 if the revision is not a number.
fn last_digits(resource_version: &str) -> i64 {
    const DIGITS: usize = 15;
    let digits = resource_version.get(resource_version.len().saturating_sub(DIGITS)..);
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
