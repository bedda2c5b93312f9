use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{BUCKETS, GaugeSource, Gauges, Instruments, MetricsProvider};

/// The metrics of queues in a [`prometheus_client`] registry, under the names that dashboards know. Clones are the same.
///
/// The series of a queue are there from its making until it is dropped with its last guard. Queues of the same name share
/// their series, but each shows gauges of its own: give them different names.
///
/// Beyond the seven known families there are `workqueue_delayed`, `workqueue_oldest_queued_seconds` and
/// `workqueue_retry_delay_seconds`.
///
/// ```
/// use pintle_workqueue::{PrometheusMetrics, QueueConfig, RateLimitingQueue};
/// use prometheus_client::{encoding::text::encode, registry::Registry};
/// use std::sync::Arc;
///
/// let mut registry = Registry::default();
/// let metrics = Arc::new(PrometheusMetrics::controller_runtime(&mut registry));
/// let config = QueueConfig::<&str> { name: "websites".into(), metrics: Some(metrics), ..QueueConfig::default() };
/// let queue = RateLimitingQueue::new(config);
/// queue.add("blog");
///
/// let mut text = String::new();
/// encode(&mut text, &registry)?;
/// assert!(text.contains(r#"workqueue_adds_total{name="websites",controller="websites"} 1"#));
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrometheusMetrics {
    families: Arc<Families>,
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Families {
    style: Style,
    adds: Family<Labels, Counter>,
    depth: Family<Labels, Gauge<i64, AtomicI64>>,
    queue_duration: Family<Labels, Histogram, Seconds>,
    retries: Family<Labels, Counter>,
    retry_delay: Family<Labels, Histogram, Seconds>,
    work_duration: Family<Labels, Histogram, Seconds>,
    live: Mutex<Live>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    ClientGo,
    ControllerRuntime,
}

/// Makes histograms with the first so many [`BUCKETS`].
#[derive(Clone, Debug)]
struct Seconds(usize);

#[derive(Debug, Default)]
struct Live {
    next: u64,
    sources: BTreeMap<u64, (String, GaugeSource)>,
}

/// controller-runtime's bound on the values of the `priority` label, for one queue.
const MAX_PRIORITIES: usize = 25;
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

impl PrometheusMetrics {
    /// With client-go's labels and buckets: `name`, and up to 10 s.
    pub fn client_go(registry: &mut Registry) -> Self {
        Self::register(registry, Style::ClientGo)
    }

    /// With controller-runtime's labels and buckets: `name`, `controller`, for the depth also `priority`, and up to 1000 s.
    ///
    /// A queue has at most 25 values of `priority`; keys of further priorities count under `exceeded_cardinality_limit`.
    pub fn controller_runtime(registry: &mut Registry) -> Self {
        Self::register(registry, Style::ControllerRuntime)
    }

    fn register(registry: &mut Registry, style: Style) -> Self {
        let seconds = || {
            Family::new_with_constructor(Seconds(if style == Style::ClientGo {
                BUCKETS.len() - 2
            } else {
                BUCKETS.len()
            }))
        };
        let families = Families {
            style,
            adds: Family::default(),
            depth: Family::default(),
            queue_duration: seconds(),
            retries: Family::default(),
            retry_delay: seconds(),
            work_duration: seconds(),
            live: Mutex::default(),
        };
        // The registry adds the `_total` of counters.
        registry.register("workqueue_adds", "Adds that were not merged into another", families.adds.clone());
        registry.register("workqueue_depth", "Keys that have work to do", families.depth.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long a key waited to be handed out",
            families.queue_duration.clone(),
        );
        registry.register("workqueue_retries", "Delayed adds", families.retries.clone());
        registry.register(
            "workqueue_retry_delay_seconds",
            "The delays of rate-limited adds",
            families.retry_delay.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a key was in flight",
            families.work_duration.clone(),
        );
        let families = Arc::new(families);
        registry.register_collector(Box::new(Pulled(Arc::clone(&families))));
        Self { families }
    }
}

impl MetricsProvider for PrometheusMetrics {
    fn instruments(&self, name: &str, gauges: GaugeSource) -> Box<dyn Instruments> {
        let families = Arc::clone(&self.families);
        let labels = families.labels(name);
        let id = {
            let mut live = families.live();
            live.next += 1;
            let id = live.next;
            live.sources.insert(id, (name.to_owned(), gauges));
            id
        };
        Box::new(Series {
            adds: families.adds.get_or_create_owned(&labels),
            queue_duration: families.queue_duration.get_or_create_owned(&labels),
            retries: families.retries.get_or_create_owned(&labels),
            retry_delay: families.retry_delay.get_or_create_owned(&labels),
            work_duration: families.work_duration.get_or_create_owned(&labels),
            depths: BTreeMap::new(),
            families,
            labels,
            id,
        })
    }
}

impl Families {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn labels(&self, name: &str) -> Labels {
        match self.style {
            Style::ClientGo => vec![("name", name.to_owned())],
            Style::ControllerRuntime => vec![("name", name.to_owned()), ("controller", name.to_owned())],
        }
    }
}

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS.iter().copied().take(self.0))
    }
}

/// The series of one queue.
struct Series {
    families: Arc<Families>,
    labels: Labels,
    id: u64,
    adds: Counter,
    queue_duration: Histogram,
    retries: Counter,
    retry_delay: Histogram,
    work_duration: Histogram,
    /// By priority; `None` for all those without a label of their own.
    depths: BTreeMap<Option<i32>, Gauge<i64, AtomicI64>>,
}

impl Instruments for Series {
    fn depth(&mut self, priority: i32, change: i64) {
        self.depth_of(priority).inc_by(change);
    }

    fn add(&mut self) {
        self.adds.inc();
    }

    fn queue_duration(&mut self, waited: Duration) {
        self.queue_duration.observe(waited.as_secs_f64());
    }

    fn work_duration(&mut self, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
    }

    fn retry(&mut self, delay: Duration) {
        // controller-runtime counts no add that turned out to be immediate.
        if self.families.style == Style::ClientGo || !delay.is_zero() {
            self.retries.inc();
        }
    }

    fn retry_delay(&mut self, delay: Duration) {
        self.retry_delay.observe(delay.as_secs_f64());
    }
}

impl Series {
    /// A priority that has got a label keeps it, so what is counted up is counted down in the same place.
    fn depth_of(&mut self, priority: i32) -> &Gauge<i64, AtomicI64> {
        let with_priority = self.families.style == Style::ControllerRuntime;
        let known = self.depths.contains_key(&Some(priority));
        let own = self.depths.len() - usize::from(self.depths.contains_key(&None));
        let key = if !with_priority {
            None
        } else if known || own < MAX_PRIORITIES {
            Some(priority)
        } else {
            None
        };
        let Self { families, labels, depths, .. } = self;
        depths
            .entry(key)
            .or_insert_with(|| families.depth.get_or_create_owned(&depth_labels(labels, with_priority, key)))
    }
}

fn depth_labels(labels: &Labels, with_priority: bool, key: Option<i32>) -> Labels {
    let mut labels = labels.clone();
    if with_priority {
        labels.push(("priority", key.map_or_else(|| OTHER_PRIORITIES.to_owned(), |key| key.to_string())));
    }
    labels
}

impl Drop for Series {
    fn drop(&mut self) {
        let mut live = self.families.live();
        let Some((name, _)) = live.sources.remove(&self.id) else { return };
        if live.sources.values().any(|(other, _)| *other == name) {
            return;
        }
        let Families { style, adds, depth, queue_duration, retries, retry_delay, work_duration, .. } = &*self.families;
        for key in self.depths.keys() {
            depth.remove(&depth_labels(&self.labels, *style == Style::ControllerRuntime, *key));
        }
        for family in [adds, retries] {
            family.remove(&self.labels);
        }
        for family in [queue_duration, retry_delay, work_duration] {
            family.remove(&self.labels);
        }
    }
}

/// The gauges that are read when they are scraped.
#[derive(Debug)]
struct Pulled(Arc<Families>);

impl Collector for Pulled {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sources: Vec<_> = self.0.live().sources.values().cloned().collect();
        let mut seen = HashSet::new();
        let values: Vec<(Labels, Gauges)> = sources
            .into_iter()
            .filter(|(name, _)| seen.insert(name.clone()))
            .filter_map(|(name, source)| Some((self.0.labels(&name), source.read()?)))
            .collect();
        let mut gauge = |name: &str, help: &str, value: fn(&Gauges) -> f64| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, gauges) in &values {
                metric.encode_family(labels)?.encode_gauge(&value(gauges))?;
            }
            Ok(())
        };
        gauge("workqueue_delayed", "Keys whose delay is pending", |g| g.delayed as f64)?;
        gauge("workqueue_longest_running_processor_seconds", "The age of the oldest key in flight", |g| {
            g.longest_running_processor.as_secs_f64()
        })?;
        gauge("workqueue_oldest_queued_seconds", "The age of the oldest key that has work to do", |g| {
            g.oldest_queued.as_secs_f64()
        })?;
        gauge("workqueue_unfinished_work_seconds", "The ages of all keys in flight, added up", |g| {
            g.unfinished_work.as_secs_f64()
        })
    }
}
