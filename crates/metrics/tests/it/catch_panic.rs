//! Tests that a panic of the provider affects only the metrics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex};

use pintle_metrics::{CatchPanic, Counter, Gauge, Histogram, InMemoryProvider, Metric, MetricKind, Provider, Pulled};

static COUNTER: Metric = Metric { name: "a_total", help: "A", kind: MetricKind::Counter, labels: &[] };
static GAUGE: Metric = Metric { name: "b", help: "B", kind: MetricKind::Gauge, labels: &[] };
static HISTOGRAM: Metric = Metric { name: "c", help: "C", kind: MetricKind::Histogram(&[]), labels: &[] };

/// The operation during which the test provider panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Made,
    Used,
    Dropped,
    /// Using an instrument panics, and then dropping the payload of this panic panics.
    Twice,
}

/// A provider that records all calls, and panics during the operation `when`.
#[derive(Clone, Debug)]
struct Bad {
    when: When,
    calls: Arc<Mutex<Vec<When>>>,
}

impl Bad {
    fn at(&self, when: When) {
        self.calls.lock().unwrap().push(when);
        assert!(self.when != when, "on purpose");
        if self.when == When::Twice && when == When::Used {
            panic_any(self.clone());
        }
    }

    fn made(&self) -> Box<Self> {
        self.at(When::Made);
        Box::new(self.clone())
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        self.at(When::Dropped);
        assert!(self.when != When::Twice, "on purpose");
    }
}

impl Counter for Bad {
    fn add(&self, _: u64) {
        self.at(When::Used);
    }
}

impl Gauge for Bad {
    fn add(&self, _: i64) {
        self.at(When::Used);
    }
}

impl Histogram for Bad {
    fn observe(&self, _: f64) {
        self.at(When::Used);
    }
}

impl Provider for Bad {
    fn counter(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Counter> {
        self.made()
    }

    fn gauge(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Gauge> {
        self.made()
    }

    fn histogram(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Histogram> {
        self.made()
    }

    fn pulled(&self, _: &'static Metric, _: &[&str], _: Pulled) -> Box<dyn Any + Send + Sync> {
        self.made()
    }
}

#[test]
fn calls_reach_the_wrapped_provider() {
    let memory = InMemoryProvider::new();
    let provider = CatchPanic::new(Arc::new(memory.clone()), |panic| panic!("{panic}"));
    let (counter, gauge) = (provider.counter(&COUNTER, &[]), provider.gauge(&GAUGE, &[]));
    let histogram = provider.histogram(&HISTOGRAM, &[]);
    let pulled = provider.pulled(&GAUGE, &[], Box::new(|| 5.0));
    counter.add(2);
    gauge.add(-3);
    histogram.observe(4.0);
    assert_eq!((memory.value("a_total", &[]), memory.value("b", &[])), (Some(2.0), Some(2.0)));
    assert_eq!(memory.distribution("c", &[]).map(|values| values.sum()), Some(4.0));
    drop((counter, gauge, histogram, pulled));
    assert!(memory.samples().is_empty());
}

#[test]
fn provider_panic_is_reported_once_and_contained() {
    static REPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    for when in [When::Made, When::Used, When::Dropped, When::Twice] {
        let calls = Arc::default();
        let bad = Bad { when, calls: Arc::clone(&calls) };
        let provider = CatchPanic::new(Arc::new(bad), |panic| REPORTS.lock().unwrap().push(panic.into()));
        let (counter, gauge) = (provider.counter(&COUNTER, &[]), provider.gauge(&GAUGE, &[]));
        let histogram = provider.histogram(&HISTOGRAM, &[]);
        let pulled = provider.pulled(&GAUGE, &[], Box::new(|| 0.0));
        for _ in 0..2 {
            counter.add(1);
            gauge.add(1);
            histogram.observe(1.0);
        }
        drop((counter, gauge, histogram, pulled));
        drop(provider);
        let reported = if when == When::Twice { "(no message)" } else { "on purpose" };
        assert_eq!(*std::mem::take(&mut *REPORTS.lock().unwrap()), [reported], "{when:?}");
        let called = |of| calls.lock().unwrap().iter().filter(|call| **call == of).count();
        let expected = match when {
            When::Made => (1, 0),
            When::Used | When::Twice => (4, 1),
            When::Dropped => (4, 6),
        };
        assert_eq!((called(When::Made), called(When::Used)), expected, "{when:?}");
    }
}

#[test]
fn provider_panic_during_unwinding_does_not_abort() {
    struct AddOnDrop(Box<dyn Counter>);
    impl Drop for AddOnDrop {
        fn drop(&mut self) {
            self.0.add(1);
        }
    }
    let provider = CatchPanic::new(Arc::new(Bad { when: When::Used, calls: Arc::default() }), |_| {});
    let counter = AddOnDrop(provider.counter(&COUNTER, &[]));
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _guard = counter;
        panic!("the first")
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"the first"));
}
