//! The manager's controllers that run only on the leader.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use pintle_leaderelect::Leadership;
use tokio::time::timeout;

use super::any::AnyController;
use super::ending::Ending;
use crate::blocking::Watched;
use crate::error::ControllerError;
use crate::panic::{catch, caught};
use crate::stop::Stop;

/// The time for which a new leadership term of a shard waits for the previous term's reconciliations. The manager also
/// waits at least this long before it fails because of blocked reconciliations.
pub(super) const SETTLED: Duration = Duration::from_secs(1);

/// A manager's controllers. All controllers run in the future of [`work`](Self::work), and dropping this future stops
/// them.
pub(super) struct Team {
    controllers: Vec<Arc<dyn AnyController>>,
    pub(super) stop: Stop,
    ending: Arc<Ending>,
}

impl Team {
    pub(super) fn new(controllers: Vec<Arc<dyn AnyController>>, stop: Stop, ending: Arc<Ending>) -> Self {
        Self { controllers, stop, ending }
    }

    pub(super) fn warm_up(&self) {
        for controller in &self.controllers {
            if let Err(panic) = catch(|| controller.warm_up()) {
                self.fail(controller.panicked("a source that was to warm up", panic));
            }
        }
    }

    /// Runs all controllers until a stop is requested or the leadership term ends. If a controller fails, it requests a
    /// stop.
    pub(super) async fn work(&self, leadership: Option<&Leadership>) {
        if self.controllers.is_empty() {
            // Without controllers, only wait for the stop request or the end of the term.
            return self.stop.requested_or_term_ended(leadership).await;
        }
        join_all(self.controllers.iter().map(|controller| self.run(&**controller, leadership))).await;
    }

    /// Waits until all reconciliations of earlier leadership terms have ended, like [`keep_term`](Self::keep_term).
    pub(super) async fn settle_all(&self) {
        join_all(self.controllers.iter().map(|controller| self.keep_term(&**controller))).await;
    }

    /// Runs one controller until a stop is requested or the leadership term ends. If the controller fails, it requests
    /// a stop. During a leadership term, it also waits for reconciliations that block their threads, because the
    /// manager releases the lease afterwards.
    pub(super) async fn run(&self, controller: &dyn AnyController, leadership: Option<&Leadership>) {
        let run = caught(controller.run_within(&self.stop, leadership)).await;
        match run.unwrap_or_else(|panic| Err(controller.panicked("its run", panic))) {
            Ok(()) => {}
            // The term was lost without a stop request, so the election waits for reconciliations that are still
            // running.
            Err(error @ ControllerError::StopTimedOut { .. }) if !self.stop.token.is_cancelled() => {
                tracing::error!(%error, "a term has ended, but some of its calls are still running");
            }
            Err(ControllerError::StopTimedOut { controller, unfinished, .. }) => {
                self.ending.add_leftovers([describe_controller(&controller, &unfinished.to_string())]);
            }
            Err(error) => self.fail(error),
        }
        if leadership.is_some() {
            self.keep_term(controller).await;
        }
    }

    /// Waits until all reconciliations of the controller have ended. The manager fails if reconciliations block their
    /// threads for longer than the shutdown timeout. If the term is lost or the stop times out, the manager drops this
    /// future without releasing the lease.
    async fn keep_term(&self, controller: &dyn AnyController) {
        self.settle(controller).await;
        controller.ended().await;
    }

    /// Waits until all reconciliations of a lost term have ended. The manager fails if reconciliations block their
    /// threads for longer than the shutdown timeout.
    pub(super) async fn settle(&self, controller: &dyn AnyController) {
        let limit = self.stop.timeout;
        if timeout(limit.max(SETTLED), controller.ended()).await.is_err() {
            self.fail(controller.still_blocked(limit));
        }
    }

    /// Returns the names of the controllers that have not stopped, with their unfinished keys. For a controller whose
    /// run was dropped with its lost term, returns the reconciliations that block their threads instead. Omits
    /// controllers whose run has already timed out.
    pub(super) fn running(&self) -> Vec<String> {
        let describe = |controller: &Arc<dyn AnyController>| match controller.unfinished() {
            Some(unfinished) => Some(describe_controller(controller.name(), &unfinished.to_string())),
            None if controller.ended().now_or_never().is_some() => None,
            None if self.ending.has_leftover(&describe_controller(controller.name(), "")) => None,
            None => Some(describe_controller(controller.name(), &controller.blocked().unwrap_or_default())),
        };
        self.controllers.iter().filter_map(describe).collect()
    }

    pub(super) fn polls(&self) -> Vec<Arc<dyn Watched>> {
        self.controllers.iter().map(|controller| controller.polls()).collect()
    }

    fn fail(&self, error: ControllerError) {
        self.ending.fail(error.into());
        self.stop.request();
    }
}

fn describe_controller(controller: &str, unfinished: &str) -> String {
    if unfinished.is_empty() {
        format!("controller {controller:?}")
    } else {
        format!("controller {controller:?} ({unfinished})")
    }
}
