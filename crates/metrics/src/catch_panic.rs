//! Catches panics of a metrics provider.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::panic::catch;
use crate::provider::{Counter, Gauge, Histogram, Metric, Provider, Pulled};

/// Wraps a metrics provider and catches its panics. A panic of the provider then stops only the metrics, and the component
/// keeps working.
///
/// After the first panic, `CatchPanic` reports the panic message, and no longer calls the provider and its instruments, except
/// to drop them. `CatchPanic` catches panics when instruments are created, used and dropped.
///
/// A component that uses instruments in a `Drop` implementation needs this wrapper, because a second panic during
/// unwinding aborts the process.
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
/// let sent = provider.counter(&SENT, &["here"]);
/// sent.add(1);
/// // The metric has one label, not two, so the provider panics. From now on, no call has an effect.
/// provider.counter(&SENT, &["here", "there"]).add(1);
/// sent.add(1);
/// assert_eq!(memory.value("mails_sent_total", &[]), Some(1.0));
/// ```
#[derive(Debug)]
pub struct CatchPanic(Guarded<Arc<dyn Provider>>);

impl CatchPanic {
    /// Wraps `provider`. On the first panic, `CatchPanic` calls `report` with the panic message.
    pub fn new(provider: Arc<dyn Provider>, report: fn(&str)) -> Self {
        let fuse = Arc::new(Fuse { is_blown: AtomicBool::new(false), report });
        Self(Guarded { inner: Some(provider), fuse })
    }

    fn create<T>(&self, create_inner: impl FnOnce(&dyn Provider) -> T) -> Guarded<T> {
        Guarded { inner: self.0.with_inner(|provider| create_inner(&**provider)), fuse: self.0.fuse.clone() }
    }
}

impl Provider for CatchPanic {
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
        Box::new(self.create(|provider| provider.counter(metric, labels)))
    }

    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
        Box::new(self.create(|provider| provider.gauge(metric, labels)))
    }

    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
        Box::new(self.create(|provider| provider.histogram(metric, labels)))
    }

    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
        Box::new(self.create(|provider| provider.pulled(metric, labels, read)))
    }
}

/// A provider or an instrument whose panics are caught. The value is `None` if the creation of the instrument or an earlier
/// call has panicked.
struct Guarded<T> {
    inner: Option<T>,
    fuse: Arc<Fuse>,
}

impl<T> Guarded<T> {
    /// Calls `use_inner`, unless an earlier call has panicked.
    fn with_inner<R>(&self, use_inner: impl FnOnce(&T) -> R) -> Option<R> {
        let inner = self.inner.as_ref().filter(|_| !self.fuse.is_blown.load(Ordering::Relaxed))?;
        self.fuse.catch(|| use_inner(inner))
    }
}

impl Counter for Guarded<Box<dyn Counter>> {
    fn add(&self, events: u64) {
        self.with_inner(|counter| counter.add(events));
    }
}

impl Gauge for Guarded<Box<dyn Gauge>> {
    fn add(&self, change: i64) {
        self.with_inner(|gauge| gauge.add(change));
    }
}

impl Histogram for Guarded<Box<dyn Histogram>> {
    fn observe(&self, value: f64) {
        self.with_inner(|histogram| histogram.observe(value));
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let inner = self.inner.take();
        self.fuse.catch(|| drop(inner));
    }
}

impl<T: fmt::Debug> fmt::Debug for Guarded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// State shared by a provider and its instruments, which disables the provider and the instruments after the first panic.
struct Fuse {
    is_blown: AtomicBool,
    report: fn(&str),
}

impl Fuse {
    fn catch<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        let report = |panic: String| {
            if !self.is_blown.swap(true, Ordering::Relaxed) {
                (self.report)(&panic);
            }
        };
        catch(run).map_err(report).ok()
    }
}
