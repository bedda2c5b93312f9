//! The sink for `v1` events. The sink counts repetitions, combines similar events, and limits the rate of
//! events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pintle_meta::{ApiError, Object, ObjectApi, ObjectKey, Patch, WriteOptions};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Retry, is_own, is_retryable, isolated, log_rejected};
use crate::correlator::{Correlated, Correlator, Verdict};
use crate::event::Event;
use crate::metrics::Counters;

pub(crate) struct CoreSink<A> {
    pub(crate) api: A,
    pub(crate) correlator: Correlator,
    pub(crate) retry: Retry,
    pub(crate) counters: Arc<Counters>,
}

impl<A: ObjectApi<Event>> CoreSink<A> {
    /// Writes events one by one. After the broadcaster was dropped, writes the remaining events and returns.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Arc<Event>>) {
        while let Some(event) = events.recv().await {
            self.record(Arc::unwrap_or_clone(event)).await;
        }
    }

    pub(crate) async fn record(&mut self, event: Event) {
        let (key, reason) = (event.key(), event.reason.clone());
        // If the user's `spam_key` panics, lose only this event.
        let correlated = || self.correlator.correlate(event, Instant::now().into_std());
        let Ok(verdict) = catch_unwind(AssertUnwindSafe(correlated)) else {
            tracing::error!(%key, reason, "the spam key of an event panicked");
            return self.counters.failed.add(1);
        };
        let (correlated, patch) = match verdict {
            Verdict::Skip => return self.counters.spam.add(1),
            Verdict::Create(correlated) => (correlated, None),
            Verdict::Patch(correlated, key, patch) => (correlated, Some((key, Patch::Merge(patch)))),
        };
        let mut nth = 1;
        loop {
            let error = match isolated(self.write(&correlated, patch.as_ref())).await {
                Ok(stored) => return self.record_write(&correlated, &stored, patch.is_some()),
                Err(error) if patch.is_none() && is_own(&error, nth) => {
                    return self.record_write(&correlated, &correlated.event, false);
                }
                Err(error) => error,
            };
            if !is_retryable(&error) || !self.retry.wait_before_retry(nth, &error).await {
                log_rejected(&correlated.event.key(), &correlated.event.reason, &error);
                return self.counters.failed.add(1);
            }
            nth += 1;
        }
    }

    async fn write(&self, correlated: &Correlated, patch: Option<&(ObjectKey, Patch)>) -> Result<Event, ApiError> {
        let options = WriteOptions::default();
        if let Some((key, patch)) = patch {
            match self.api.patch(key, patch, &options).await {
                // The server has already deleted the event, so create it again with its current count.
                Err(error) if error.is_object_not_found() => {}
                outcome => return outcome,
            }
        }
        let mut event = correlated.event.clone();
        event.metadata.resource_version.clear();
        self.api.create(&event, &options).await
    }

    fn record_write(&mut self, correlated: &Correlated, stored: &Event, patched: bool) {
        self.correlator.stored(correlated, stored);
        if correlated.is_combined {
            self.counters.combined.add(1);
        }
        let tally = if patched { &self.counters.patched } else { &self.counters.created };
        tally.add(1);
    }
}
