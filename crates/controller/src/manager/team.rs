use std::sync::Arc;

use pintle_leaderelect::Leadership;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::unwind;
use crate::{Controller, ManagerError};

/// What only the leader runs.
pub(super) struct Team {
    pub(super) controllers: Vec<Controller>,
}

impl Team {
    pub(super) fn warm_up(&self) {
        self.controllers.iter().for_each(Controller::warm_up);
    }

    /// Runs all until `stop`, the end of the term, or the first failure, which stops the others.
    pub(super) async fn work(
        self: &Arc<Self>,
        stop: &CancellationToken,
        leadership: Option<&Leadership>,
    ) -> Result<(), ManagerError> {
        let stop = stop.child_token();
        let mut tasks = JoinSet::new();
        for controller in &self.controllers {
            let (controller, stop, leadership) = (controller.clone(), stop.clone(), leadership.cloned());
            tasks.spawn(async move { controller.run_under(&stop, leadership.as_ref()).await });
        }
        if tasks.is_empty() {
            // Nothing to do is done until the stop.
            match leadership {
                None => stop.cancelled().await,
                Some(leadership) => leadership.cancelled().await,
            }
        }
        let mut failure = None;
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = unwind(ended) {
                tracing::error!(%error, "stopping, since a controller failed");
                stop.cancel();
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}
