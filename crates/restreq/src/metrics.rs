//! The metrics of the client, which have the same names as in client-go.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use pintle_metrics::{CatchPanic, Counter, Histogram, Metric, MetricKind, Provider};
use tokio::time::Instant;

const SECONDS: MetricKind =
    MetricKind::Histogram(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);

static REQUESTS: Metric = Metric {
    name: "rest_client_requests_total",
    help: "Requests that were sent; each attempt counts",
    kind: MetricKind::Counter,
    labels: &["code", "method", "host"],
};
static RETRIES: Metric = Metric {
    name: "rest_client_request_retries_total",
    help: "Attempts after the first of a request",
    kind: MetricKind::Counter,
    labels: &["code", "verb", "host"],
};
static DURATION: Metric = Metric {
    name: "rest_client_request_duration_seconds",
    help: "How long a request took, including all attempts",
    kind: SECONDS,
    labels: &["verb", "host"],
};
static THROTTLED: Metric = Metric {
    name: "rest_client_rate_limiter_duration_seconds",
    help: "How long a request waited for the rate limit of the client",
    kind: SECONDS,
    labels: &["verb", "host"],
};

/// The buckets of the size histograms in bytes, as in client-go.
const BYTES: MetricKind = MetricKind::Histogram(&[
    64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0,
]);

static REQUEST_SIZE: Metric = Metric {
    name: "rest_client_request_size_bytes",
    help: "Size of the request body of each attempt",
    kind: BYTES,
    labels: &["verb", "host"],
};
static RESPONSE_SIZE: Metric = Metric {
    name: "rest_client_response_size_bytes",
    help: "Size of response bodies that were read completely",
    kind: BYTES,
    labels: &["verb", "host"],
};

static PROGRAM_RUNS: Metric = Metric {
    name: "rest_client_exec_plugin_call_total",
    help: "Runs of the credential plugin, by exit code and outcome",
    kind: MetricKind::Counter,
    labels: &["code", "call_status"],
};
static PROGRAM_POLICY: Metric = Metric {
    name: "rest_client_exec_plugin_policy_call_total",
    help: "How often the credential plugin was allowed or denied by the policy",
    kind: MetricKind::Counter,
    labels: &["status"],
};
static CERTIFICATE_AGE: Metric = Metric {
    name: "rest_client_exec_plugin_certificate_rotation_age",
    help: "How many seconds a certificate of the credential plugin was in use before it was replaced",
    // The buckets cover durations from minutes to months.
    kind: MetricKind::Histogram(&[
        600.0,
        1800.0,
        3600.0,
        14400.0,
        86400.0,
        604_800.0,
        2_592_000.0,
        7_776_000.0,
        15_552_000.0,
        31_104_000.0,
        124_416_000.0,
    ]),
    labels: &[],
};

#[derive(Debug)]
pub(crate) struct Instruments {
    provider: Arc<CatchPanic>,
    host: String,
    requests: Labelled<(Option<StatusCode>, Method), dyn Counter>,
    retries: Labelled<(Option<StatusCode>, Method), dyn Counter>,
    durations: Labelled<Method, dyn Histogram>,
    throttled: Labelled<Method, dyn Histogram>,
    request_sizes: Labelled<Method, dyn Histogram>,
    response_sizes: Labelled<Method, dyn Histogram>,
    program_runs: Labelled<(i32, &'static str), dyn Counter>,
    program_policy: Labelled<bool, dyn Counter>,
    certificate_ages: Labelled<(), dyn Histogram>,
}

impl Instruments {
    pub(crate) fn new(provider: Arc<dyn Provider>, host: String) -> Self {
        let provider = Arc::new(CatchPanic::new(provider, |panic| {
            tracing::error!(panic, "the metrics provider of a client panicked and is not called again");
        }));
        Self {
            provider,
            host,
            requests: Labelled::new(),
            retries: Labelled::new(),
            durations: Labelled::new(),
            throttled: Labelled::new(),
            request_sizes: Labelled::new(),
            response_sizes: Labelled::new(),
            program_runs: Labelled::new(),
            program_policy: Labelled::new(),
            certificate_ages: Labelled::new(),
        }
    }

    /// Returns the provider for the metrics of the transport. The returned provider catches panics.
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    /// Records the outcome of an attempt. `code` is `None` if there was no response.
    pub(crate) fn attempted(&self, method: &Method, code: Option<StatusCode>, is_retry: bool) {
        let count = |instruments: &Labelled<_, dyn Counter>, metric| {
            let make = || {
                let code = code.as_ref().map_or("<error>", StatusCode::as_str);
                self.provider.counter(metric, &[code, method.as_str(), &self.host])
            };
            instruments.of((code, method.clone()), make).add(1);
        };
        count(&self.requests, &REQUESTS);
        if is_retry {
            count(&self.retries, &RETRIES);
        }
    }

    pub(crate) fn throttled(&self, method: &Method, waited: Duration) {
        self.observe(&THROTTLED, &self.throttled, method, waited.as_secs_f64());
    }

    pub(crate) fn sent(&self, method: &Method, bytes: usize) {
        self.observe(&REQUEST_SIZE, &self.request_sizes, method, bytes as f64);
    }

    pub(crate) fn received(&self, method: &Method, bytes: usize) {
        self.observe(&RESPONSE_SIZE, &self.response_sizes, method, bytes as f64);
    }

    /// Records a run of the credential plugin, or a failure to start it.
    pub(crate) fn program_ran(&self, code: i32, how: &'static str) {
        let make = || self.provider.counter(&PROGRAM_RUNS, &[&code.to_string(), how]);
        self.program_runs.of((code, how), make).add(1);
    }

    pub(crate) fn program_judged(&self, is_allowed: bool) {
        let status = if is_allowed { "allowed" } else { "denied" };
        self.program_policy.of(is_allowed, || self.provider.counter(&PROGRAM_POLICY, &[status])).add(1);
    }

    pub(crate) fn certificate_replaced(&self, age: Duration) {
        let make = || self.provider.histogram(&CERTIFICATE_AGE, &[]);
        self.certificate_ages.of((), make).observe(age.as_secs_f64());
    }

    fn observe(&self, metric: &'static Metric, all: &Labelled<Method, dyn Histogram>, method: &Method, value: f64) {
        all.of(method.clone(), || self.provider.histogram(metric, &[method.as_str(), &self.host])).observe(value);
    }

    /// Measures the duration of a request until the returned guard is dropped.
    pub(crate) fn time(&self, method: Method) -> Timer<'_> {
        Timer { instruments: self, method, start: Instant::now() }
    }
}

pub(crate) struct Timer<'a> {
    instruments: &'a Instruments,
    method: Method,
    start: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let Self { instruments, method, start } = self;
        instruments.observe(&DURATION, &instruments.durations, method, start.elapsed().as_secs_f64());
    }
}

/// The instruments of a metric. Instruments are created when their labels are first used. The number of instruments is
/// small, because there are only a few methods and status codes.
struct Labelled<K, I: ?Sized>(Mutex<HashMap<K, Arc<I>>>);

impl<K: Eq + Hash, I: ?Sized> Labelled<K, I> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn of(&self, labels: K, make: impl FnOnce() -> Box<I>) -> Arc<I> {
        if let Some(instrument) = self.lock().get(&labels) {
            return Arc::clone(instrument);
        }
        // Do not hold the lock while instruments are created or dropped. If another thread has already inserted an
        // instrument, the new instrument is dropped.
        let made = Arc::from(make());
        let mut instruments = self.lock();
        Arc::clone(instruments.entry(labels).or_insert_with(|| Arc::clone(&made)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, Arc<I>>> {
        // A panic cannot leave the data inconsistent, so ignore lock poisoning.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, I: ?Sized> fmt::Debug for Labelled<K, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labelled").finish_non_exhaustive()
    }
}
