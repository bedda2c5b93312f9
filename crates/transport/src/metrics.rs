//! The metrics of connections. The metric names are the same as in client-go.

use std::sync::{Arc, OnceLock};

use pintle_metrics::{Histogram, Metric, MetricKind, Provider};
use tokio::time::Instant;

static RESOLVED: Metric = Metric {
    name: "rest_client_dns_resolution_duration_seconds",
    help: "How long it took to look up the addresses of a host",
    kind: MetricKind::Histogram(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]),
    labels: &["host"],
};

/// Measures the DNS lookups of one host: the server, or the proxy in front of the server.
#[derive(Debug)]
pub(crate) struct LookUps {
    provider: Arc<dyn Provider>,
    host: String,
    /// The histogram for the lookups. The first lookup creates the histogram. An IP address needs no lookup, so it gets no histogram.
    resolved: OnceLock<Box<dyn Histogram>>,
}

impl LookUps {
    pub(crate) fn new(provider: Arc<dyn Provider>, host: String) -> Self {
        Self { provider, host, resolved: OnceLock::new() }
    }

    /// Measures a lookup until the returned guard is dropped. A cancelled lookup is measured, too.
    pub(crate) fn start(&self) -> LookUp<'_> {
        LookUp { all: self, start: Instant::now() }
    }
}

/// Measures the duration of a DNS lookup.
pub(crate) struct LookUp<'a> {
    all: &'a LookUps,
    start: Instant,
}

impl Drop for LookUp<'_> {
    fn drop(&mut self) {
        let LookUps { provider, host, resolved } = self.all;
        if resolved.get().is_none() {
            // Call the provider while no other thread waits for the cell. If another thread sets the cell first, the histogram of that
            // thread is used.
            let made = provider.histogram(&RESOLVED, &[host]);
            drop(resolved.set(made));
        }
        if let Some(resolved) = resolved.get() {
            resolved.observe(self.start.elapsed().as_secs_f64());
        }
    }
}
