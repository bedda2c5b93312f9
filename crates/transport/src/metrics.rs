//! Metrics of connections, with the same names as in client-go.

use std::sync::{Arc, OnceLock};

use pintle_metrics::{Histogram, Metric, MetricKind, Provider};
use tokio::time::Instant;

static RESOLVED: Metric = Metric {
    name: "rest_client_dns_resolution_duration_seconds",
    help: "How long it took to look up the addresses of a host",
    kind: MetricKind::Histogram(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]),
    labels: &["host"],
};

/// Measures the DNS lookups of one host, which is either the server or its proxy.
#[derive(Debug)]
pub(crate) struct LookUps {
    provider: Arc<dyn Provider>,
    host: String,
    /// Created at the first DNS lookup, because a client that connects to an IP address does not need this histogram.
    resolved: OnceLock<Box<dyn Histogram>>,
}

impl LookUps {
    pub(crate) fn new(provider: Arc<dyn Provider>, host: String) -> Self {
        Self { provider, host, resolved: OnceLock::new() }
    }

    /// Measures the duration of a DNS lookup until the returned `LookUp` is dropped. Cancelled lookups are measured,
    /// too.
    pub(crate) fn start(&self) -> LookUp<'_> {
        LookUp { all: self, start: Instant::now() }
    }
}

pub(crate) struct LookUp<'a> {
    all: &'a LookUps,
    start: Instant,
}

impl Drop for LookUp<'_> {
    fn drop(&mut self) {
        let LookUps { provider, host, resolved } = self.all;
        if resolved.get().is_none() {
            // Create the histogram outside of the cell, so that no other thread has to wait for the provider. If two
            // threads create a histogram at the same time, the cell keeps only one of them.
            let made = provider.histogram(&RESOLVED, &[host]);
            drop(resolved.set(made));
        }
        if let Some(resolved) = resolved.get() {
            resolved.observe(self.start.elapsed().as_secs_f64());
        }
    }
}
