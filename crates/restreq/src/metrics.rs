//! The metrics of the client, which have the same names as in client-go.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use pintle_meta::__private::Mutex;
use pintle_metrics::{CatchPanic, Counter, Histogram, Metric, MetricKind, Provider};
use tokio::time::Instant;

const SECONDS: MetricKind =
    MetricKind::Histogram(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);

static REQUESTS: Metric = Metric::counter(
    "rest_client_requests_total",
    "Requests that were sent; each attempt counts",
    &["code", "method", "host"],
);
static RETRIES: Metric = Metric::counter(
    "rest_client_request_retries_total",
    "Attempts after the first of a request",
    &["code", "verb", "host"],
);
static DURATION: Metric =
    by_verb(SECONDS, "rest_client_request_duration_seconds", "How long a request took, including all attempts");
static THROTTLED: Metric = by_verb(
    SECONDS,
    "rest_client_rate_limiter_duration_seconds",
    "How long a request waited for the rate limit of the client",
);

const BYTES: MetricKind = MetricKind::Histogram(&[
    64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0,
]);

static REQUEST_SIZE: Metric =
    by_verb(BYTES, "rest_client_request_size_bytes", "Size of the request body of each attempt");
static RESPONSE_SIZE: Metric =
    by_verb(BYTES, "rest_client_response_size_bytes", "Size of response bodies that were read completely");

static PROGRAM_RUNS: Metric = Metric::counter(
    "rest_client_exec_plugin_call_total",
    "Runs of the credential plugin, by exit code and outcome",
    &["code", "call_status"],
);
static PROGRAM_POLICY: Metric = Metric::counter(
    "rest_client_exec_plugin_policy_call_total",
    "How often the credential plugin was allowed or denied by the policy",
    &["status"],
);
static CERTIFICATE_AGE: Metric = Metric {
    name: "rest_client_exec_plugin_certificate_rotation_age",
    help: "How many seconds a certificate of the credential plugin was in use before it was replaced",
    // Use buckets from minutes to months.
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

const fn by_verb(kind: MetricKind, name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind, labels: &["verb", "host"] }
}

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

    /// Measures the duration of a request until the returned `Timer` is dropped.
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

/// The instruments of a metric, one for each combination of labels. An instrument is created when its labels are first
/// used. The number of instruments is small, because there are only a few methods and status codes.
struct Labelled<K, I: ?Sized>(Mutex<HashMap<K, Arc<I>>>);

impl<K: Eq + Hash, I: ?Sized> Labelled<K, I> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn of(&self, labels: K, make: impl FnOnce() -> Box<I>) -> Arc<I> {
        if let Some(instrument) = self.0.lock().get(&labels) {
            return Arc::clone(instrument);
        }
        // Do not hold the lock while instruments are created or dropped. If another thread has already inserted an
        // instrument, the new instrument is dropped.
        let made = Arc::from(make());
        let mut instruments = self.0.lock();
        Arc::clone(instruments.entry(labels).or_insert_with(|| Arc::clone(&made)))
    }
}

impl<K, I: ?Sized> fmt::Debug for Labelled<K, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labelled").finish_non_exhaustive()
    }
}
