//! A metrics provider whose instruments panic, to test that panics in metrics do no harm.

use std::any::Any;

use pintle_metrics::{Counter, Gauge, Histogram, Metric, Provider, Pulled};

/// A metrics provider for tests, whose instruments panic when they are used or dropped.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use pintle_metrics::{CatchPanic, Metric, MetricKind, Provider};
/// use pintle_testing::PanickingProvider;
///
/// static SENT: Metric = Metric { name: "mails_sent_total", help: "Sent mails", kind: MetricKind::Counter, labels: &[] };
///
/// let provider = CatchPanic::new(Arc::new(PanickingProvider), |_| {});
/// provider.counter(&SENT, &[]).add(1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PanickingProvider;

impl Provider for PanickingProvider {
    fn counter(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Counter> {
        Box::new(Bad)
    }

    fn gauge(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Gauge> {
        Box::new(Bad)
    }

    fn histogram(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Histogram> {
        Box::new(Bad)
    }

    fn pulled(&self, _: &'static Metric, _: &[&str], _: Pulled) -> Box<dyn Any + Send + Sync> {
        Box::new(Bad)
    }
}

#[derive(Debug)]
struct Bad;

impl Counter for Bad {
    fn add(&self, _: u64) {
        panic!("no counter")
    }
}

impl Gauge for Bad {
    fn add(&self, _: i64) {
        panic!("no gauge")
    }
}

impl Histogram for Bad {
    fn observe(&self, _: f64) {
        panic!("no histogram")
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        panic!("no end")
    }
}
