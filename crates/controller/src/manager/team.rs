//! What only the leader runs.

use std::sync::Arc;

use futures_util::future::join_all;
use pintle_leaderelect::Leadership;
use pintle_meta::ObjectKey;

use super::ending::Ending;
use crate::error::list;
use crate::panic::{catch, caught};
use crate::stop::Stop;
use crate::{Controller, ControllerError};

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
        join_all(self.controllers.iter().map(|controller| self.run(controller, leadership))).await;
    }

    async fn run(&self, controller: &Controller, leadership: Option<&Leadership>) {
        let run = caught(controller.run_within(&self.stop, leadership)).await;
        match run.unwrap_or_else(|panic| Err(controller.panicked("its run", panic))) {
            Ok(()) => {}
            Err(ControllerError::StopTimedOut { controller, in_flight, .. }) => {
                self.ending.leave([named(&controller, &in_flight)]);
            }
            Err(error) => self.fail(error),
        }
    }

    /// The controllers that run.
    pub(super) fn at_work(&self) -> Vec<String> {
        let controllers = self.controllers.iter();
        controllers.filter_map(|controller| Some(named(controller.name(), &controller.in_flight()?))).collect()
    }

    fn fail(&self, error: ControllerError) {
        self.ending.fail(error.into());
        self.stop.give();
    }
}

fn named(controller: &str, in_flight: &[ObjectKey]) -> String {
    match in_flight {
        [] => format!("controller {controller:?}"),
        keys => format!("controller {controller:?} ({})", list(keys)),
    }
}
