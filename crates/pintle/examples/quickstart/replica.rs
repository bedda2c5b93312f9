//! A replica of the controller, which the demo starts and stops.

use anyhow::Result;
use pintle::metrics::{Distribution, InMemoryProvider};
use pintle::prelude::*;
use tokio::task::JoinHandle;

use crate::operator;

/// A running replica of the controller. Dropping a `Replica` kills the replica.
pub(crate) struct Replica {
    pub(crate) name: String,
    status: ManagerStatus,
    metrics: InMemoryProvider,
    /// How long keys were queued until a worker took them, or `None` until the replica is killed.
    waited: Option<Distribution>,
    stop: CancellationToken,
    /// The task of the replica, or `None` after the task has ended.
    task: Option<JoinHandle<()>>,
}

pub(crate) struct Work {
    pub(crate) reconciles: u64,
    pub(crate) retries: u64,
    /// How long keys were queued until a worker took them, in seconds, or `None` before the first key.
    pub(crate) waited: Option<Distribution>,
}

impl Work {
    pub(crate) fn and(self, other: Self) -> Self {
        let waited = match (self.waited, other.waited) {
            (Some(mut one), Some(other)) => {
                one.merge(&other);
                Some(one)
            }
            (one, other) => one.or(other),
        };
        Self { reconciles: self.reconciles + other.reconciles, retries: self.retries + other.retries, waited }
    }
}

impl Replica {
    pub(crate) fn start(name: &str, config: &ClientConfig) -> Result<Self> {
        let manager = operator::replica(name, config.clone())?;
        let (status, metrics, stop) = (manager.status(), manager.metrics().clone(), CancellationToken::new());
        let token = stop.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = manager.run(&token).await {
                tracing::error!(%error, "a replica ended");
            }
        });
        Ok(Self { name: name.into(), status, metrics, waited: None, stop, task: Some(task) })
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.status.is_leader()
    }

    /// Stops the replica abruptly, as in a power failure. Aborts running reconciliations, and does not release the
    /// Lease.
    pub(crate) async fn kill(&mut self) {
        self.waited = self.work().waited;
        if let Some(task) = self.task.take() {
            task.abort();
            let _aborted = task.await;
        }
    }

    /// Stops the replica gracefully. Finishes running reconciliations, and then releases the Lease.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ended = task.await;
        }
    }

    pub(crate) fn work(&self) -> Work {
        let count = |name| self.metrics.value(&format!("controller_runtime_{name}"), &[]).unwrap_or(0.0) as u64;
        Work {
            reconciles: count("reconcile_total"),
            retries: count("reconcile_errors_total").saturating_sub(count("terminal_reconcile_errors_total")),
            waited: self.waited.clone().or_else(|| self.metrics.distribution("workqueue_queue_duration_seconds", &[])),
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
