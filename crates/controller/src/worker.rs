//! What takes keys out of the queue and has them reconciled.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pintle_leaderelect::Leadership;
use pintle_meta::ObjectKey;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::WorkItem;
use tokio::time::Instant;
use tracing::Instrument;

use crate::metrics::{Metrics, Outcome};
use crate::reconciler::AnyReconciler;
use crate::requests::Queue;
use crate::{Action, ReconcileError, Request};

/// Takes keys and has them reconciled, one after the other, until the queue hands out no more.
pub(crate) struct Worker {
    pub(crate) controller: String,
    pub(crate) queue: Queue,
    pub(crate) reconciler: Arc<dyn AnyReconciler>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) leadership: Option<Leadership>,
}

/// What became of one call, as far as it came to an end.
enum Ended {
    Returned(Result<Action, ReconcileError>),
    Panicked(String),
    TimedOut(Duration),
}

impl Worker {
    pub(crate) async fn run(self) {
        while let Some(item) = self.queue.get().await {
            let span = tracing::info_span!("reconcile", controller = self.controller, key = %item.key());
            self.process(item).instrument(span).await;
            tokio::task::coop::consume_budget().await;
        }
    }

    async fn process(&self, item: WorkItem<ObjectKey, TokioClock>) {
        let _active = self.metrics.active();
        let start = Instant::now();
        let request =
            Request { key: item.key().clone(), failures: item.num_requeues(), leadership: self.leadership.clone() };
        let ended = match &self.leadership {
            None => self.call(request).await,
            Some(leadership) => match leadership.run(self.call(request)).await {
                Ok(ended) => ended,
                Err(lost) => {
                    tracing::info!(%lost, "the reconciliation was dropped");
                    return;
                }
            },
        };
        self.metrics.reconcile_time.record(start.elapsed());
        self.conclude(item, ended);
    }

    async fn call(&self, request: Request) -> Ended {
        let call = AssertUnwindSafe(self.reconciler.reconcile(request)).catch_unwind();
        let caught = match self.timeout {
            None => call.await,
            Some(timeout) => match tokio::time::timeout(timeout, call).await {
                Ok(caught) => caught,
                Err(_) => return Ended::TimedOut(timeout),
            },
        };
        match caught {
            Ok(result) => Ended::Returned(result),
            Err(panic) => Ended::Panicked(message(&*panic)),
        }
    }

    fn conclude(&self, item: WorkItem<ObjectKey, TokioClock>, ended: Ended) {
        let outcome = match ended {
            Ended::Returned(Ok(action)) => match action.delay() {
                None => {
                    item.forget();
                    return self.metrics.count(Outcome::Success);
                }
                Some(delay) => {
                    item.revisit_after(delay);
                    return self.metrics.count(Outcome::RequeueAfter);
                }
            },
            Ended::Returned(Err(error)) if error.is_terminal() => {
                tracing::error!(%error, "reconciliation failed, and will not be tried again before something changes");
                item.forget();
                return self.metrics.count(Outcome::Terminal);
            }
            Ended::Returned(Err(error)) => {
                tracing::warn!(%error, failures = item.num_requeues() + 1, "reconciliation failed");
                Outcome::Error
            }
            Ended::Panicked(panic) => {
                tracing::error!(panic, "the reconciler panicked");
                Outcome::Panic
            }
            Ended::TimedOut(timeout) => {
                tracing::warn!(?timeout, "reconciliation took too long");
                Outcome::Timeout
            }
        };
        self.metrics.count(outcome);
        self.metrics.retried();
        item.retry();
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".into())
}
