//! The sink for `events.k8s.io/v1` events, which writes repetitions as series.

use std::pin::pin;
use std::sync::Arc;

use pintle_meta::{ApiError, Object, ObjectApi, Patch, WriteOptions};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{CoreSink, Retry, is_own, is_retryable, isolated, log_rejected};
use crate::event::Event;
use crate::metrics::Counters;
use crate::series::Series;
use crate::series_event::SeriesEvent;

pub(crate) struct SeriesSink<A, B> {
    pub(crate) api: A,
    pub(crate) fallback: CoreSink<B>,
    pub(crate) series: Series,
    pub(crate) host: String,
    pub(crate) retry: Retry,
    pub(crate) counters: Arc<Counters>,
    /// Whether a request has succeeded, which proves that the server supports the `events.k8s.io/v1` API.
    pub(crate) api_confirmed: bool,
}

/// The response body of kube-apiserver for unknown paths, which is not a `Status`.
const NO_SUCH_PATH: &str = "404 page not found";

struct ApiMissing;

impl<A: ObjectApi<SeriesEvent>, B: ObjectApi<Event>> SeriesSink<A, B> {
    /// Writes events one by one, and updates the series at regular intervals. After the broadcaster was dropped,
    /// writes the remaining events and series and returns.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Arc<Event>>) {
        let period = self.series.period();
        let mut tick = pin!(sleep(period));
        loop {
            let event = tokio::select! {
                biased;
                () = &mut tick => {
                    tick.set(sleep(period));
                    let now = Instant::now().into_std();
                    self.write_series(self.series.due(now)).await;
                    self.series.forget(now);
                    continue;
                }
                event = events.recv() => event,
            };
            let Some(event) = event else { break };
            if let Err(ApiMissing) = self.record(&event).await {
                tracing::info!("the server has no events.k8s.io/v1; events are written as v1 from now on");
                self.fallback.record(Arc::unwrap_or_clone(event)).await;
                return self.fallback.run(events).await;
            }
        }
        self.write_series(self.series.unwritten()).await;
    }

    async fn record(&mut self, event: &Event) -> Result<(), ApiMissing> {
        let update = self.series.observe(SeriesEvent::of(event, &self.host), Instant::now().into_std());
        self.write_series(update.evicted.into_iter().collect()).await;
        let Some(event) = update.write else {
            self.counters.counted.add(1);
            return Ok(());
        };
        let mut nth = 1;
        loop {
            let error = match isolated(self.write(&event)).await {
                Err(error) if !self.api_confirmed && lacks_api(&error) => return Err(ApiMissing),
                Err(error) if event.series.is_some() || !is_own(&error, nth) => error,
                Ok(()) | Err(_) => {
                    self.series.mark_written(&event, Instant::now().into_std());
                    let is_series = event.series.is_some();
                    let counter = if is_series { &self.counters.patched } else { &self.counters.created };
                    counter.add(1);
                    return Ok(());
                }
            };
            let is_final = is_rejection(&event, &error);
            if is_final {
                self.series.mark_written(&event, Instant::now().into_std());
            }
            if is_final || !self.retry.wait_before_retry(nth, &error).await {
                log_rejected(&event.key(), &event.reason, &error);
                self.counters.failed.add(1);
                return Ok(());
            }
            nth += 1;
        }
    }

    /// Attempts to write each of these series once. If a write fails, the sink retries it when the series is next due.
    async fn write_series(&mut self, unwritten: Vec<SeriesEvent>) {
        for event in unwritten {
            match isolated(self.write(&event)).await {
                Err(error) if !is_rejection(&event, &error) => {
                    tracing::debug!(%error, "cannot write an event series yet")
                }
                outcome => {
                    if let Err(error) = outcome {
                        log_rejected(&event.key(), &event.reason, &error);
                    }
                    self.series.mark_written(&event, Instant::now().into_std());
                }
            }
        }
    }

    async fn write(&mut self, event: &SeriesEvent) -> Result<(), ApiError> {
        let options = WriteOptions::default();
        if let Some(series) = &event.series {
            let patch = Patch::Merge(json!({"series": series}));
            match self.api.patch(&event.key(), &patch, &options).await {
                // The server has already deleted the event, so create it again with its current count.
                Err(error) if error.is_object_not_found() => {}
                outcome => return outcome.map(drop),
            }
        }
        self.api.create(event, &options).await?;
        self.api_confirmed = true;
        Ok(())
    }
}

/// Returns `true` if the server rejected the event, so that a retry would fail again. For a series, the error "already
/// exists" does not count, because the sink can patch the existing event.
fn is_rejection(event: &SeriesEvent, error: &ApiError) -> bool {
    let is_there_now = event.series.is_some() && error.is_already_exists();
    !is_there_now && !is_retryable(error)
}

/// Returns `true` if the error means that the server does not support the `events.k8s.io/v1` API. Returns `false` for
/// a missing namespace and for a proxy's error page. kube-apiserver's error page has the text [`NO_SUCH_PATH`].
fn lacks_api(error: &ApiError) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    let is_from_server = details.is_none_or(|details| {
        details.kind != "namespaces"
            && (!error.is_unexpected_server_error() || details.causes.iter().any(|cause| cause.message == NO_SUCH_PATH))
    });
    error.is_not_found() && is_from_server
}
