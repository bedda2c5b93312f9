//! Writes events of `events.k8s.io/v1`, whose repetitions become series.

use std::pin::pin;
use std::sync::Arc;

use pintle_meta::{ApiError, Object, ObjectApi, Patch, PostOptions};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{CoreSink, Retry, is_own, is_worth_a_retry, refused};
use crate::metrics::Counters;
use crate::series::Series;
use crate::{Event, SeriesEvent};

/// What the task of such a sink owns.
pub(crate) struct SeriesSink<A, B> {
    pub(crate) api: A,
    /// Takes over for good where the server turns out to lack the API.
    pub(crate) fallback: CoreSink<B>,
    pub(crate) series: Series,
    pub(crate) host: String,
    pub(crate) retry: Retry,
    pub(crate) counters: Arc<Counters>,
    /// Whether the server is known to have the API.
    pub(crate) is_there: bool,
}

/// The server lacks the API.
struct Lacking;

impl<A: ObjectApi<SeriesEvent>, B: ObjectApi<Event>> SeriesSink<A, B> {
    /// Writes one event after the other, and tells of series from time to time, until the broadcaster is gone and all is told.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Arc<Event>>) {
        let period = self.series.period();
        let mut tick = pin!(sleep(period));
        loop {
            let event = tokio::select! {
                biased;
                () = &mut tick => {
                    tick.set(sleep(period));
                    let now = Instant::now().into_std();
                    self.tell(self.series.due(now)).await;
                    self.series.forget(now);
                    continue;
                }
                event = events.recv() => event,
            };
            let Some(event) = event else { break };
            if let Err(Lacking) = self.record(&event).await {
                tracing::info!("the server has no events.k8s.io/v1; events are written as v1 from now on");
                self.fallback.record(Arc::unwrap_or_clone(event)).await;
                return self.fallback.run(events).await;
            }
        }
        self.tell(self.series.unwritten()).await;
    }

    async fn record(&mut self, event: &Event) -> Result<(), Lacking> {
        let observed = self.series.observe(SeriesEvent::of(event, &self.host), Instant::now().into_std());
        self.tell(observed.evicted.into_iter().collect()).await;
        let Some(event) = observed.write else {
            self.counters.counted.add(1);
            return Ok(());
        };
        let mut nth = 1;
        loop {
            let error = match self.write(&event).await {
                Err(error) if !self.is_there && lacks_api(&error) => return Err(Lacking),
                Err(error) if event.series.is_some() || !is_own(&error, nth) => error,
                Ok(()) | Err(_) => {
                    self.series.told(&event, Instant::now().into_std());
                    let is_series = event.series.is_some();
                    let tally = if is_series { &self.counters.patched } else { &self.counters.created };
                    tally.add(1);
                    return Ok(());
                }
            };
            let is_final = is_refusal(&event, &error);
            if is_final {
                self.series.told(&event, Instant::now().into_std());
            }
            if is_final || !self.retry.again(nth, &error).await {
                refused(&event.key(), &event.reason, &error);
                self.counters.failed.add(1);
                return Ok(());
            }
            nth += 1;
        }
    }

    /// Tells of series, each with one try: one that cannot be told now has its next time.
    async fn tell(&mut self, behind: Vec<SeriesEvent>) {
        for event in behind {
            match self.write(&event).await {
                Err(error) if !is_refusal(&event, &error) => tracing::debug!(%error, "cannot tell of a series yet"),
                outcome => {
                    if let Err(error) = outcome {
                        refused(&event.key(), &event.reason, &error);
                    }
                    self.series.told(&event, Instant::now().into_std());
                }
            }
        }
    }

    async fn write(&mut self, event: &SeriesEvent) -> Result<(), ApiError> {
        let options = PostOptions::default();
        if let Some(series) = &event.series {
            let patch = Patch::Merge(json!({"series": series}));
            match self.api.patch(&event.key(), &patch, &options).await {
                // The server forgets events after a while. This one begins anew, with the count that is known.
                Err(error) if error.is_not_found() => {}
                outcome => return outcome.map(drop),
            }
        }
        self.api.create(event, &options).await?;
        self.is_there = true;
        Ok(())
    }
}

/// Whether the server would say the same once more. That a series is there which a moment ago was not is no such answer: another
/// attempt had made it after all, and can be patched.
fn is_refusal(event: &SeriesEvent, error: &ApiError) -> bool {
    let is_there_now = event.series.is_some() && error.is_already_exists();
    !is_there_now && !is_worth_a_retry(error)
}

/// Whether it is the resource that was not found, and not the namespace.
fn lacks_api(error: &ApiError) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    error.is_not_found() && details.is_none_or(|details| details.kind != "namespaces")
}
