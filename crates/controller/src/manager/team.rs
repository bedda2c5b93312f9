//! What only the leader runs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pintle_leaderelect::Leadership;
use tokio::time::timeout;

use super::ending::Ending;
use crate::blocking::Polls;
use crate::panic::{catch, caught};
use crate::stop::Stop;
use crate::{Controller, ControllerError, Leftover, ManagerError};

/// How long a new term waits for the calls of the one before.
const SETTLED: Duration = Duration::from_secs(1);

/// All controllers of a manager. They run within one future, so that none outlives it.
pub(super) struct Team {
    controllers: Vec<Controller>,
    stop: Stop,
    ending: Arc<Ending>,
}

impl Team {
    pub(super) fn new(controllers: Vec<Controller>, stop: Stop, ending: Arc<Ending>) -> Self {
        Self { controllers, stop, ending }
    }

    pub(super) fn warm_up(&self) {
        for controller in &self.controllers {
            if let Err(panic) = catch(|| controller.warm_up()) {
                self.fail(controller.panicked("a source that was to warm up", panic));
            }
        }
    }

    /// Runs all until the stop, or the end of the term. A failure gives the stop.
    pub(super) async fn work(&self, leadership: Option<&Leadership>) {
        if self.controllers.is_empty() {
            // Nothing to do is done until the stop.
            return self.stop.given_under(leadership).await;
        }
        if leadership.is_some() && timeout(SETTLED, self.all_ended()).await.is_err() {
            tracing::error!("calls of the last term block their threads, so this term is given up: {}", self.blocked());
            return;
        }
        join_all(self.controllers.iter().map(|controller| self.run(controller, leadership))).await;
    }

    /// Waits until all calls of earlier terms have ended, for as long as a stop would.
    pub(super) async fn ended(&self) -> Result<(), ManagerError> {
        let limit = self.stop.timeout();
        for controller in &self.controllers {
            if timeout(limit.max(SETTLED), controller.ended()).await.is_err() {
                return Err(controller.still_blocked(limit).into());
            }
        }
        Ok(())
    }

    async fn all_ended(&self) {
        join_all(self.controllers.iter().map(Controller::ended)).await;
    }

    fn blocked(&self) -> String {
        let blocked = self.controllers.iter().filter_map(|controller| Some((controller.name(), controller.blocked()?)));
        let told: Vec<_> = blocked.map(|(name, blocked)| format!("controller {name:?}: {blocked}")).collect();
        told.join("; ")
    }

    async fn run(&self, controller: &Controller, leadership: Option<&Leadership>) {
        let run = caught(controller.run_within(&self.stop, leadership)).await;
        match run.unwrap_or_else(|panic| Err(controller.panicked("its run", panic))) {
            Ok(()) => {}
            // Where the term was lost and not stopped, the next term waits for what is left.
            Err(error @ ControllerError::StopTimedOut { .. }) if !self.stop.token().is_cancelled() => {
                tracing::error!(%error, "a term has ended, but not all of its calls");
            }
            Err(ControllerError::StopTimedOut { controller, unfinished, .. }) => {
                self.ending.leave([named(&controller, &unfinished)]);
            }
            Err(error) => self.fail(error),
        }
    }

    /// The controllers that run.
    pub(super) fn at_work(&self) -> Vec<String> {
        let controllers = self.controllers.iter();
        controllers.filter_map(|controller| Some(named(controller.name(), &controller.unfinished()?))).collect()
    }

    /// What a watchdog looks at.
    pub(super) fn polls(&self) -> Vec<Arc<Polls>> {
        self.controllers.iter().map(Controller::polls).collect()
    }

    fn fail(&self, error: ControllerError) {
        self.ending.fail(error.into());
        self.stop.give();
    }
}

fn named(controller: &str, unfinished: &Leftover) -> String {
    match unfinished.is_empty() {
        true => format!("controller {controller:?}"),
        false => format!("controller {controller:?} ({unfinished})"),
    }
}
