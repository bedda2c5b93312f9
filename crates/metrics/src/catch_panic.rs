//! A wrapper that catches a metrics provider's panics.

use std::any::Any;
use std::fmt;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::provider::{Counter, Gauge, Histogram, Metric, Provider, Pulled};

/// Wraps a metrics provider and catches its panics. A panic disables only the metrics. The component keeps working.
///
/// After the first panic, `CatchPanic` reports the panic's message, and no longer calls the provider or its instruments. `CatchPanic`
/// catches panics while creating, using and dropping instruments.
///
/// A component that uses instruments in a `Drop` implementation needs this wrapper, because a second panic during unwinding aborts the
/// process.
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
    /// Wraps `provider`. Calls `report` with the first panic's message.
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

/// `of` is `None` if creating the instrument panicked.
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

/// The shared state of a provider and its instruments. After the first panic, all of them are disabled.
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
        // Dropping a panic's payload can panic. The payload of that second panic could panic on drop too, so forget that payload.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            forget(again);
        }
        None
    }
}
