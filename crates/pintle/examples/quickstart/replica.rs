//! One replica of the controller, as the script sees it.

use anyhow::Result;
use pintle::controller::{Distribution, ManagerStatus};
use pintle::prelude::*;
use tokio::task::JoinHandle;

/// A replica at work. Dropping it kills it.
pub(crate) struct Replica {
    pub(crate) name: String,
    status: ManagerStatus,
    stop: CancellationToken,
    /// None once it has been waited for.
    task: Option<JoinHandle<()>>,
}

impl Replica {
    /// Starts a replica that shares nothing with others but the cluster.
    pub(crate) fn start(name: &str, config: &ClientConfig) -> Result<Self> {
        let manager = crate::manager(&Cluster::connect(config.clone())?, name)?;
        let (status, stop) = (manager.status(), CancellationToken::new());
        let token = stop.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = manager.run(&token).await {
                tracing::error!(%error, "a replica ended");
            }
        });
        Ok(Self { name: name.into(), status, stop, task: Some(task) })
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.status.is_leader()
    }

    /// As if its node lost power: nothing is finished, and the lease is not released.
    pub(crate) async fn kill(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _aborted = task.await;
        }
    }

    /// Stops in order: work is finished, then the lease is released.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ended = task.await;
        }
    }

    /// Reconciles so far, retries among them, and how long keys waited for a worker.
    pub(crate) fn work(&self) -> (u64, u64, Distribution) {
        let parts =
            self.status.metrics().into_iter().map(|part| (part.reconciles(), part.retries, part.queue_duration));
        parts.fold((0, 0, Distribution::default()), |all, part| (all.0 + part.0, all.1 + part.1, all.2.merge(&part.2)))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
