//! Discards the logs of disturbed runs.

use tracing::dispatcher::get_default;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that discards all log events. [`NoSubscriber`] is not sufficient, because the operator would then print
/// its first error to stderr.
struct Quiet;

/// Discards the logs of the current thread until the guard is dropped. Does nothing if the program has installed a
/// subscriber.
pub(super) fn discard_logs() -> Option<DefaultGuard> {
    get_default(|current| current.is::<NoSubscriber>()).then(|| set_default(Quiet))
}

impl Subscriber for Quiet {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
