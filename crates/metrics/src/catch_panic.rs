//! A wrapper that catches the panics of a metrics provider.

use std::any::Any;
use std::fmt;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::provider::{Counter, Gauge, Histogram, Metric, Provider, Pulled};

/// Wraps a metrics provider and catches its panics. A panic disables only the metrics, and the component continues to
/// work.
///
/// When the provider or one of its instruments panics for the first time, the wrapper reports the panic. After that,
/// the wrapper no longer calls the provider or its instruments. The wrapper catches panics when an instrument is
/// created, used or dropped. A component needs this wrapper if it uses instruments in a `Drop` implementation, because
/// a second panic during unwinding would abort the process.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use pintle_metrics::{CatchPanic, InMemoryProvider, Metric, MetricKind, Provider};
///
/// static SENT: Metric = Metric { name: "mails_sent_total", help: "Sent mails", kind: MetricKind::Counter, labels: &["host"] };
///
/// let memory = InMemoryProvider::new();
/// let provider = CatchPanic::new(Arc::new(memory.clone()), |panic| eprintln!("no more metrics: {panic}"));
/// provider.counter(&SENT, &["here"]).add(1);
/// // The metric has one label, not two, so the provider panics. The returned counter does nothing.
/// provider.counter(&SENT, &["here", "there"]).add(1);
/// assert!(memory.samples().is_empty());
/// ```
#[derive(Debug)]
pub struct CatchPanic(Caught<Arc<dyn Provider>>);

impl CatchPanic {
    /// Wraps `provider`. `report` is called with the message of the first panic.
    pub fn new(provider: Arc<dyn Provider>, report: fn(&str)) -> Self {
        let fuse = Arc::new(Fuse { is_blown: AtomicBool::new(false), report });
        Self(Caught { of: Some(provider), fuse })
    }

    fn make<T>(&self, make: impl FnOnce(&dyn Provider) -> T) -> Caught<T> {
        Caught { of: self.0.call(|provider| make(&**provider)), fuse: self.0.fuse.clone() }
    }
}

impl Provider for CatchPanic {
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
        Box::new(self.make(|provider| provider.counter(metric, labels)))
    }

    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
        Box::new(self.make(|provider| provider.gauge(metric, labels)))
    }

    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
        Box::new(self.make(|provider| provider.histogram(metric, labels)))
    }

    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
        Box::new(self.make(|provider| provider.pulled(metric, labels, read)))
    }
}

/// A provider or an instrument whose panics are caught. The value is `None` if the creation of the instrument panicked.
struct Caught<T> {
    of: Option<T>,
    fuse: Arc<Fuse>,
}

impl<T> Caught<T> {
    fn call<R>(&self, call: impl FnOnce(&T) -> R) -> Option<R> {
        let of = self.of.as_ref().filter(|_| !self.fuse.is_blown.load(Ordering::Relaxed))?;
        self.fuse.catch(|| call(of))
    }
}

impl Counter for Caught<Box<dyn Counter>> {
    fn add(&self, events: u64) {
        self.call(|counter| counter.add(events));
    }
}

impl Gauge for Caught<Box<dyn Gauge>> {
    fn add(&self, change: i64) {
        self.call(|gauge| gauge.add(change));
    }
}

impl Histogram for Caught<Box<dyn Histogram>> {
    fn observe(&self, value: f64) {
        self.call(|histogram| histogram.observe(value));
    }
}

impl<T> Drop for Caught<T> {
    fn drop(&mut self) {
        let of = self.of.take();
        self.fuse.catch(|| drop(of));
    }
}

impl<T: fmt::Debug> fmt::Debug for Caught<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.fmt(f)
    }
}

/// Catches panics, reports the first panic, and then disables all instruments.
struct Fuse {
    is_blown: AtomicBool,
    report: fn(&str),
}

impl Fuse {
    fn catch<R>(&self, part: impl FnOnce() -> R) -> Option<R> {
        let panic = match catch_unwind(AssertUnwindSafe(part)) {
            Ok(done) => return Some(done),
            Err(panic) => panic,
        };
        if !self.is_blown.swap(true, Ordering::Relaxed) {
            let text = panic.downcast_ref::<&str>().copied();
            (self.report)(text.or(panic.downcast_ref::<String>().map(|text| &**text)).unwrap_or("(no message)"));
        }
        // Dropping the payload of a panic can cause a second panic. The payload of the second panic could also panic
        // when it is dropped, so this code forgets the second payload.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            forget(again);
        }
        None
    }
}
