//! The collector for a `prometheus_client` registry.

use std::fmt;
use std::iter::zip;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::memory::{InMemoryProvider, Value};
use crate::provider::MetricKind;

/// Encodes the current series for each scrape of the registry.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{InMemoryProvider, Metric, MetricKind, Provider};
/// use prometheus_client::{encoding::text::encode, registry::Registry};
///
/// static OPEN: Metric = Metric { name: "doors_open", help: "Open doors", kind: MetricKind::Gauge, labels: &["floor"] };
///
/// let memory = InMemoryProvider::new();
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(memory.clone()));
///
/// let open = memory.gauge(&OPEN, &["3"]);
/// open.add(2);
/// let mut text = String::new();
/// encode(&mut text, &registry)?;
/// assert!(text.contains("doors_open{floor=\"3\"} 2"));
/// # Ok::<(), std::fmt::Error>(())
/// ```
impl Collector for InMemoryProvider {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.samples().chunk_by(|one, other| one.metric.name == other.metric.name) {
            let metric = family[0].metric;
            // The encoder adds the suffix `_total`, so remove it.
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            let kind = match metric.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge | MetricKind::MaxGauge => MetricType::Gauge,
                MetricKind::Histogram(_) => MetricType::Histogram,
            };
            let mut encoder = encoder.encode_descriptor(name, metric.help, None, kind)?;
            for sample in family {
                let labels: Vec<_> = zip(sample.metric.labels.iter().copied(), sample.labels.iter()).collect();
                let mut encoder = encoder.encode_family(&labels)?;
                match &sample.value {
                    Value::Counter(count) => encoder.encode_counter::<NoLabelSet, _, f64>(count, None)?,
                    Value::Gauge(value) => encoder.encode_gauge(value)?,
                    Value::Histogram(distribution) => {
                        let buckets: Vec<_> = distribution.buckets().collect();
                        let (sum, count) = (distribution.sum(), distribution.count());
                        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}
