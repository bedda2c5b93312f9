//! A log recorder that stores each event as a line, and formats all fields like a real subscriber. The tests of
//! other crates also include this module.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Records all events on this thread until the guard is dropped.
    pub(crate) fn here() -> (Self, DefaultGuard) {
        // The `tracing` crate caches for each call site whether its events are enabled. If the process has only one
        // subscriber, the first thread that reaches the call site determines the cached value. If this thread has no
        // subscriber, the events are disabled on all threads. A second subscriber prevents this caching.
        static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Log::default()));
        LazyLock::force(&ANOTHER);
        let log = Self::default();
        let guard = set_default(log.clone());
        (log, guard)
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }

    #[track_caller]
    pub(crate) fn assert_tells(&self, parts: &[&str]) {
        let lines = self.0.lock().unwrap();
        assert!(lines.iter().any(|line| parts.iter().all(|part| line.contains(part))), "{parts:?} not in {lines:#?}");
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
